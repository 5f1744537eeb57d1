"""The answers for each combination of picks: a table of changes with effects, and an answer for each card.

The picks are the axis values that a reader has selected as what he has, such as format f6 and access svn. A
combination maps some axes to values: `{"format": "f6"}`. A change sets one axis to another value. A step is a
change that is advised. Both are decided in advice/steps.py. The page has the answers for all combinations and
shows the answers of the picked combination.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from vcsbench import words
from vcsbench.advice import labels, steps
from vcsbench.advice.cards import Advice, Card, fits
from vcsbench.advice.effects import ChangeEffect
from vcsbench.advice.questions import CardAction
from vcsbench.advice.steps import OperationKey, Outcome, StepPlan, ValueChange, Worth
from vcsbench.axis_names import ACCESS_AXIS, FORMAT_AXIS, PACKING_AXIS
from vcsbench.plan.grid import AxisValues
from vcsbench.report.finding_tables import Reversal, describe_opposites
from vcsbench.report.results import grouped_by, unique_values

# The CSS classes of chips, which are coloured texts in a table.
CHIP_STYLES = {
    ChangeEffect.FASTER: "candidate",
    ChangeEffect.SLOWER: "reference",
    ChangeEffect.EQUAL: "equal",
    ChangeEffect.BOUNDED: "undecided",
    ChangeEffect.UNDECIDED: "undecided",
    ChangeEffect.TOO_SMALL: "small",
}
# The texts of effects without a factor. The others have one: `1.7x faster`.
EFFECT_TEXTS = {
    ChangeEffect.EQUAL: "equal",
    ChangeEffect.BOUNDED: "nearly equal",
    ChangeEffect.UNDECIDED: "undecided",
    ChangeEffect.TOO_SMALL: "too small",
}
# The headings of changes that are not in the table.
HEADINGS = {
    Worth.SLIGHT: "No reason to change",
    Worth.EQUAL: "No reason to change",
    Worth.KEEP: "Would be slower",
    Worth.UNDECIDED: "Undecided",
    Worth.TOO_SMALL: "Too small to compare",
}
NOT_COMPARED = "Measured, but not compared (the card has the reason)"
NOT_MEASURED = "Not measured for what you have"


@dataclass(frozen=True)
class Chip:
    """A coloured result of a change for an operation: its text and its times.

    `style` is a CSS class, `times` is `1.24 s → 0.62 s`, "" for several results.
    """

    text: str
    style: str
    times: str


@dataclass(frozen=True)
class ProofRow:
    """The results of a change in one state of the repository, such as `after packed` (`label`).

    `cells` has a list of chips for each operation, in the order of the table's columns; [] without a result.
    """

    label: str
    cells: Sequence[Sequence[Chip]]


@dataclass(frozen=True)
class ChangeView:
    """A part of the table: the change, its results, its price and the way back.

    `lead` is `Step 1: pack the repository.`, and `anchor` is the place of the card on the page. `conditions`
    are sentences on when to take an optional step. `opposites` is one on published results that are the
    opposite. `cost` and `undo` are sentences. A sentence is "" for a change that has none.
    """

    lead: str
    conditions: Sequence[str]
    opposites: str
    anchor: str
    cost: str
    undo: str
    rows: Sequence[ProofRow]


@dataclass(frozen=True)
class CardAnswer:
    """The answer of a card for the picks. `value` is the value to apply, "" for none.

    `kind` is one of codes.AnswerKind, `short` is the answer in a word, `sentence` the answer in full.
    """

    anchor: str
    kind: str
    short: str
    sentence: str
    value: str


@dataclass(frozen=True)
class PickAnswer:
    """The answers for one combination of picks.

    `has` has the labels of the picks, "" without a pick. `open_axes` are the labels of axes without a pick.
    `operations` are the headings of the table's columns. `remarks` are headings with a text, for changes that
    are not in the table.
    """

    picks: AxisValues
    has: str
    open_axes: Sequence[str]
    operations: Sequence[str]
    changes: Sequence[ChangeView]
    remarks: Sequence[tuple[str, str]]
    cards: Sequence[CardAnswer]

    @property
    def has_states(self) -> bool:
        """Return True if a step was also measured after another one, or all of them together."""
        return any(len(change.rows) > 1 for change in self.changes)

    @property
    def measured_alone(self) -> bool:
        """Return True if no step was measured after another one: their gains must not be multiplied."""
        return len(self.changes) > 1 and not self.has_states


@dataclass(frozen=True)
class ChangeTable:
    """The table of changes for one combination of picks, before its texts are made.

    `changes` are in the order of the table. They are the steps of the plan, and changes under a condition.
    `operations` are the columns: `{"command": "log", "cache": "cold"}`. A factor from `margin` on matters.
    """

    advice: Advice
    plan: StepPlan
    changes: Sequence[ValueChange]
    operations: Sequence[AxisValues]
    margin: float

    def number_of(self, change: ValueChange) -> int:
        """Return the place of a change in the table, from 1."""
        return next(number for number, other in enumerate(self.changes, 1) if other is change)

    @property
    def step_numbers(self) -> list[int]:
        """Return the places of the plan's steps in the table."""
        return sorted(self.number_of(step) for step in self.plan.steps)

    @property
    def shown_states(self) -> Sequence[AxisValues]:
        """Return the states that have a row: all, or only the first one for a reader without a pick.

        The first state is the reader's present state, the others are after some of the steps.
        """
        states = self.plan.states
        return states if states[0] else states[:1]


def make_pick_answers(
    advice: Advice,
    combinations: Sequence[AxisValues],
    axes: Sequence[str],
    operations: Sequence[AxisValues],
    opposites: Sequence[Reversal] = (),
) -> list[PickAnswer]:
    """Return the answers for each of the `combinations` of picks, in the same order.

    A combination is `{"format": "f6", "access": "svn"}`: what a reader has. `axes` are those on which a
    reader can pick a value. An operation is a command with a state of the caches: `{"command": "log",
    "cache": "cold"}`. `opposites` are comparisons whose published result is the opposite of the measured one.
    """
    # An `aggregate` card has one answer over all cells, so it is the same for all picks.
    cards = [card for card in advice.cards if not card.question.aggregate]
    # A cost, such as that of https, is no reason to change. Only the other cards can advise a change.
    advising_cards = [card for card in cards if not card.question.is_cost]
    # A factor from here on, such as 1.1, is a reason to change.
    margin = 1 + advice.min_effect_pct / 100
    answers = []
    for picks in combinations:
        # The changes that are worth it for this reader, in order (steps), and the others.
        plan = steps.plan_steps(advising_cards, picks, margin, advice.workload)
        table = _make_table(advice, plan, operations, margin)
        views = [_make_change_view(table, change, opposites) for change in table.changes]
        answer = PickAnswer(
            picks=picks,
            has=", ".join(labels.value_label(axis, value) for axis, value in picks.items()),
            open_axes=[labels.axis_label(axis) for axis in axes if axis not in picks],
            operations=[_label_operation(operation) for operation in table.operations],
            changes=views,
            remarks=_make_remarks(plan, advising_cards, picks, margin),
            cards=[_make_card_answer(card, picks, table) for card in cards],
        )
        answers.append(answer)
    return answers


def _make_table(
    advice: Advice, plan: StepPlan, operations: Sequence[AxisValues], margin: float
) -> ChangeTable:
    """Return the table of a plan: its steps, then each change that is worth it only under a condition.

    It has a column for each of the `operations` that some of these changes affect.
    """
    # The plan makes every DO without a condition a step. So a DO among the others has a condition: it
    # interrupts the service. DEPENDS is faster for some operations, slower for others.
    conditional = [change for change in plan.others if change.worth in (Worth.DO, Worth.DEPENDS)]
    changes = _put_load_first([*plan.steps, *conditional])
    affected = [outcome.operation for change in changes for outcome in change.outcomes]
    columns = [operation for operation in operations if operation in affected]
    return ChangeTable(advice, plan, changes, columns, margin)


def _put_load_first(changes: Sequence[ValueChange]) -> list[ValueChange]:
    """Return the changes in the order in which a reader makes them.

    A load into another format makes a repository that is not packed, so packing comes after it.
    """
    axes = [change.axis for change in changes]
    if PACKING_AXIS not in axes:
        return list(changes)
    packing = axes.index(PACKING_AXIS)
    later = changes[packing:]
    loads = [change for change in later if change.axis == FORMAT_AXIS]
    others = [change for change in later if change.axis != FORMAT_AXIS]
    return [*changes[:packing], *loads, *others]


def anchor_of(card: Card) -> str:
    return f"card-{card.question.name or card.question.axis}"


def _label_operation(operation: AxisValues) -> str:
    """Return `cold log` for `{"command": "log", "cache": "cold"}`."""
    return labels.case_label(operation, list(operation))


def _make_change_view(
    table: ChangeTable, change: ValueChange, opposites: Sequence[Reversal]
) -> ChangeView:
    """Return the part of the table for a change: a step of the plan, or an optional change.

    The part of the last step also has a row with the effect of all steps together, if there are several.
    """
    number = table.number_of(change)
    is_step = number in table.step_numbers
    rows = _make_proof_rows(table, change)
    # The last step. 0 is no number of a change.
    if number == max(table.step_numbers, default=0):
        rows += _make_row_of_all_steps(table)
    # A value without an action of its own has neither price nor way back: both are "".
    action = change.card.question.actions.get(change.value, CardAction())
    title = action.title or f"change to {labels.value_label(change.axis, change.value)}"
    name = f"Step {number}" if is_step else f"Step {number} (optional)"
    return ChangeView(
        lead=f"{name}: {title}.",
        conditions=[] if is_step else _describe_conditions(table, change),
        opposites=_describe_opposites(table, change, opposites),
        anchor=anchor_of(change.card),
        # Backticks mark commands, and the table has no other font for them.
        cost=action.cost.replace("`", ""),
        undo=action.undo.replace("`", ""),
        rows=rows,
    )


def _make_proof_rows(table: ChangeTable, change: ValueChange) -> list[ProofRow]:
    """Return a row for each state of the repository in which a change was measured.

    Labels are `as you are` (the picks) and `after packed` (after some steps). If nothing is picked, the only
    row is `all cases`.
    """
    # The first state has the picks alone, each other one the values after some steps.
    present = table.plan.states[0]
    rows = []
    for state in table.shown_states:
        # In a state after its own step, the change is made already, so it has nothing to show.
        if state.get(change.axis) != present.get(change.axis):
            continue
        outcomes = steps.find_outcomes(change.card, change.value, [state])
        cells = _make_cells(table, outcomes)
        if any(cells):
            rows.append(ProofRow(_label_state(state, present), cells))
    return rows


def _label_state(state: AxisValues, present: AxisValues) -> str:
    """Return `after packed` for a state after a step that packs. `present` is the state before all steps."""
    changed = [
        labels.value_label(axis, value)
        for axis, value in state.items()
        if value != present.get(axis)
    ]
    if changed:
        return f"after {', '.join(changed)}"
    return "as you are" if present else "all cases"


def _make_row_of_all_steps(table: ChangeTable) -> list[ProofRow]:
    """Return one row with the effect of all steps of the plan together, [] for fewer than two steps.

    Return [] also if that effect was not measured. For a reader without a pick on the axis of a step, several
    measured combinations fit the state before the steps, so none of them is compared.
    """
    if len(table.step_numbers) < 2:
        return []
    # The first state is the reader's present state, the last one is after all steps.
    before, after = table.plan.states[0], table.plan.states[-1]
    situations = table.advice.situations
    outcomes = steps.find_combined_outcomes(situations, before, after, table.margin)
    cells = _make_cells(table, outcomes)
    if not any(cells):
        return []
    numbers = words.enumeration([str(number) for number in table.step_numbers])
    return [ProofRow(f"steps {numbers} together", cells)]


def _make_cells(table: ChangeTable, outcomes: Sequence[Outcome]) -> list[list[Chip]]:
    """Return the chips of each column for the outcomes of a change, [] for a column without an outcome."""
    cells = []
    for operation in table.operations:
        of_operation = [outcome for outcome in outcomes if outcome.operation == operation]
        cells.append(_make_chips(of_operation, table.margin))
    return cells


def _make_chips(outcomes: Sequence[Outcome], margin: float) -> list[Chip]:
    """Return a chip (a coloured text) for each effect of a change on one operation.

    An outcome belongs to a single case, such as log over svn or log over http. Outcomes with the same effect
    share a chip: `1.7x faster in 2 of 3` has the factors of two of three outcomes. If an axis tells these two
    from the third one, its values stand in place of the numbers: `svn: 1.7x faster`.
    """
    chips = []
    for effect, members in grouped_by(outcomes, lambda outcome: outcome.effect).items():
        text = _describe_effect(effect, members, margin)
        others = [outcome for outcome in outcomes if outcome not in members]
        if others:
            names = _name_distinction(members, others)
            if names:
                text = f"{names}: {text}"
            else:
                text += f" in {len(members)} of {len(outcomes)}"
        chips.append(Chip(text, CHIP_STYLES[effect], _describe_times(members)))
    return chips


def _name_distinction(members: Sequence[Outcome], others: Sequence[Outcome]) -> str:
    """Return the values of the first axis that tells the outcomes `members` from the `others`: `http, svn`.

    No other outcome has one of these values. Of the changed axis, they are the values before the change. An
    axis with MAX_PARTS values or more is skipped, because they are too many to list. Return "" without an
    axis.
    """
    wheres = [{**outcome.where, **outcome.before} for outcome in members]
    wheres_of_others = [{**outcome.where, **outcome.before} for outcome in others]
    for axis in wheres[0]:
        values = unique_values(where.get(axis, "") for where in wheres)
        values_of_others = {where.get(axis, "") for where in wheres_of_others}
        # "" is the value of an axis that does not apply. It has no label.
        can_be_listed = "" not in values and len(values) < labels.MAX_PARTS
        if can_be_listed and values_of_others.isdisjoint(values):
            return ", ".join(labels.value_label(axis, value) for value in values)
    return ""


def _describe_effect(effect: ChangeEffect, outcomes: Sequence[Outcome], margin: float) -> str:
    """Return `equal`, `1.4x to 1.6x faster`, or `3.0 % slower, sure but small`.

    All `outcomes` have the effect. Differences below the margin (such as 1.1) are small.
    """
    if effect in EFFECT_TEXTS:
        return EFFECT_TEXTS[effect]
    factors = [(outcome.where, outcome.factor) for outcome in outcomes]
    text = f"{', '.join(labels.explained_ranges(factors, margin))} {effect}"
    is_slight = max(outcome.factor for outcome in outcomes) < margin
    return f"{text}, {labels.SLIGHT}" if is_slight else text


def _describe_times(outcomes: Sequence[Outcome]) -> str:
    """Return `1.24 s → 0.62 s`, "" for an unknown time. Several outcomes have no common time."""
    if len(outcomes) > 1:
        return ""
    before_s, after_s = outcomes[0].before_s, outcomes[0].after_s
    if before_s is None or after_s is None:
        return ""
    return " → ".join(labels.seconds_of_both([before_s, after_s]))


def _describe_conditions(table: ChangeTable, change: ValueChange) -> list[str]:
    """Return sentences on when to make a change that is no step: `Only if you can stop commits for a load.`

    For a change that is faster for some operations and slower for others, these come first: `It speeds up
    cold log.`, `It slows cold export over http.`
    """
    sentences = []
    if change.worth is Worth.DEPENDS:
        faster = _operations_with(change, ChangeEffect.FASTER)
        slower = _operations_with(change, ChangeEffect.SLOWER)
        # No operations are named in two cases. A user's workload already weighs them. Or an operation is
        # faster in one case and slower in another, so it would be named on both sides.
        if table.advice.workload or faster.keys() & slower.keys():
            sentences.append("It speeds up some commands and slows others.")
        else:
            sentences.append(f"It speeds up {words.enumeration(list(faster.values()))}.")
            sentences.append(f"It slows {words.enumeration(list(slower.values()))}.")
    if change.instead:
        sentences.append(f"It replaces step {table.number_of(change.instead)}.")
    if change.condition:
        sentences.append(f"Only if {change.condition}.")
    return sentences


def _operations_with(change: ValueChange, effect: ChangeEffect) -> dict[OperationKey, str]:
    """Return the labels of the operations on which a change has an effect in some case, by operation.

    Example: `{(("command", "log"), ("cache", "cold")): "cold log"}`. If the change has the effect over one of
    several accesses only, the label names this access: `cold export over http`.
    """
    by_operation = grouped_by(change.outcomes, lambda outcome: outcome.operation_key)
    label_by_operation = {}
    for operation, outcomes in by_operation.items():
        affected = [outcome.where for outcome in outcomes if outcome.effect is effect]
        if affected:
            accesses = {outcome.where.get(ACCESS_AXIS, "") for outcome in outcomes}
            affected_accesses = {where.get(ACCESS_AXIS, "") for where in affected}
            is_of_one_access = len(affected_accesses) == 1 and len(accesses) > 1
            shown = [ACCESS_AXIS] if is_of_one_access else []
            label_by_operation[operation] = labels.case_label(affected[0], shown)
    return label_by_operation


def _describe_opposites(
    table: ChangeTable, change: ValueChange, opposites: Sequence[Reversal]
) -> str:
    """Return a sentence on published results of a change that are the opposite of the measured ones, or "".

    Only results of cases that the table shows count. Example: `The published result is the opposite: export
    over http, server cache warm (f6): 1.6x slower then, 2.9x faster here.`
    """
    # The reader's value on the axis of the change, "" without a pick.
    current = table.plan.states[0].get(change.axis, "")
    shown_cases = []
    for state in table.shown_states:
        outcomes = steps.find_outcomes(change.card, change.value, [state])
        shown_cases += [outcome.where for outcome in outcomes]
    texts = []
    for reversal in opposites:
        is_shown = any(reversal.is_at(where) for where in shown_cases)
        if is_shown and reversal.is_about(change.axis, change.value, current):
            texts.append(reversal.describe(change.value, change.card.shown))
    return describe_opposites(texts)


def _make_remarks(
    plan: StepPlan, cards: Sequence[Card], picks: AxisValues, margin: float
) -> list[tuple[str, str]]:
    """Return headings with their texts: ("No reason to change", "packing: packed (cold log equal)").

    The texts are about changes that are not in the table, because they are not worth it or undecided. They
    are also about cards without a case that fits the picks (NOT_COMPARED and NOT_MEASURED).
    """
    remarks: defaultdict[str, list[str]] = defaultdict(list)
    for change in plan.others:
        # HEADINGS lacks the changes that are worth it, which are in the table, and those without an outcome.
        if change.worth in HEADINGS:
            remarks[HEADINGS[change.worth]].append(_describe_change(change, picks, margin))
    for card in cards:
        if any(fits(case.where, picks) for case in card.cases):
            continue
        # Measured cells are withheld from comparisons for a reason, for example because their output differs.
        heading = NOT_COMPARED if card.is_withheld(picks) else NOT_MEASURED
        remarks[heading].append(card.question.short.removesuffix("?"))
    return [(heading, "; ".join(texts)) for heading, texts in remarks.items()]


def _describe_change(change: ValueChange, picks: AxisValues, margin: float) -> str:
    """Return a change that is not in the table, with its result for each operation.

    Example: `settings: default settings to tuned settings (cold log equal; export undecided)`. Without a pick
    on the axis, the present value is left out.
    """
    # An operation is a tuple of items: (("command", "log"), ("cache", "cold")).
    by_operation = grouped_by(change.outcomes, lambda outcome: outcome.operation_key)
    results = []
    for operation, outcomes in by_operation.items():
        effects = ", ".join(chip.text for chip in _make_chips(outcomes, margin))
        results.append(f"{_label_operation(dict(operation))} {effects}")
    present = picks.get(change.axis)
    values = [present, change.value] if present else [change.value]
    change_text = " to ".join(labels.value_label(change.axis, value) for value in values)
    return f"{labels.axis_label(change.axis)}: {change_text} ({'; '.join(results)})"


def _make_card_answer(card: Card, picks: AxisValues, table: ChangeTable) -> CardAnswer:
    """Return the answer of a card for the picks.

    Two remarks can follow its sentence. If the card keeps the picked value, but a change in the table does
    not: `In the steps above, if you take the other steps: packed.` If the answer over all cases is another
    one: `Over all cases: yes: cold log 2.4x faster.`
    """
    axis = card.question.axis
    answer = card.answer_for(picks) if picks else card.answer
    sentences = [answer.sentence]
    # If nothing else changes, it is best to keep the value. After other steps, another value can be better.
    if answer.value and answer.value == picks.get(axis):
        for change in table.changes:
            if change.axis == axis:
                # Only a change that is no step has a condition.
                condition = "if you take the other steps"
                if change.condition:
                    condition = f"only if {change.condition}"
                label = labels.value_label(axis, change.value)
                sentences.append(f"In the steps above, {condition}: {label}.")
    if picks and card.answer.short != answer.short:
        sentences.append(f"Over all cases: {card.answer.short}: {card.answer.effect}.")
    return CardAnswer(anchor_of(card), answer.kind, answer.short, " ".join(sentences), answer.value)

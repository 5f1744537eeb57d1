"""The answers for each combination of picks: a table of changes with effects, and an answer for each card.

The picks are the axis values that a reader has selected as what he has, such as format f6 and access svn. A
combination maps some axes to values: `{"format": "f6"}`. A change sets one axis to another value. A step is a
change that is advised. Both are decided in advice/steps.py. The page has the answers for all combinations and
shows the answers of the picked combination.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vcsbench import words
from vcsbench.advice import labels, steps
from vcsbench.advice.answer_texts import is_benchmark
from vcsbench.advice.cards import Advice, Card, fits
from vcsbench.advice.decision import Where
from vcsbench.advice.questions import CardAction
from vcsbench.advice.steps import ChangeEffect, Outcome, ReaderState, StepPlan, ValueChange, Worth
from vcsbench.axis_names import FORMAT_AXIS, PACKING_AXIS
from vcsbench.report.results import grouped_by, unique_values

# The CSS classes of chips, which are coloured texts in a table.
STYLES = {
    ChangeEffect.FASTER: "candidate",
    ChangeEffect.SLOWER: "reference",
    ChangeEffect.EQUAL: "equal",
    ChangeEffect.UNDECIDED: "undecided",
    ChangeEffect.SMALL: "small",
}
# The texts of effects without a factor. The others have one: `1.7x faster`.
EFFECT_TEXTS = {
    ChangeEffect.EQUAL: "equal",
    ChangeEffect.UNDECIDED: "undecided",
    ChangeEffect.SMALL: "too small",
}
# The headings of changes that are no steps.
HEADINGS = {
    Worth.SLIGHT: "No reason to change",
    Worth.EQUAL: "No reason to change",
    Worth.KEEP: "No reason to change",
    Worth.UNDECIDED: "Undecided",
    Worth.SMALL: "Too small to compare",
}
NOT_COMPARED = "Measured, but not compared (the card has the reason)"
NOT_MEASURED = "Not measured for what you have"


@dataclass(frozen=True)
class ChipSettings:
    """What all chips depend on: `margin` is the factor from which a difference matters, such as 1.1."""

    margin: float


@dataclass(frozen=True)
class Chip:
    """A coloured result of a change for an operation: its text and its times.

    `style` is a CSS class, `times` is `1.24 s → 0.62 s`, "" for several results.
    """

    text: str
    style: str
    times: str = ""


@dataclass(frozen=True)
class ProofRow:
    """The results of a change in one state of the repository, such as `after: packed` (`label`).

    `cells` has a list of chips for each operation, in the order of the table's columns; [] without a result.
    """

    label: str
    cells: Sequence[Sequence[Chip]]


@dataclass(frozen=True)
class ChangeView:
    """A part of the table: the change, its results, its price and the way back.

    `lead` is `Do first: packed.`, and `anchor` is the place of the card on the page. `cost` and `undo` are
    sentences, "" for a change that has none. `rows` are its results.
    """

    lead: str
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

    picks: Where
    has: str
    open_axes: Sequence[str]
    operations: Sequence[str]
    changes: Sequence[ChangeView]
    remarks: Sequence[tuple[str, str]]
    cards: Sequence[CardAnswer]


def make_pick_answers(
    advice: Advice,
    combinations: Sequence[Where],
    axes: Sequence[str],
    operations: Sequence[Where],
) -> list[PickAnswer]:
    """Return the answers for each combination of picks, in the same order.

    `axes` are those on which a reader can pick a value. An operation is a command with a state of the caches:
    `{"command": "log", "cache": "cold"}`.
    """
    settings = ChipSettings(1 + advice.min_effect_pct / 100)
    return [_make_pick_answer(advice, picks, axes, operations, settings) for picks in combinations]


def _make_pick_answer(
    advice: Advice,
    picks: Where,
    axes: Sequence[str],
    operations: Sequence[Where],
    settings: ChipSettings,
) -> PickAnswer:
    """Return the answers for a reader who has the values `picks`, by axis.

    The table has a part for each step in order, then one for each change that is worth it only under a
    condition. It has a column for each operation that some of these changes affect. All other changes are
    remarks.
    """
    # A card with one answer over all cells follows no pick.
    cards = [card for card in advice.cards if not card.question.aggregate]
    # A cost, such as that of https, is no reason to change.
    choices = [card for card in cards if not card.question.is_cost]
    plan = steps.plan_steps(choices, picks, settings.margin, advice.workload)
    # DO with a condition interrupts the service. DEPENDS is faster for some operations, slower for others.
    conditional = [change for change in plan.others if change.worth in (Worth.DO, Worth.DEPENDS)]
    changes = [*plan.steps, *conditional]
    changed_operations = [outcome.operation for change in changes for outcome in change.outcomes]
    columns = [operation for operation in operations if operation in changed_operations]
    return PickAnswer(
        picks=picks,
        has=", ".join(labels.value_label(axis, value) for axis, value in picks.items()),
        open_axes=[labels.axis_label(axis) for axis in axes if axis not in picks],
        operations=[labels.case_label(operation, list(operation)) for operation in columns],
        changes=[
            _make_change_view(number, changes, plan, advice, columns, settings)
            for number in range(1, len(changes) + 1)
        ],
        remarks=_make_remarks(plan, choices, picks, settings),
        cards=[_make_card_answer(card, picks, plan, changes) for card in cards],
    )


def anchor_of(card: Card) -> str:
    return f"card-{card.question.name or card.question.axis}"


def _make_change_view(
    number: int,
    changes: Sequence[ValueChange],
    plan: StepPlan,
    advice: Advice,
    operations: Sequence[Where],
    settings: ChipSettings,
) -> ChangeView:
    """Return the part of the table for the change `number`, which counts from 1.

    `changes` are all changes of the table, first the changes of `plan.steps`. After the last of several
    steps, a row shows their effect together. `operations` are the columns.
    """
    change = changes[number - 1]
    is_step = number <= len(plan.steps)
    if not is_step:
        lead = _describe_condition(change, advice)
    elif number == 1:
        lead = "Do first"
    else:
        lead = "Then"

    rows = _make_proof_rows(change, plan.states, operations, settings)
    is_last_of_several_steps = number == len(plan.steps) and number > 1
    if is_last_of_several_steps:
        # The first state is the reader's present state, the last one is after all steps.
        before, after = plan.states[0].values, plan.states[-1].values
        outcomes = steps.together(advice.situations, before, after, settings.margin)
        chips = [_make_chips(outcomes, operation, settings) for operation in operations]
        # Without a pick on each axis of a step, the situations have no single cell to compare.
        if any(chips):
            together = "steps 1 and 2" if number == 2 else f"steps 1 to {number}"
            rows.append(ProofRow(f"{together} together", chips))

    label = labels.value_label(change.axis, change.value)
    # A value without an action of its own has neither price nor way back.
    action = change.card.question.actions.get(change.value, CardAction())
    return ChangeView(
        lead=f"{lead}: {label}{_describe_order(number, changes)}.",
        anchor=anchor_of(change.card),
        # The table has no place for commands in another font.
        cost=action.cost.replace("`", ""),
        undo=action.undo.replace("`", ""),
        rows=rows,
    )


def _describe_order(number: int, changes: Sequence[ValueChange]) -> str:
    """Return a remark on the order of a load (a change of format) and of packing, "" for other changes.

    A load makes a repository that is not packed, so a reader who does both packs last. If packing is the
    earlier step, both get a remark: the load `, before step 1 (the new repository is not packed)`, and
    packing `, after step 2 if you take that`. The result is also "" if the load comes first anyway.
    """
    axes = [change.axis for change in changes]
    if "format" not in axes or "packing" not in axes:
        return ""
    load_number = axes.index(FORMAT_AXIS) + 1
    pack_number = axes.index(PACKING_AXIS) + 1
    if load_number < pack_number:
        return ""
    if number == load_number:
        return f", before step {pack_number} (the new repository is not packed)"
    if number == pack_number:
        return f", after step {load_number} if you take that"
    return ""


def _describe_condition(change: ValueChange, advice: Advice) -> str:
    """Return the condition of a change that is no step: `Only if you can stop commits for a load`.

    A change that is faster for some operations and slower for others has the condition `Only if cold log
    matters more to you than export`. It is `Depends on what you run` if that does not tell them apart.
    """
    conditions = []
    if change.worth is Worth.DEPENDS:
        faster = _operations_with(change, ChangeEffect.FASTER)
        slower = _operations_with(change, ChangeEffect.SLOWER)
        # The user's workload already weighs the operations. And an operation that is faster in one case and
        # slower in another would be named on both sides.
        if advice.workload or not {*faster}.isdisjoint(slower):
            if change.condition:
                return f"Depends on what you run, only if {change.condition}"
            return "Depends on what you run"
        verb = "matter" if len(faster) > 1 else "matters"
        gains = words.enumeration(faster)
        losses = words.enumeration(slower)
        conditions.append(f"{gains} {verb} more to you than {losses}")
    if change.condition:
        conditions.append(change.condition)
    text = f"Only if {', and '.join(conditions)}"
    if change.instead:
        text += f", instead of step {change.instead}"
    return text


def _operations_with(change: ValueChange, effect: ChangeEffect) -> list[str]:
    """Return the labels of the operations on which a change has an effect somewhere: `cold log`."""
    operations = [outcome.operation for outcome in change.outcomes if outcome.effect is effect]
    return unique_values(labels.case_label(operation, list(operation)) for operation in operations)


def _make_proof_rows(
    change: ValueChange,
    states: Sequence[ReaderState],
    operations: Sequence[Where],
    settings: ChipSettings,
) -> list[ProofRow]:
    """Return a row for each state of the repository in which a change was measured.

    Labels are `as you are` (the picks), `after: packed` (after some steps), or `alone` (nothing is picked).
    """
    # The first state is the reader's present state, the others are after some of the steps.
    present = states[0].values
    rows = []
    for state in states:
        # In a state after its own step, the change is made already, so it has nothing to show.
        if state.values.get(change.axis) != present.get(change.axis):
            continue
        outcomes = steps.find_outcomes(change.card, change.value, [state])
        chips = [_make_chips(outcomes, operation, settings) for operation in operations]
        if not any(chips):
            continue
        changed = [
            labels.value_label(axis, value)
            for axis, value in state.values.items()
            if value != present.get(axis)
        ]
        if changed:
            label = f"after: {', '.join(changed)}"
        elif present:
            label = "as you are"
        else:
            label = "alone"
        rows.append(ProofRow(label, chips))
    return rows


def _make_chips(
    outcomes: Sequence[Outcome], operation: Where, settings: ChipSettings
) -> list[Chip]:
    """Return a chip for each effect of a change on an operation, [] if none was measured.

    An outcome belongs to a single case, such as log over svn or log over http. Outcomes with the same effect
    share a chip: `1.7x faster in 2 of 3` has the factors of two of three outcomes.
    """
    outcomes_of_operation = [outcome for outcome in outcomes if outcome.operation == operation]
    chips = []
    by_effect = grouped_by(outcomes_of_operation, lambda outcome: outcome.effect)
    for effect, members in by_effect.items():
        if effect in EFFECT_TEXTS:
            text = EFFECT_TEXTS[effect]
        else:
            factors = [outcome.factor for outcome in members]
            text = f"{labels.factors(factors)} {effect}"
            if max(factors) < settings.margin:
                text += f", {labels.SLIGHT}"
        if len(members) < len(outcomes_of_operation):
            text += f" in {len(members)} of {len(outcomes_of_operation)}"

        # Several outcomes have no common time.
        times = ""
        if len(members) == 1:
            before_s, after_s = members[0].before_s, members[0].after_s
            if before_s and after_s:
                times = " → ".join(labels.seconds_of_both([before_s, after_s]))
        chips.append(Chip(text, STYLES[effect], times))
    return chips


def _make_remarks(
    plan: StepPlan, cards: Sequence[Card], picks: Where, settings: ChipSettings
) -> list[tuple[str, str]]:
    """Return headings with their texts, for all that is not in the table of changes.

    Headings come from HEADINGS for changes that are not worth it, then NOT_COMPARED and NOT_MEASURED for
    cards without a case that fits the picks. Texts of one heading are joined by `; `.
    """
    texts: dict[str, list[str]] = {}
    for change in plan.others:
        # Changes that are worth it are in the table.
        heading = HEADINGS.get(change.worth)
        if heading:
            texts.setdefault(heading, []).append(_make_remark(change, picks, settings))
    for card in cards:
        has_case = any(fits(case.where, picks) for case in card.cases)
        if has_case:
            continue
        current = picks.get(card.question.axis, "")
        # Measured cells are withheld from comparisons for a reason, for example because their output differs.
        is_withheld = any(
            fits(comparison.where, picks) and comparison.compares(current)
            for comparison in card.withheld
        )
        heading = NOT_COMPARED if is_withheld else NOT_MEASURED
        texts.setdefault(heading, []).append(card.question.short.removesuffix("?"))
    return [(heading, "; ".join(texts_of_heading)) for heading, texts_of_heading in texts.items()]


def _make_remark(change: ValueChange, picks: Where, settings: ChipSettings) -> str:
    """Return a change with its result for each operation, as a remark.

    Example: `settings, default settings to tuned settings (cold log equal; export undecided)`. Without a pick
    on the axis, the present value is left out.
    """
    operations: list[Where] = []
    for outcome in change.outcomes:
        if outcome.operation not in operations:
            operations.append(outcome.operation)
    results = []
    for operation in operations:
        label = labels.case_label(operation, list(operation))
        chips = _make_chips(change.outcomes, operation, settings)
        results.append(f"{label} {', '.join(chip.text for chip in chips)}")
    name = labels.value_label(change.axis, change.value)
    present = picks.get(change.axis)
    if present:
        name = f"{labels.value_label(change.axis, present)} to {name}"
    return f"{labels.axis_label(change.axis)}, {name} ({'; '.join(results)})"


def _make_card_answer(
    card: Card, picks: Where, plan: StepPlan, changes: Sequence[ValueChange]
) -> CardAnswer:
    """Return the answer of a card for the picks.

    Its sentence ends with a remark in two cases. The card keeps the picked value, but the table changes it:
    `In the steps above, if you take the other steps: packed.` Or the answer over all cases is another one:
    `Over all cases: yes: cold log 2.4x faster.`
    """
    axis = card.question.axis
    answer = card.answer_for(picks) if picks else card.answer
    sentence = answer.sentence
    # If nothing changes, it is best to keep the value. After the other steps, another value can be better.
    keeps_value = bool(answer.value) and answer.value == picks.get(axis)
    for change in changes:
        if keeps_value and change.axis == axis:
            condition = "if you take the other steps"
            if change not in plan.steps and change.condition:
                condition = f"only if {change.condition}"
            label = labels.value_label(axis, change.value)
            sentence += f" In the steps above, {condition}: {label}."
    if picks and card.answer.short != answer.short:
        sentence += f" Over all cases: {card.answer.short}: {card.answer.effect}."
    return CardAnswer(anchor_of(card), answer.kind, answer.short, sentence, answer.value)


def choose_operations(operations: Sequence[Where]) -> list[Where]:
    """Return the operations that people run, without the operations of svnbench, Subversion's benchmark.

    An operation maps the axes command and cache to values. If there are only commands of svnbench, return
    all.
    """
    run_by_people = [operation for operation in operations if not is_benchmark(operation)]
    return run_by_people or list(operations)

"""The answers for each combination of picks: a table of changes with effects, and an answer for each card.

The picks are the axis values that a reader has selected as what he has, such as format f6 and access svn. A
combination maps some axes to values: `{"format": "f6"}`. A change sets one axis to another value. A step is a
change that is advised. Both are decided in advice/steps.py. The page has the answers for all combinations and
shows the answers of the picked combination.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from vcsbench import words
from vcsbench.advice import labels, steps
from vcsbench.advice.answer_texts import is_benchmark
from vcsbench.advice.cards import Advice, Card, fits
from vcsbench.advice.decision import Where
from vcsbench.advice.questions import CardAction
from vcsbench.advice.steps import (
    ChangeEffect,
    OperationKey,
    Outcome,
    ReaderState,
    StepPlan,
    ValueChange,
    Worth,
)
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, COMMAND_AXIS, FORMAT_AXIS, PACKING_AXIS
from vcsbench.report.finding_tables import Reversal, describe_opposites
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
# A range is split by the values of an axis into so many parts at most.
MAX_PARTS = 3


@dataclass(frozen=True)
class Chip:
    """A coloured result of a change for an operation: its text and its times.

    `style` is a CSS class, `times` is `1.24 s → 0.62 s`, "" for several results. `is_part`: other comparisons
    of the operation have another effect. `is_range`: it has the factors of several comparisons.
    """

    text: str
    style: str
    times: str = ""
    is_part: bool = False
    is_range: bool = False


class RowKind(StrEnum):
    """The state in which a row of the table was measured."""

    PRESENT = "present"
    AFTER = "after other steps"
    TOGETHER = "before and after several steps"


@dataclass(frozen=True)
class ProofRow:
    """The results of a change in one state of the repository, such as `after packed` (`label`).

    `cells` has a list of chips for each operation, in the order of the table's columns; [] without a result.
    """

    label: str
    cells: Sequence[Sequence[Chip]]
    kind: RowKind = RowKind.PRESENT


@dataclass(frozen=True)
class ChangeView:
    """A part of the table: the change, its results, its price and the way back.

    `lead` is `Step 1: pack the repository.`, and `anchor` is the place of the card on the page. `conditions`
    are sentences on when to take an optional step. `opposites` is one on published results that advise
    against it, "" without any.
    `cost` and `undo` are sentences, "" for a change that has none. `rows` are its results.
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
    are not in the table. `key` has the words of the table that need an explanation, with their meanings.
    """

    picks: Where
    has: str
    open_axes: Sequence[str]
    operations: Sequence[str]
    changes: Sequence[ChangeView]
    key: Sequence[tuple[str, str]]
    remarks: Sequence[tuple[str, str]]
    cards: Sequence[CardAnswer]


def make_pick_answers(
    advice: Advice,
    combinations: Sequence[Where],
    axes: Sequence[str],
    operations: Sequence[Where],
    opposites: Sequence[Reversal] = (),
) -> list[PickAnswer]:
    """Return the answers for each combination of picks, in the same order.

    `axes` are those on which a reader can pick a value. An operation is a command with a state of the caches:
    `{"command": "log", "cache": "cold"}`. `opposites` are results whose published ones have the other sign.
    """
    margin = 1 + advice.min_effect_pct / 100
    return [
        _make_pick_answer(advice, picks, axes, operations, margin, opposites)
        for picks in combinations
    ]


def _make_pick_answer(
    advice: Advice,
    picks: Where,
    axes: Sequence[str],
    operations: Sequence[Where],
    margin: float,
    opposites: Sequence[Reversal],
) -> PickAnswer:
    """Return the answers for a reader who has the values `picks`, by axis.

    The table has a part for each step, then one for each change that is worth it only under a condition. A
    load stands before packing (_put_load_first). The table has a column for each operation that some of these
    changes affect. All other changes are remarks.
    """
    # An `aggregate` card has one answer over all cells, so it is the same for all picks.
    cards = [card for card in advice.cards if not card.question.aggregate]
    # A cost, such as that of https, is no reason to change.
    choices = [card for card in cards if not card.question.is_cost]
    plan = steps.plan_steps(choices, picks, margin, advice.workload)
    # plan_steps() makes every DO without a condition a step. So a DO among the others has a condition: it
    # interrupts the service. DEPENDS is faster for some operations, slower for others.
    conditional = [change for change in plan.others if change.worth in (Worth.DO, Worth.DEPENDS)]
    changes = _put_load_first([*plan.steps, *conditional])
    changed_operations = [outcome.operation for change in changes for outcome in change.outcomes]
    columns = [operation for operation in operations if operation in changed_operations]
    views = [
        _make_change_view(number, changes, plan, advice, columns, opposites)
        for number in range(1, len(changes) + 1)
    ]
    return PickAnswer(
        picks=picks,
        has=", ".join(labels.value_label(axis, value) for axis, value in picks.items()),
        open_axes=[labels.axis_label(axis) for axis in axes if axis not in picks],
        operations=[labels.case_label(operation, list(operation)) for operation in columns],
        changes=views,
        key=_explain_rows(views),
        remarks=_make_remarks(plan, choices, picks, margin),
        cards=[_make_card_answer(card, picks, plan, changes) for card in cards],
    )


def anchor_of(card: Card) -> str:
    return f"card-{card.question.name or card.question.axis}"


def _put_load_first(changes: Sequence[ValueChange]) -> list[ValueChange]:
    """Return the changes in the order in which a reader makes them.

    A load into another format makes a repository that is not packed, so packing comes after it.
    """
    axes = [change.axis for change in changes]
    if PACKING_AXIS not in axes:
        return list(changes)
    packing = axes.index(PACKING_AXIS)
    later = changes[packing + 1 :]
    loads = [change for change in later if change.axis == FORMAT_AXIS]
    rest = [change for change in later if change.axis != FORMAT_AXIS]
    return [*changes[:packing], *loads, changes[packing], *rest]


def _make_change_view(
    number: int,
    changes: Sequence[ValueChange],
    plan: StepPlan,
    advice: Advice,
    operations: Sequence[Where],
    opposites: Sequence[Reversal],
) -> ChangeView:
    """Return the part of the table for the change `number`, which counts from 1.

    `changes` are all changes of the table, in its order. After the last of several steps of the plan, a row
    shows their effect together. `operations` are the columns.
    """
    margin = 1 + advice.min_effect_pct / 100
    change = changes[number - 1]
    # A change under a condition is no step of the plan: the reader may leave it out.
    advised = [n for n, other in enumerate(changes, 1) if _is_step(other, plan)]
    is_optional = number not in advised
    rows = _make_proof_rows(change, plan.states, operations, margin)
    if len(advised) > 1 and number == advised[-1]:
        # The first state is the reader's present state, the last one is after all steps.
        before, after = plan.states[0].values, plan.states[-1].values
        outcomes = steps.find_combined_outcomes(advice.situations, before, after, margin)
        chips = [_make_chips(outcomes, operation, margin) for operation in operations]
        # Without a pick on each axis of a step, the situations have no single cell to compare.
        if any(chips):
            together = f"steps {words.enumeration([str(n) for n in advised])} together"
            rows.append(ProofRow(together, chips, RowKind.TOGETHER))

    # A value without an action of its own has neither price nor way back.
    action = change.card.question.actions.get(change.value, CardAction())
    title = action.title or f"change to {labels.value_label(change.axis, change.value)}"
    conditions: list[str] = []
    if is_optional:
        conditions = _describe_conditions(change, changes, plan, advice)
    return ChangeView(
        lead=f"Step {number}{' (optional)' if is_optional else ''}: {title}.",
        conditions=conditions,
        opposites=_describe_opposites(change, _shown_states(plan.states), opposites),
        anchor=anchor_of(change.card),
        # The table has no place for commands in another font.
        cost=action.cost.replace("`", ""),
        undo=action.undo.replace("`", ""),
        rows=rows,
    )


def _is_step(change: ValueChange, plan: StepPlan) -> bool:
    return any(change is step for step in plan.steps)


def _describe_conditions(
    change: ValueChange, changes: Sequence[ValueChange], plan: StepPlan, advice: Advice
) -> list[str]:
    """Return sentences on when to make a change that is no step: `Only if you can stop commits for a load.`

    A change that is faster for some operations and slower for others names them first: `It speeds up cold
    log. It slows cold export over http.`
    """
    sentences = []
    if change.worth is Worth.DEPENDS:
        faster = _operations_with(change, ChangeEffect.FASTER)
        slower = _operations_with(change, ChangeEffect.SLOWER)
        # The user's workload already weighs the operations. And an operation that is faster in one case and
        # slower in another would be named on both sides.
        if advice.workload or not faster.keys().isdisjoint(slower):
            sentences.append("It speeds up some commands and slows others.")
        else:
            sentences.append(f"It speeds up {words.enumeration(list(faster.values()))}.")
            sentences.append(f"It slows {words.enumeration(list(slower.values()))}.")
    if change.instead:
        replaced = plan.steps[change.instead - 1]
        number = next(n for n, other in enumerate(changes, 1) if other is replaced)
        sentences.append(f"It replaces step {number}.")
    if change.condition:
        sentences.append(f"Only if {change.condition}.")
    return sentences


def _describe_opposites(
    change: ValueChange, states: Sequence[ReaderState], opposites: Sequence[Reversal]
) -> str:
    """Return a sentence on published results that advise against a change, "" without any.

    Only results of cases that the table shows count, which are those in the `states`. Example: `The published
    result is the opposite: export over http, server cache warm (f6): 1.6x slower then, 2.9x faster here.`
    """
    current = states[0].values.get(change.axis, "")
    cases = []
    for state in states:
        outcomes = steps.find_outcomes(change.card, change.value, [state])
        cases += [outcome.where for outcome in outcomes]
    texts = []
    for reversal in opposites:
        is_shown = any(reversal.is_at(where) for where in cases)
        if is_shown and reversal.is_about(change.axis, change.value, current):
            texts.append(reversal.describe(change.value, change.card.shown))
    return describe_opposites(texts)


def _explain_rows(views: Sequence[ChangeView]) -> list[tuple[str, str]]:
    """Return the words and signs of the table that occur in it, with their meanings."""
    rows = [row for view in views for row in view.rows]
    chips = [chip for row in rows for chips in row.cells for chip in chips]
    key = []
    if any(row.kind is RowKind.AFTER for row in rows):
        key.append(("after X", "you have made change X"))
    if any(row.kind is RowKind.TOGETHER for row in rows):
        key.append(("together", "all these steps, compared with what you have"))
    if any(chip.is_part for chip in chips):
        key.append(("in 3 of 4", "3 of 4 comparisons have this result"))
    if any(chip.is_range for chip in chips):
        key.append(("1.4x to 3.5x", "smallest and largest factor"))
    if any(chip.times for chip in chips):
        key.append(
            ("a → b", "times before and after (geometric means), where it is one comparison")
        )
    if any(not chips for row in rows for chips in row.cells):
        key.append(("\u2013", "not measured"))
    return key


def _operations_with(change: ValueChange, effect: ChangeEffect) -> dict[OperationKey, str]:
    """Return the labels of the operations on which a change has an effect somewhere: `cold log`.

    If the change has the effect over one access only, the label has it: `cold export over http`.
    """
    found = {}
    of_operations = grouped_by(change.outcomes, lambda outcome: outcome.operation_key)
    for key, outcomes in of_operations.items():
        affected = [outcome for outcome in outcomes if outcome.effect is effect]
        if affected:
            accesses = unique_values(outcome.where.get(ACCESS_AXIS, "") for outcome in outcomes)
            hit = unique_values(outcome.where.get(ACCESS_AXIS, "") for outcome in affected)
            shown = [ACCESS_AXIS] if len(hit) == 1 < len(accesses) else []
            found[key] = labels.case_label(affected[0].where, shown)
    return found


def _make_proof_rows(
    change: ValueChange,
    states: Sequence[ReaderState],
    operations: Sequence[Where],
    margin: float,
) -> list[ProofRow]:
    """Return a row for each state of the repository in which a change was measured.

    Labels are `as you are` (the picks) and `after packed` (after some steps). If nothing is picked, the only
    row is `all cases`.
    """
    # The first state is the reader's present state, the others are after some of the steps.
    present = states[0].values
    rows = []
    for state in _shown_states(states):
        # In a state after its own step, the change is made already, so it has nothing to show.
        if state.values.get(change.axis) != present.get(change.axis):
            continue
        outcomes = steps.find_outcomes(change.card, change.value, [state])
        chips = [_make_chips(outcomes, operation, margin) for operation in operations]
        if not any(chips):
            continue
        changed = [
            labels.value_label(axis, value)
            for axis, value in state.values.items()
            if value != present.get(axis)
        ]
        if changed:
            rows.append(ProofRow(f"after {', '.join(changed)}", chips, RowKind.AFTER))
        else:
            rows.append(ProofRow("as you are" if present else "all cases", chips))
    return rows


def _shown_states(states: Sequence[ReaderState]) -> Sequence[ReaderState]:
    """Return the states that the table shows: all, or the first one for a reader who has picked nothing."""
    return states if states[0].values else states[:1]


def _make_chips(outcomes: Sequence[Outcome], operation: Where, margin: float) -> list[Chip]:
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
            text = f"{_describe_factors(members, margin)} {effect}"
            if max(factors) < margin:
                text += f", {labels.SLIGHT}"
        is_part = len(members) < len(outcomes_of_operation)
        if is_part:
            text += f" in {len(members)} of {len(outcomes_of_operation)}"

        # Several outcomes have no common time.
        times = ""
        if len(members) == 1:
            before_s, after_s = members[0].before_s, members[0].after_s
            if before_s and after_s:
                times = " → ".join(labels.seconds_of_both([before_s, after_s]))
        is_range = effect not in EFFECT_TEXTS and len(members) > 1
        chips.append(Chip(text, STYLES[effect], times, is_part, is_range))
    return chips


def _describe_factors(outcomes: Sequence[Outcome], margin: float) -> str:
    """Return the range of the factors of outcomes with one effect: `1.4x to 1.6x`.

    If the values of an axis explain the range, each value has its own: `f6 1.4x to 1.6x, f7 3.2x to 3.5x`.
    They explain it if the ranges of all values are apart by two margins or more, as two uncertain numbers.
    """
    for axis in outcomes[0].where:
        # Each operation has a column of its own.
        if axis in (COMMAND_AXIS, CACHE_AXIS):
            continue
        ranges: dict[str, list[float]] = {}
        for outcome in outcomes:
            ranges.setdefault(outcome.where.get(axis, ""), []).append(outcome.factor)
        in_order = sorted(ranges.values(), key=min)
        is_apart = all(
            min(larger) >= margin**2 * max(smaller) for smaller, larger in pairwise(in_order)
        )
        if 1 < len(ranges) <= MAX_PARTS and is_apart:
            parts = [
                f"{labels.value_label(axis, value)} {labels.factors(factors)}"
                for value, factors in ranges.items()
            ]
            return ", ".join(parts)
    return labels.factors([outcome.factor for outcome in outcomes])


def _make_remarks(
    plan: StepPlan, cards: Sequence[Card], picks: Where, margin: float
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
            texts.setdefault(heading, []).append(_make_remark(change, picks, margin))
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


def _make_remark(change: ValueChange, picks: Where, margin: float) -> str:
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
        chips = _make_chips(change.outcomes, operation, margin)
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

"""The answers for each combination of picks: a table of changes with effects, and an answer for each card.

The picks are the axis values that a reader has selected as what he has, such as format f6 and access svn. A
combination maps some axes to values: `{"format": "f6"}`. A change sets one axis to another value. A step is a
change that is advised. Both are decided in advice/steps.py. The page has the answers for all combinations and
shows the answers of the picked combination.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice import labels, steps
from vcsbench.advice.answers import make_answer
from vcsbench.advice.cards import Advice, Card, fits
from vcsbench.advice.decision import Pair
from vcsbench.advice.questions import CardAction
from vcsbench.advice.steps import OperationKey, Outcome, StepPlan, ValueChange, Worth
from vcsbench.advice.wishes import Wish, WorkOfChange, work_of_change
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, FORMAT_AXIS, PACKING_AXIS
from vcsbench.codes import Call
from vcsbench.plan.grid import AxisValues
from vcsbench.report.answer_texts import AnswerText, describe_answer
from vcsbench.report.finding_tables import Reversal
from vcsbench.report.results import grouped_by, unique_values
from vcsbench.statistics.comparisons import is_difference
from vcsbench.statistics.texts import OUTCOMES

# The headings of changes that are not in the table.
HEADINGS = {
    Worth.SLIGHT: "No reason to change",
    Worth.EQUAL: "No reason to change",
    Worth.KEEP: "Would be slower",
    Worth.DEPENDS: "Faster for some commands, slower for others",
    Worth.UNDECIDED: "Undecided",
    Worth.TOO_SMALL: "Too small to compare",
}
# A step shows a command of so many lines. A longer one is in its card.
MOST_COMMAND_LINES = 3
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
    """The results of a change for a reader in one state, such as `after packed` (`label`).

    `cells` has a list of chips for each operation, in the order of the table's columns; [] without a result.
    """

    label: str
    cells: Sequence[Sequence[Chip]]


@dataclass(frozen=True)
class ChangeView:
    """A change in the table of changes, with its results (`rows`), its price and the way back.

    `lead` is `Step 1: pack the repository.`, and `anchor` is the place of the card on the page. `conditions`
    are sentences on when to take an optional step, `reversal` is one on the opposite published results.
    `command` is the command to type, "" if there is none, or several, or a long one. `cost` and `undo` are
    sentences. A sentence is "" if it does not apply.
    """

    lead: str
    conditions: Sequence[str]
    reversal: str
    anchor: str
    command: str
    cost: str
    undo: str
    rows: Sequence[ProofRow]


@dataclass(frozen=True)
class CardAnswer:
    """The answer of a card (a question) for the picks. `value` is the value to apply, "" for none.

    `kind` is one of codes.AnswerKind, `short` is the answer in a word, `effect` has its gains and losses, and
    `sentence` is the answer in full.
    """

    anchor: str
    kind: str
    short: str
    effect: str
    sentence: str
    value: str


@dataclass(frozen=True)
class PickAnswer:
    """The answers for one combination of picks.

    `has` has the labels of the picks, "" without a pick. `open_axes` are the labels of axes without a pick.
    `operations` are the headings of the table's columns, without the state of the caches if all have the
    same one (`state`). `remarks` are headings with a text, for changes that are not in the table.
    """

    picks: AxisValues
    has: str
    open_axes: Sequence[str]
    operations: Sequence[str]
    state: str
    changes: Sequence[ChangeView]
    remarks: Sequence[tuple[str, str]]
    cards: Sequence[CardAnswer]
    # The changes that make an operation of the reader faster. The page adds them.
    wishes: Sequence[Wish] = ()

    @property
    def has_states(self) -> bool:
        """Return True if a step was also measured after another one, or all of them together."""
        return any(len(change.rows) > 1 for change in self.changes)

    @property
    def measured_alone(self) -> bool:
        """Return True if no step was measured after another one: their gains must not be multiplied."""
        return len(self.changes) > 1 and not self.has_states


class ReversedPair(NamedTuple):
    """A comparison (pair) of a card in one case, whose published result (`reversal`) is the opposite."""

    card: Card
    where: AxisValues
    pair: Pair
    reversal: Reversal


@dataclass(frozen=True)
class ChangeTable:
    """The table of changes for one combination of picks, before its texts are made.

    `changes` are in the order of the table: the steps of the plan, and optional changes. `operations` are the
    columns: `{"command": "log", "cache": "cold"}`. `work` has the time that changes took here.
    `reversed_pairs` are of all cards.
    """

    advice: Advice
    plan: StepPlan
    changes: Sequence[ValueChange]
    operations: Sequence[AxisValues]
    work: WorkOfChange
    reversed_pairs: Sequence[ReversedPair]

    @property
    def picks(self) -> AxisValues:
        """Return the picks, which are the reader's values before all steps: `{"format": "f6"}`."""
        return self.plan.states[0]

    def number_of(self, change: ValueChange) -> int:
        """Return the place of a change in the table, from 1."""
        return next(number for number, other in enumerate(self.changes, 1) if other is change)

    @property
    def step_numbers(self) -> list[int]:
        """Return the places of the plan's steps in the table."""
        return sorted(self.number_of(step) for step in self.plan.steps)

    @cached_property
    def sets_of_changes(self) -> list[list[ValueChange]]:
        """Return the changes that a reader may take together: all steps, and all steps with an optional one.

        A set has two changes or more, on different axes, in the order of the table.
        """
        optional = [change for change in self.changes if change not in self.plan.steps]
        sets = []
        for added in ([], *([change] for change in optional)):
            chosen = [change for change in self.changes if change in [*self.plan.steps, *added]]
            axes = {change.axis for change in chosen}
            # Two changes of one axis exclude each other.
            if 1 < len(chosen) == len(axes):
                sets.append(chosen)
        return sets


def make_pick_answers(
    advice: Advice,
    combinations: Sequence[AxisValues],
    axes: Sequence[str],
    operations: Sequence[AxisValues],
    work: WorkOfChange,
    opposites: Sequence[Reversal] = (),
) -> list[PickAnswer]:
    """Return the answers for each of the `combinations` of picks, in the same order.

    Picks are the values that a reader selects as what he has: `{"format": "f6"}`. Their answers are a table
    of the changes that he may make, and an answer of each card (a question, such as `Pack the repository?`).

    `axes` are those on which a reader can choose a value. `operations` are the possible columns of the table:
    `{"command": "log", "cache": "cold"}`. `opposites` are comparisons whose published result is the opposite
    of the measured one.
    """
    # An `aggregate` card has one answer over all cells, so it is the same for all picks.
    cards = [card for card in advice.cards if not card.question.aggregate]
    # A card on a cost, such as the cost of https, recommends no change.
    advising_cards = [card for card in cards if not card.question.is_cost]
    reversed_pairs = _find_reversed_pairs(advising_cards, opposites)
    cards_with_texts = [(card, describe_answer(card.basis_for({}))) for card in cards]
    answers = []
    for picks in combinations:
        # The plan has the advised changes (steps) in their order, and the other changes.
        plan = steps.plan_steps(advising_cards, picks)
        table = _make_table(advice, plan, operations, work, reversed_pairs)
        change_views = [_make_change_view(table, change) for change in table.changes]
        answer = PickAnswer(
            picks=picks,
            has=", ".join(labels.value_label(axis, value) for axis, value in picks.items()),
            open_axes=[labels.axis_label(axis) for axis in axes if axis not in picks],
            operations=_label_operations(table.operations),
            state=_label_common_state(table.operations),
            changes=change_views,
            remarks=_make_remarks(table, advising_cards, picks),
            cards=[
                _make_card_answer(card, picks, table, text_over_all)
                for card, text_over_all in cards_with_texts
            ],
        )
        answers.append(answer)
    return answers


def _find_reversed_pairs(
    cards: Sequence[Card], opposites: Sequence[Reversal]
) -> list[ReversedPair]:
    """Return the comparisons of the cards whose published result is the opposite of the measured one."""
    found = []
    for card in cards:
        axis = card.question.axis
        for case in card.counted_cases:
            for pair in case.pairs:
                for reversal in opposites:
                    if reversal.is_of(axis, pair, case.where):
                        found.append(ReversedPair(card, case.where, pair, reversal))
    return found


def _make_table(
    advice: Advice,
    plan: StepPlan,
    operations: Sequence[AxisValues],
    work: WorkOfChange,
    reversed_pairs: Sequence[ReversedPair],
) -> ChangeTable:
    """Return the table of changes for one reader: the advised changes (steps), and optional ones.

    Its columns are those `operations`, such as the cold log, with which at least one of its changes was
    measured.
    """
    # The first state has the reader's values before all steps, which are his picks: {"format": "f6"}.
    picks = plan.states[0]
    optional = [change for change in plan.others if _is_optional(change, picks)]
    changes = _put_loads_before_packing([*plan.steps, *optional])
    measured = [outcome.operation for change in changes for outcome in change.outcomes]
    columns = [operation for operation in operations if operation in measured]
    return ChangeTable(advice, plan, changes, columns, work, reversed_pairs)


def _is_optional(change: ValueChange, picks: AxisValues) -> bool:
    """Return True for a change that is no step of the plan, but still belongs in the table.

    A change that makes some operations faster and others slower (DEPENDS) belongs there if its card
    recommends it for the picks. A change that is worth it (DO) belongs there, too. It is no step because it
    has a condition, such as a stop of commits.
    """
    if change.worth is Worth.DEPENDS:
        recommended_value = change.card.answer_for(picks).value
        return change.value == recommended_value
    return change.worth is Worth.DO


def _put_loads_before_packing(changes: Sequence[ValueChange]) -> list[ValueChange]:
    """Return the changes in an order in which all loads into another format come before packing.

    A load makes a repository that is not packed, so packing before it would be lost.
    """
    axes = [change.axis for change in changes]
    if PACKING_AXIS not in axes:
        return list(changes)
    packing_index = axes.index(PACKING_AXIS)
    before_packing = changes[:packing_index]
    others = changes[packing_index:]
    loads = [change for change in others if change.axis == FORMAT_AXIS]
    rest = [change for change in others if change.axis != FORMAT_AXIS]
    return [*before_packing, *loads, *rest]


def anchor_of(card: Card) -> str:
    return f"card-{card.question.name or card.question.axis}"


def _label_operations(operations: Sequence[AxisValues]) -> list[str]:
    """Return `["cold log"]` for `[{"command": "log", "cache": "cold"}]`, without a state that all have."""
    names_cache = not _label_common_state(operations)
    return [labels.case_label(operation, list(operation), names_cache) for operation in operations]


def _label_common_state(operations: Sequence[AxisValues]) -> str:
    """Return the label of the state of the caches that several operations share, "" without one."""
    states = {operation.get(CACHE_AXIS, "") for operation in operations}
    if len(operations) < 2 or len(states) > 1:
        return ""
    return labels.value_label(CACHE_AXIS, states.pop())


def _make_change_view(table: ChangeTable, change: ValueChange) -> ChangeView:
    """Return the part of the table for one change: `Step 2: ...`, or `Step 3 (optional): ...`."""
    number = table.number_of(change)
    is_step = number in table.step_numbers
    rows = _make_proof_rows(table, change)
    # The last change of a set gets a further row with the effect of the whole set.
    for changes in table.sets_of_changes:
        if changes[-1] is change:
            rows += _make_row_of_set(table, changes)
    # A value without commands has an action whose texts are "".
    action = change.card.question.actions.get(change.value, CardAction())
    title = action.title or f"change to {labels.value_label(change.axis, change.value)}"
    name = f"Step {number}" if is_step else f"Step {number} (optional)"
    # The table has no place for several commands, or for a long one. The reader finds them on the card.
    command = action.steps[0].command if len(action.steps) == 1 else ""
    if len(command.splitlines()) > MOST_COMMAND_LINES:
        command = ""
    # Backticks mark commands, and the table has no other font for commands.
    cost = action.cost.replace("`", "")
    # Such as `4 s for 20,000 revisions`; None if the time is unknown or short.
    measured_work = work_of_change(change.axis, change.value, table.work)
    if measured_work:
        cost = f"{cost} It took {measured_work.text} here.".strip()
    return ChangeView(
        lead=f"{name}: {title}.",
        conditions=[] if is_step else _describe_conditions(table, change),
        reversal=_describe_reversal(table, change),
        anchor=anchor_of(change.card),
        command=command,
        cost=cost,
        undo=action.undo.replace("`", ""),
        rows=rows,
    )


def _make_proof_rows(table: ChangeTable, change: ValueChange) -> list[ProofRow]:
    """Return the measured results of a change, with a row for each state of the reader that has any.

    A state has the reader's values before all steps, which are his picks, or after some of them. The change
    to f7 may have the rows `as you are` for {"format": "f6", "packing": "nopack"}, and `after packed` for
    {"format": "f6", "packing": "pack"}.
    """
    # Without picks, only the results over all cases are shown.
    states = table.plan.states if table.picks else [table.picks]
    rows = []
    for state in states:
        # A change starts from the reader's own value. After a step on the same axis, he has another value.
        has_own_value = state.get(change.axis) == table.picks.get(change.axis)
        if not has_own_value:
            continue
        outcomes = steps.find_outcomes(change.card, change.value, [state])
        cells = _make_cells(table, outcomes)
        if any(cells):
            rows.append(ProofRow(_label_state(state, table.picks), cells))
    return rows


def _label_state(state: AxisValues, picks: AxisValues) -> str:
    """Return `after packed` for a state after steps, otherwise `as you are`, or `all cases` without picks."""
    changed = [
        labels.value_label(axis, value) for axis, value in state.items() if value != picks.get(axis)
    ]
    if changed:
        return f"after {', '.join(changed)}"
    return "as you are" if picks else "all cases"


def _make_row_of_set(table: ChangeTable, changes: Sequence[ValueChange]) -> list[ProofRow]:
    """Return a row with the measured effect of several changes together, in a list; [] if it is unknown.

    Example: the picks are f6 and not packed, and the changes are to f7 and to packed. So the time of (f6, not
    packed) is compared with that of (f7, packed). If f6 is the only pick, (f6, packed) is possible, too. The
    effect is then unknown.
    """
    before = table.picks
    new_values = {change.axis: change.value for change in changes}
    after = {**before, **new_values}
    # A situation, such as the cold log over http, has the time of each combination that was measured in it.
    situations = table.advice.situations
    outcomes = steps.find_combined_outcomes(situations, before, after, table.advice.margin)
    cells = _make_cells(table, outcomes)
    if not any(cells):
        return []
    numbers = words.enumeration([str(table.number_of(change)) for change in changes])
    return [ProofRow(f"steps {numbers} together", cells)]


def _make_cells(table: ChangeTable, outcomes: Sequence[Outcome]) -> list[list[Chip]]:
    """Return the chips of each column for the outcomes of a change, [] for a column without an outcome."""
    cells = []
    for operation in table.operations:
        matching = [outcome for outcome in outcomes if outcome.operation == operation]
        cells.append(_make_chips(matching, table.advice.margin))
    return cells


def _make_chips(outcomes: Sequence[Outcome], margin: float) -> list[Chip]:
    """Return a chip (a coloured text) for each effect of a change on one operation, such as the cold log.

    An outcome is the effect in one case, such as the cold log over http. If the change is faster over http
    and over svn, and equal over file, the chips are `http, svn: 1.7x faster` and `file: equal`. If no axis
    separates the faster cases from the equal one, they are `1.7x faster in 2 of 3` and `equal in 1 of 3`.
    `margin` is the smallest factor worth noting, such as 1.1.
    """
    chips = []
    # If start-up hides a part of an effect, the factor is only the least one. Such outcomes have a chip of
    # their own: `at least 4.8x faster`.
    by_effect = grouped_by(outcomes, lambda outcome: (outcome.effect, outcome.is_at_least))
    for (effect, _), outcomes_of_chip in by_effect.items():
        text = _describe_effect(effect, outcomes_of_chip, margin)
        other_outcomes = [outcome for outcome in outcomes if outcome not in outcomes_of_chip]
        if other_outcomes:
            names = _name_distinction(outcomes_of_chip, other_outcomes)
            if names:
                text = f"{names}: {text}"
            else:
                text += f" in {len(outcomes_of_chip)} of {len(outcomes)}"
        chips.append(Chip(text, OUTCOMES[effect].style, _describe_times(outcomes_of_chip)))
    return chips


def _name_distinction(outcomes: Sequence[Outcome], other_outcomes: Sequence[Outcome]) -> str:
    """Return the values of the first axis that distinguishes `outcomes` from the other outcomes: `http, svn`.

    None of the other outcomes has one of these values. An axis on which `outcomes` have MAX_PARTS (3) values
    or more is skipped: these are too many to list. Return "" if no axis distinguishes the outcomes.
    """
    # The values of each outcome by axis. `before` has the value that is changed: {"format": "f6"}.
    cells = [{**outcome.where, **outcome.before} for outcome in outcomes]
    other_cells = [{**outcome.where, **outcome.before} for outcome in other_outcomes]
    for axis in cells[0]:
        values = unique_values(cell.get(axis, "") for cell in cells)
        other_values = {cell.get(axis, "") for cell in other_cells}
        # The value "", of an axis that does not apply, has no label.
        can_be_listed = "" not in values and len(values) < labels.MAX_PARTS
        if can_be_listed and other_values.isdisjoint(values):
            return ", ".join(labels.value_label(axis, value) for value in values)
    return ""


def _describe_effect(effect: Call, outcomes: Sequence[Outcome], margin: float) -> str:
    """Return `equal`, `1.4x to 1.6x faster`, or `at least 4.8x faster`.

    All `outcomes` have the effect, and either all of their factors are least ones (is_at_least), or none is.
    """
    words_of_effect = OUTCOMES[effect]
    if not is_difference(effect):
        return words_of_effect.short
    factors = [(outcome.where, outcome.factor) for outcome in outcomes]
    text = f"{', '.join(labels.explained_ranges(factors, margin))} {words_of_effect.text}"
    return f"at least {text}" if outcomes[0].is_at_least else text


def _describe_times(outcomes: Sequence[Outcome]) -> str:
    """Return `1.24 s → 0.62 s`, "" for an unknown time. Several outcomes have no common time."""
    if len(outcomes) > 1:
        return ""
    before_s, after_s = outcomes[0].before_s, outcomes[0].after_s
    if before_s is None or after_s is None:
        return ""
    has_factor = is_difference(outcomes[0].effect)
    return " → ".join(labels.seconds_of_both([before_s, after_s], has_factor))


def _describe_conditions(table: ChangeTable, change: ValueChange) -> list[str]:
    """Return sentences on when to make an optional change: `Only if you can stop commits for a load.`

    If the change is faster for some operations and slower for others, sentences on these come first: `It
    speeds up cold log.`, `It slows cold export over http.`
    """
    sentences = []
    if change.worth is Worth.DEPENDS:
        faster = _operations_with(change, Call.FASTER)
        slower = _operations_with(change, Call.SLOWER)
        # No operation is named if a workload has weighed all of them already, or if one is faster over http
        # and slower over svn.
        if change.card.workload or faster.keys() & slower.keys():
            sentences.append("It speeds up some commands and slows others.")
        else:
            sentences.append(f"It speeds up {words.enumeration(list(faster.values()))}.")
            sentences.append(f"It slows {words.enumeration(list(slower.values()))}.")
    # `instead` is a step on the same axis that gains less.
    if change.instead:
        sentences.append(f"It replaces step {table.number_of(change.instead)}.")
    if change.condition:
        sentences.append(f"Only if {change.condition}.")
    return sentences


def _describe_reversal(table: ChangeTable, change: ValueChange) -> str:
    """Return a sentence on a change whose published results are the opposite of the measured ones, or "".

    Example: `Published results are the opposite in 3 comparisons, the largest for cold log over svn (f7):
    1.6x slower then, 2.9x faster here.`
    """
    reversals = _find_reversals_of_change(table, change)
    if not reversals:
        return ""
    # By its logarithm, a ratio of 1/2 is as large as one of 2.
    largest = max(reversals, key=lambda reversal: abs(math.log(reversal.published_ratio)))
    text = largest.describe(change.value, change.card.shown)
    if len(reversals) == 1:
        return f"The published result is the opposite: {text}."
    return (
        f"Published results are the opposite in {words.count_of(len(reversals), 'comparison')}, the largest "
        f"for {text}."
    )


def _find_reversals_of_change(table: ChangeTable, change: ValueChange) -> list[Reversal]:
    """Return the comparisons of a change that have the opposite published result, and fit the reader's picks.

    Example: the picks are f6 and svn, and the change is to f7. A comparison of f6 with f7 counts if it was
    measured over svn. Without picks, each comparison with f7 counts.
    """
    # The reader's value on the axis of the change, "" if it is unknown.
    own_value = table.picks.get(change.axis, "")
    reversals = []
    # The card is compared, and not its axis, because several cards can be about one axis.
    for card, case, pair, reversal in table.reversed_pairs:
        is_of_card = anchor_of(card) == anchor_of(change.card)
        # With "", pair.compares() is True for each pair.
        is_of_change = change.value in pair.sides and pair.compares(own_value)
        is_of_reader = fits(case, table.picks)
        if is_of_card and is_of_change and is_of_reader:
            reversals.append(reversal)
    return reversals


def _operations_with(change: ValueChange, effect: Call) -> dict[OperationKey, str]:
    """Return the labels of the operations on which a change has an effect, such as FASTER, in some case.

    Example: `{(("command", "log"), ("cache", "cold")): "cold log"}`. If an operation was timed over several
    accesses, and the change has the effect over one access only, the label names it: `cold export over http`.
    """
    by_operation = grouped_by(change.outcomes, lambda outcome: outcome.operation_key)
    label_by_operation = {}
    for operation, outcomes in by_operation.items():
        # The cases with the effect: {"command": "log", "cache": "cold", "access": "svn"}.
        affected = [outcome.where for outcome in outcomes if outcome.effect is effect]
        if affected:
            accesses = {outcome.where.get(ACCESS_AXIS, "") for outcome in outcomes}
            affected_accesses = {where.get(ACCESS_AXIS, "") for where in affected}
            is_of_one_access = len(affected_accesses) == 1 and len(accesses) > 1
            label_axes = [ACCESS_AXIS] if is_of_one_access else []
            # All affected cases have the same label, so the first one stands for all.
            label_by_operation[operation] = labels.case_label(affected[0], label_axes)
    return label_by_operation


def _make_remarks(
    table: ChangeTable, cards: Sequence[Card], picks: AxisValues
) -> list[tuple[str, str]]:
    """Return the remarks below the table of changes: headings, each with a text.

    A remark is on a change that is not in the table, such as `("No reason to change", "packed (cold log:
    equal)")`. Or it is on a card (a question, such as `Pack?`) without a comparison for the picks, such as
    `("Not measured for what you have", "Pack")`.
    """
    remarks: defaultdict[str, list[str]] = defaultdict(list)
    for change in table.plan.others:
        if change in table.changes:
            continue
        # The worth sums up the results of a change, such as EQUAL. NOT_MEASURED (no result) has no heading.
        if change.worth in HEADINGS:
            remarks[HEADINGS[change.worth]].append(_describe_change(change, picks))
    for card in cards:
        if _has_comparison(card, picks):
            continue
        # A comparison is withheld for a reason, for example because the outputs of both sides differ.
        heading = NOT_COMPARED if card.is_withheld(picks) else NOT_MEASURED
        remarks[heading].append(card.question.short.removesuffix("?"))
    return [(heading, "; ".join(texts)) for heading, texts in remarks.items()]


def _has_comparison(card: Card, picks: AxisValues) -> bool:
    """Return True if a card compares the picked value of its axis, in a case that fits the other picks.

    A card on formats that compares f7 with f8 has no comparison for a reader of f6. Without a pick on the
    card's axis, any comparison will do.
    """
    # With "", case.compares() is True for each case.
    own_value = picks.get(card.question.axis, "")
    return any(fits(case.where, picks) and case.compares(own_value) for case in card.cases)


def _describe_change(change: ValueChange, picks: AxisValues) -> str:
    """Return the text of a change, with its result for each operation, such as the cold log.

    Example: `default settings to tuned settings (cold log: equal; export: undecided)`. If the reader has not
    picked the value that he has now, the text is `tuned settings (...)`.
    """
    # An outcome is the result of one comparison. The keys are (("command", "log"), ("cache", "cold")).
    by_operation = grouped_by(change.outcomes, lambda outcome: outcome.operation_key)
    names = _label_operations([dict(operation) for operation in by_operation])
    results = []
    for name, outcomes in zip(names, by_operation.values(), strict=True):
        # A chip has the text of one effect. Several are `http: 1.2x faster` and `svn: equal`.
        effects = ", ".join(chip.text for chip in _make_chips(outcomes, change.card.margin))
        results.append(f"{name}: {effects}")
    own_value = picks.get(change.axis)
    values = [own_value, change.value] if own_value else [change.value]
    change_text = " to ".join(labels.value_label(change.axis, value) for value in values)
    return f"{change_text} ({'; '.join(results)})"


def _make_card_answer(
    card: Card, picks: AxisValues, table: ChangeTable, text_over_all: AnswerText
) -> CardAnswer:
    """Return the answer of a card (a question, such as `Pack?`) for the values that a reader has picked.

    `text_over_all` is the answer over all cases, and so the answer without picks ({}). If the picks have
    another answer, both are named: `Over all cases: yes: cold log 2.4x faster.`
    """
    basis = card.basis_for(picks)
    answer = make_answer(basis)
    text = describe_answer(basis)
    sentences = [text.sentence]
    # A card assumes that the reader changes nothing else. With f6, it may recommend to stay not packed. After
    # a step to f7, packing may be better. The table then has this change, which seems to contradict the card.
    keeps_value = bool(answer.value) and answer.value == picks.get(card.question.axis)
    if keeps_value:
        for change in table.changes:
            if change.axis == card.question.axis:
                sentences.append(_refer_to_change(change))
    if text_over_all.short != text.short:
        sentences.append(f"Over all cases: {text_over_all.short}: {text_over_all.effect}.")
    return CardAnswer(
        anchor=anchor_of(card),
        kind=answer.kind,
        short=text.short,
        effect=text.effect,
        sentence=" ".join(sentences),
        value=answer.value,
    )


def _refer_to_change(change: ValueChange) -> str:
    """Return `In the steps above, if you take the other steps: packed.`, or with the change's condition."""
    # Only an optional change may have a condition, such as `you can stop commits`.
    when = f"only if {change.condition}" if change.condition else "if you take the other steps"
    return f"In the steps above, {when}: {labels.value_label(change.axis, change.value)}."

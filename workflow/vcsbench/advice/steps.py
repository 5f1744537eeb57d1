"""The order of the changes that are worth it for a reader, decided once for each combination of picks.

Picks are the values that a reader of the page has chosen: `{"access": "http", "format": "f6"}`. A change
sets one axis to another value. It is judged by the comparisons that fit the reader's picks, and by those
that fit the picks after earlier changes. A step is a change that the reader is advised to make.
"""

import enum
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from vcsbench.advice.answer_texts import is_benchmark
from vcsbench.advice.cards import Card, Choice, Situation, fits
from vcsbench.advice.decision import Case, Pair, Row, WeightedOperation, Where
from vcsbench.axis_names import CACHE_AXIS, COMMAND_AXIS
from vcsbench.codes import AnswerKind, Call, Result


class ChangeEffect(enum.StrEnum):
    """The effect of a change in one comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUAL = "equal"
    UNDECIDED = "undecided"
    SMALL = "too small to compare"


class Worth(enum.StrEnum):
    """The worth of a change over all its comparisons, the best first."""

    DO = "do"  # somewhere faster by more than the margin, nowhere slower by more
    DEPENDS = "depends"  # the same, but somewhere slower by more than the margin
    SLIGHT = "slight"  # all differences are below the margin
    EQUAL = "equal"
    UNDECIDED = "undecided"
    SMALL = "too small"
    KEEP = "keep"  # somewhere slower by more than the margin, nowhere faster by more
    NOT_MEASURED = "not measured"


# The order of changes: those of a card, and all that are no steps.
RANKS = {worth: rank for rank, worth in enumerate(Worth)}
# The values of command and cache, as items: log over svn and over http are one operation.
OperationKey = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a change in one case, with the flags of its comparison.

    `factor` is at least 1. Times are in seconds, None if unknown.
    """

    where: Where
    effect: ChangeEffect
    factor: float
    before_s: float | None
    after_s: float | None
    flags: Sequence[str]

    @property
    def operation(self) -> Where:
        """Return the command and the state of the caches."""
        # A case without a state of caches has no value there.
        axes = [axis for axis in self.where if axis in (COMMAND_AXIS, CACHE_AXIS)]
        return {axis: self.where[axis] for axis in axes if self.where[axis]}

    @property
    def operation_key(self) -> OperationKey:
        return tuple(self.operation.items())


@dataclass(frozen=True)
class ReaderState:
    """The state of a reader after some steps: the values by axis, and the numbers of these steps.

    Example: `{"access": "http", "packing": "pack"}` after (1,), the first step.
    """

    values: Where
    steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class ValueChange:
    """A change of an axis to a value, with its outcomes and its worth.

    `gain` orders the changes. It is the sum of the logarithms of the factors. Slower outcomes count with a
    minus sign, so the gain is below 0 for a loss. `instead` is the number of the step that it would replace,
    0 for none.
    """

    card: Card
    value: str
    outcomes: Sequence[Outcome]
    worth: Worth
    gain: float
    instead: int = 0

    @property
    def axis(self) -> str:
        return self.card.question.axis

    @property
    def condition(self) -> str:
        action = self.card.question.actions.get(self.value)
        return action.condition if action else ""


@dataclass(frozen=True)
class StepPlan:
    """The steps for a reader in their order, the other changes, and the states after the steps.

    `states` begins with the picks alone, and ends with the state after all steps. Between them are the states
    after each selection of the steps, because a reader may leave out any of them.
    """

    steps: Sequence[ValueChange]
    others: Sequence[ValueChange]
    states: Sequence[ReaderState]


def combinations_of(
    grid: Iterable[Row], axes: Mapping[str, Sequence[str]], most: int
) -> list[Where]:
    """Return the combinations of picks that some cell fits, at most `most`. The first one is {}.

    `grid` has a row for each cell: its values by axis, and `skip` if it is not measured. `axes` are those
    that the page offers, with their values. With too many combinations, the last axes are left out.

    Example: `{"access": ["http"], "format": ["f6", "f7"]}` gives {}, {"format": "f6"}, {"format": "f7"},
    {"access": "http"}, {"access": "http", "format": "f6"} and {"access": "http", "format": "f7"}.
    """
    # Thousands of cells have few different values of these axes. So there are few fits to check below.
    cells: dict[tuple[str, ...], Where] = {}
    for row in grid:
        if not row.get("skip"):
            cell = {axis: row.get(axis, "") for axis in axes}
            cells[tuple(cell.values())] = cell
    # "" stands for no pick.
    choices = {axis: ["", *values] for axis, values in axes.items()}
    while math.prod(len(values) for values in choices.values()) > most:
        choices.popitem()
    combinations: list[Where] = []
    for values in product(*choices.values()):
        picks = {axis: value for axis, value in zip(choices, values, strict=True) if value}
        if any(fits(cell, picks) for cell in cells.values()):
            combinations.append(picks)
    return combinations


def plan_steps(
    cards: Sequence[Card], picks: Where, margin: float, workload: Sequence[WeightedOperation] = ()
) -> StepPlan:
    """Return the changes for a reader who has `picks`. A factor from the `margin` (such as 1.1) on matters.

    One step after the other is chosen (_next_step) until no card has a further one. A change is a possible
    step if it is worth it, does not interrupt the service (`condition`), and its axis has no step yet. Only
    the best one of each axis counts. It is judged in the states before and after the earlier steps.

    All other axes have their best change in `others`. An axis with a step has another change there if that
    change gains more and has a condition.
    """
    steps: list[ValueChange] = []
    states = [ReaderState(picks)]
    while True:
        taken = {step.axis for step in steps}
        open_cards = [card for card in cards if card.question.axis not in taken]
        changes_of_cards = [_changes_of(card, states, margin, workload) for card in open_cards]
        # The best change of each card that interrupts no service.
        possible = []
        for changes in changes_of_cards:
            # The changes of a card are sorted, the best one first.
            worthwhile = [change for change in changes if change.worth is Worth.DO]
            possible += [change for change in worthwhile if not change.condition][:1]
        if not possible:
            break
        step = _next_step(possible, states[-1])
        steps.append(step)
        # A reader may leave out any step. So each state stays, and a copy of it has the step, too: after two
        # steps there are four states. Fewer steps come first, so the last state has all of them.
        with_step = [
            ReaderState({**state.values, step.axis: step.value}, (*state.steps, len(steps)))
            for state in states
        ]
        states = sorted([*states, *with_step], key=lambda state: len(state.steps))

    others = [changes[0] for changes in changes_of_cards if changes]
    # A step has no condition. Another value of the same axis can gain more, but interrupt the service. It is
    # named as an alternative to the step. `states[:1]` is the reader's present state.
    for number, step in enumerate(steps, 1):
        for change in _changes_of(step.card, states[:1], margin, workload):
            if change.worth is Worth.DO and change.condition and change.gain > step.gain:
                others.append(replace(change, instead=number))
                break
    others.sort(key=lambda change: (RANKS[change.worth], -change.gain))
    return StepPlan(steps, others, states)


def _next_step(possible: Sequence[ValueChange], state: ReaderState) -> ValueChange:
    """Return the change with the largest gain among those that lose nowhere, if there are any.

    Otherwise return the change with the largest gain of all.
    """
    by_gain = sorted(possible, key=lambda change: -change.gain)
    for change in by_gain:
        if not _loses(change, by_gain, state):
            return change
    return by_gain[0]


def _loses(change: ValueChange, possible: Sequence[ValueChange], state: ReaderState) -> bool:
    """Return True if a change is slower somewhere, now or after one of the other possible changes.

    For example, a setting of the server may be faster with f7 and slower with f6. It should then come after
    the change to f7 rather than before it.
    """
    outcomes = list(change.outcomes)
    for other in possible:
        if other.axis != change.axis:
            after = ReaderState({**state.values, other.axis: other.value})
            outcomes += find_outcomes(change.card, change.value, [after])
    return any(outcome.effect is ChangeEffect.SLOWER for outcome in outcomes)


def find_outcomes(card: Card, value: str, states: Sequence[ReaderState]) -> list[Outcome]:
    """Return the outcomes of the change to a value, from the comparisons that fit the states.

    The states have the reader's values after more and more steps. An operation is a command with a state of
    caches. It has the outcomes in the last state in which one of its comparisons is decided. If none is
    decided, it has the outcomes of the first state with a comparison.

    Return [] if no comparison fits. Commands of svnbench are left out if there are others.
    """
    by_operation: dict[OperationKey, list[Outcome]] = {}
    for state in states:
        for key, outcomes in _outcomes_in(card, value, state).items():
            is_decided = any(
                outcome.effect not in (ChangeEffect.UNDECIDED, ChangeEffect.SMALL)
                for outcome in outcomes
            )
            # A later state replaces an earlier one only with something decided.
            if is_decided or key not in by_operation:
                by_operation[key] = outcomes
    found = [outcome for outcomes in by_operation.values() for outcome in outcomes]
    # Nobody runs the commands of svnbench at work. They count only if no other command was compared.
    for_work = [outcome for outcome in found if not is_benchmark(outcome.where)]
    return for_work if for_work else found


def _outcomes_in(card: Card, value: str, state: ReaderState) -> dict[OperationKey, list[Outcome]]:
    """Return the outcomes of the change to a value in one state, by operation.

    They come from comparisons of the value with the reader's value, or with any value if that is unknown.
    Return {} if the reader has the value already, as after an earlier step.
    """
    current = state.values.get(card.question.axis, "")
    outcomes: dict[OperationKey, list[Outcome]] = {}
    if current == value:
        return outcomes
    for case in card.cases:
        if not fits(case.where, state.values):
            continue
        for pair in case.pairs:
            if value in pair.sides and pair.compares(current) and not pair.is_noise_check:
                outcome = _outcome(case, pair, value)
                outcomes.setdefault(outcome.operation_key, []).append(outcome)
    return outcomes


def _outcome(case: Case, pair: Pair, value: str) -> Outcome:
    """Return the outcome of the change to `value`, one side of a pair, from the other side.

    Example: f6 takes 3 s (baseline), and f7 takes 1.5 s (candidate). The change to f7 is FASTER by the factor
    2.0, from 3 to 1.5 s. The change to f6 is SLOWER by 2.0, from 1.5 to 3 s.
    """
    ratio = pair.ratio
    before_s, after_s = pair.times
    # The ratio is baseline / candidate, so above 1 if the change to the candidate is faster. A change to the
    # baseline goes the other way.
    if value == pair.baseline:
        ratio = 1 / ratio
        before_s, after_s = after_s, before_s
    effect = ChangeEffect.UNDECIDED
    # A called difference counts also below the margin: many of them can be worth it.
    if pair.call in (Call.FASTER, Call.SLOWER):
        effect = ChangeEffect.FASTER if ratio >= 1 else ChangeEffect.SLOWER
    elif pair.result == Result.EQUAL:
        effect = ChangeEffect.EQUAL
    elif pair.result == Result.TOO_SMALL:
        effect = ChangeEffect.SMALL
    return Outcome(
        where=case.where,
        effect=effect,
        factor=max(ratio, 1 / ratio),
        # A time of 0 is unknown.
        before_s=before_s or None,
        after_s=after_s or None,
        flags=pair.flags,
    )


def _change_to(
    card: Card,
    value: str,
    states: Sequence[ReaderState],
    margin: float,
    workload: Sequence[WeightedOperation],
) -> ValueChange:
    """Return the change of a card's axis to a value, judged by its outcomes in the states.

    Its gain adds the logarithms of the factors, so that 2x faster and 2x slower cancel each other. A workload
    weighs the operations. Without one, each operation has the same weight.
    """
    outcomes = find_outcomes(card, value, states)
    numbers = Counter(outcome.operation_key for outcome in outcomes)
    gain = 0.0
    for outcome in outcomes:
        # An operation such as the cold log may have one outcome over http and one over svn. Each of the two
        # then has half of its weight.
        share = _weight(outcome.where, workload) / numbers[outcome.operation_key]
        if outcome.effect is ChangeEffect.FASTER:
            gain += share * math.log(outcome.factor)
        elif outcome.effect is ChangeEffect.SLOWER:
            gain -= share * math.log(outcome.factor)
    return ValueChange(card, value, outcomes, _worth(outcomes, gain, margin, bool(workload)), gain)


def _worth(outcomes: Sequence[Outcome], gain: float, margin: float, has_workload: bool) -> Worth:
    """Return the worth of a change, the first that holds:

    - NOT_MEASURED without an outcome.
    - DO or DEPENDS if some outcome is faster by the margin (such as 1.1) or more. With a workload, it is DO
      if the `gain` is above 0. Without one, it is DO if no outcome is slower by the margin or more.
    - KEEP if some outcome is slower by the margin or more.
    - SLIGHT if there are smaller differences, EQUAL if some outcome is equal.
    - SMALL if all outcomes are mostly start-up, otherwise UNDECIDED.
    """
    if not outcomes:
        return Worth.NOT_MEASURED
    faster = [outcome.factor for outcome in outcomes if outcome.effect is ChangeEffect.FASTER]
    slower = [outcome.factor for outcome in outcomes if outcome.effect is ChangeEffect.SLOWER]
    is_loss = max(slower, default=1.0) >= margin
    if max(faster, default=1.0) >= margin:
        # Only a workload says how often each operation runs, and so whether the gains outweigh the losses.
        # Without a workload, the reader has to decide.
        is_good = gain > 0 if has_workload else not is_loss
        return Worth.DO if is_good else Worth.DEPENDS
    if is_loss:
        return Worth.KEEP
    if faster or slower:
        return Worth.SLIGHT
    effects = {outcome.effect for outcome in outcomes}
    if ChangeEffect.EQUAL in effects:
        return Worth.EQUAL
    if effects == {ChangeEffect.SMALL}:
        return Worth.SMALL
    return Worth.UNDECIDED


def _weight(where: Where, workload: Sequence[WeightedOperation]) -> float:
    """Return the weight of a case in the workload, 1 without a workload."""
    if not workload:
        return 1.0
    return sum(operation.weight for operation in workload if fits(where, operation.where))


def _changes_of(
    card: Card, states: Sequence[ReaderState], margin: float, workload: Sequence[WeightedOperation]
) -> list[ValueChange]:
    """Return the changes of a card, the best first.

    If the reader's value of the axis is known, there is a change to each other value. If it is unknown, there
    is only the change to the value that the card recommends. Without a recommendation, there is a change to
    each value.
    """
    present = states[0].values.get(card.question.axis, "")
    # All values that are compared with another one, in the order of the comparisons.
    values: list[str] = []
    for case in card.cases:
        for pair in case.pairs:
            for side in pair.sides:
                if side != present and side not in values and not pair.is_noise_check:
                    values.append(side)
    if not present:
        # The recommendation may depend on the steps. The last state has the most of them, and is asked first.
        for state in reversed(states):
            answer = card.answer_for(state.values)
            if answer.kind in (AnswerKind.VALUE, AnswerKind.DEPENDS):
                values = [answer.value]
                break
    changes = [_change_to(card, value, states, margin, workload) for value in values]
    return sorted(changes, key=lambda change: (RANKS[change.worth], -change.gain))


def _choice_of_reader(situation: Situation, values: Where) -> Choice | None:
    """Return the choice of a situation that a reader has; None if no choice fits, or several do.

    Several fit if the reader's values leave an axis open: with f7 alone, both (f7, packed) and (f7, not
    packed) fit.
    """
    if not values:
        return None
    fitting = [
        choice for choice in situation.choices if fits({**situation.where, **choice.values}, values)
    ]
    return fitting[0] if len(fitting) == 1 else None


def find_combined_outcomes(
    situations: Sequence[Situation], before: Where, after: Where, margin: float
) -> list[Outcome]:
    """Return the measured effect of several steps together, in each situation.

    `before` has the reader's values by axis, `after` the values after the steps. Each is looked up among the
    choices of the situation. A situation is left out if one of the two was not measured, or is not unique.

    The effect is EQUAL if the two times differ by less than the margin. The two choices were not compared
    with each other, but each with the best choice. So the effect is FASTER or SLOWER only if these
    comparisons show a difference. Otherwise it is UNDECIDED.
    """
    outcomes = []
    for situation in situations:
        if not fits(situation.where, before) or is_benchmark(situation.where):
            continue
        now = _choice_of_reader(situation, before)
        then = _choice_of_reader(situation, after)
        if not now or not then:
            continue
        # Above 1 if the steps make the operation faster.
        ratio = now.seconds / then.seconds
        # If neither choice is slower than the best one, they are not shown to differ.
        is_called = now.is_slower or then.is_slower
        # A choice may have a mean far above the best choice's mean, and wide intervals. Without a call, it
        # may still be as fast as the best choice. Then the ratio of the two choices is open, too.
        is_open = any(
            not choice.is_slower and not choice.is_equal and choice.ratio >= margin
            for choice in (now, then)
        )
        effect = ChangeEffect.UNDECIDED
        if max(ratio, 1 / ratio) < margin:
            effect = ChangeEffect.EQUAL
        elif is_called and not is_open:
            effect = ChangeEffect.FASTER if ratio > 1 else ChangeEffect.SLOWER
        outcomes.append(
            Outcome(
                where=situation.where,
                effect=effect,
                factor=max(ratio, 1 / ratio),
                before_s=now.seconds,
                after_s=then.seconds,
                flags=(),
            )
        )
    return outcomes

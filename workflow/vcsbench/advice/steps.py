"""The order of the changes that are worth it for a reader, decided once for each combination of picks.

Picks are the values that a reader of the page has chosen: `{"access": "http", "format": "f6"}`. A change
sets one axis to another value. A step is a change that the reader is advised to make. A state has the
reader's values after some of the steps.
"""

import enum
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from vcsbench.advice.cards import Card, Choice, Situation, fits, share_weights
from vcsbench.advice.decision import Case, Pair, Row, WeightedOperation
from vcsbench.advice.effects import is_benchmark
from vcsbench.advice.labels import at_least_1
from vcsbench.axis_names import CACHE_AXIS, COMMAND_AXIS
from vcsbench.codes import AnswerKind, Call, Result
from vcsbench.plan.grid import AxisValues

# The effects of decided comparisons. The others are BOUNDED, UNDECIDED and TOO_SMALL.
DECIDED = (Call.FASTER, Call.SLOWER, Call.EQUAL)


class Worth(enum.StrEnum):
    """The worth of a change over all its comparisons, the best first.

    A gain is a case that becomes faster by the margin or more, a loss one that becomes slower by the margin
    or more.
    """

    DO = "do"  # gains, and no loss; with a workload: gains that outweigh the losses
    DEPENDS = "depends"  # gains and losses; with a workload: gains that do not outweigh the losses
    SLIGHT = "slight"  # the certain part of each difference is below the margin
    EQUAL = "equal"
    UNDECIDED = "undecided"
    TOO_SMALL = "too small"
    KEEP = "keep"  # losses, and no gain
    NOT_MEASURED = "not measured"


RANKS = {worth: rank for rank, worth in enumerate(Worth)}
# The values of command and cache, as items: log over svn and over http are one operation.
OperationKey = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a change in one case.

    `factor` is at least 1. Times are in seconds, None if unknown. `before` has the value that is changed:
    `{"format": "f6"}`. With `is_at_least`, start-up hides a part of the effect: its factor is `factor` or
    more.
    """

    where: AxisValues
    effect: Call
    factor: float
    before_s: float | None
    after_s: float | None
    before: AxisValues = field(default_factory=dict)
    is_at_least: bool = False

    @property
    def operation(self) -> AxisValues:
        """Return the command and the state of the caches, without those that do not apply ("")."""
        axes = [axis for axis in self.where if axis in (COMMAND_AXIS, CACHE_AXIS)]
        return {axis: self.where[axis] for axis in axes if self.where[axis]}

    @property
    def operation_key(self) -> OperationKey:
        return tuple(self.operation.items())


@dataclass(frozen=True)
class ValueChange:
    """A change of an axis to a value, with its outcomes and its worth.

    `gain` is the sum of the logarithms of the factors, those of slower outcomes with a minus sign. `instead`
    is the step that the change would replace, None without one.
    """

    card: Card
    value: str
    outcomes: Sequence[Outcome]
    worth: Worth
    gain: float
    instead: "ValueChange | None" = None

    @property
    def axis(self) -> str:
        return self.card.question.axis

    @property
    def condition(self) -> str:
        """Return the clause after "Only if", such as `you can stop commits`; "" for a change without one."""
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
    states: Sequence[AxisValues]


def combinations_of(
    grid: Iterable[Row], axes: Mapping[str, Sequence[str]], most: int
) -> list[AxisValues]:
    """Return the combinations of values that a reader may pick, at most `most`. The first one is {}: no pick.

    With more than `most` combinations, the last axes are left out. After that, combinations that no measured
    cell fits are left out. Example: `{"access": ["http"], "format": ["f6"]}` gives {}, {"format": "f6"},
    {"access": "http"} and {"access": "http", "format": "f6"}.
    """
    # Thousands of cells have few different values of these axes, so few cells have to be compared below.
    cells: dict[tuple[str, ...], AxisValues] = {}
    for row in grid:
        if not row.get("skip"):
            cell = {axis: row.get(axis, "") for axis in axes}
            cells[tuple(cell.values())] = cell
    # "" stands for no pick.
    choices = {axis: ["", *values] for axis, values in axes.items()}
    while math.prod(len(values) for values in choices.values()) > most:
        choices.popitem()
    combinations: list[AxisValues] = []
    for values in product(*choices.values()):
        picks = {axis: value for axis, value in zip(choices, values, strict=True) if value}
        if any(fits(cell, picks) for cell in cells.values()):
            combinations.append(picks)
    return combinations


def plan_steps(cards: Sequence[Card], picks: AxisValues) -> StepPlan:
    """Return the steps for a reader who has `picks`, the other changes, and the states after the steps.

    Example for the picks {"format": "f6"}: the steps are first f7, then pack. Other changes are the best one
    of each card without a step, and changes that would replace a step: f8 gains more than f7, but has a
    condition, such as a stop of commits.
    """
    steps: list[ValueChange] = []
    while True:
        # The reader's values now, and after each selection of the steps so far. A change may be measured in
        # some of them only, so it is judged in all of them.
        states = _states_after(picks, steps)
        axes_of_steps = {step.axis for step in steps}
        open_cards = [card for card in cards if card.question.axis not in axes_of_steps]
        changes_by_card = [_changes_of(card, states) for card in open_cards]
        next_step = _next_step(changes_by_card, state=states[-1])
        if next_step is None:
            break
        # A step can make other changes better or worse, so the next pass judges them again. An axis has one
        # step at most, so the loop ends.
        steps.append(next_step)
    # A list has the best change of its card first.
    other_changes = [changes[0] for changes in changes_by_card if changes]
    other_changes += _better_on_condition(steps, picks)
    return StepPlan(steps, sorted(other_changes, key=_rank), states)


def _better_on_condition(steps: Sequence[ValueChange], picks: AxisValues) -> list[ValueChange]:
    """Return for each step the change of its axis that gains more, but has a condition, if there is one.

    Such a change would replace the step, so it is judged by the reader's values before all steps (`picks`).
    """
    replacements = []
    for step in steps:
        # The best change comes first, so the first one that fits is taken.
        for change in _changes_of(step.card, [picks]):
            if change.worth is Worth.DO and change.condition and change.gain > step.gain:
                replacements.append(replace(change, instead=step))
                break
    return replacements


def _states_after(picks: AxisValues, steps: Sequence[ValueChange]) -> list[AxisValues]:
    """Return the reader's values after each selection of the steps; selections with fewer steps first.

    The picks {"format": "f6"} with the steps to f7 and to pack give four states: {"format": "f6"}, {"format":
    "f7"}, {"format": "f6", "packing": "pack"}, and the one with both.
    """
    states = [picks]
    for step in steps:
        states += [{**state, step.axis: step.value} for state in states]
    # The number of values that differ from the picks is the number of steps.
    return sorted(states, key=lambda state: len(state.items() - picks.items()))


def _rank(change: ValueChange) -> tuple[int, float]:
    """Return what to sort changes by, so that the best one is the first."""
    return RANKS[change.worth], -change.gain


def _next_step(
    changes_by_card: Sequence[Sequence[ValueChange]], state: AxisValues
) -> ValueChange | None:
    """Return the change with the largest gain among those that make nothing slower; None if none is advised.

    `changes_by_card` has the changes of each card, the best first. `state` has the reader's values after all
    steps so far.
    """
    # A card has at most one candidate.
    candidates: list[ValueChange] = []
    for changes in changes_by_card:
        change_to_advise = _first_to_advise(changes)
        if change_to_advise is not None:
            candidates.append(change_to_advise)
    by_gain = sorted(candidates, key=lambda change: change.gain, reverse=True)
    # A change that makes something slower waits, because it may no longer do so after another step.
    for change in by_gain:
        if not _is_slower_somewhere(change, candidates, state):
            return change
    # Each candidate makes something slower, so nothing is gained by waiting.
    return by_gain[0] if by_gain else None


def _first_to_advise(changes: Sequence[ValueChange]) -> ValueChange | None:
    """Return the first change that is worth it and has no condition, None without one."""
    for change in changes:
        if change.worth is Worth.DO and not change.condition:
            return change
    return None


def _is_slower_somewhere(
    change: ValueChange, candidates: Sequence[ValueChange], state: AxisValues
) -> bool:
    """Return True if a change is slower somewhere, now or after one of the other candidates.

    For example, a setting of the server may be faster with f7 and slower with f6. The change of the setting
    should then come after the change to f7. `state` has the reader's values now. `candidates` may contain
    `change` itself.
    """
    outcomes = list(change.outcomes)
    for other in candidates:
        if other.axis != change.axis:
            after_other = {**state, other.axis: other.value}
            outcomes += find_outcomes(change.card, change.value, [after_other])
    return any(outcome.effect is Call.SLOWER for outcome in outcomes)


def find_outcomes(card: Card, value: str, states: Sequence[AxisValues]) -> list[Outcome]:
    """Return the outcomes of the change to a value, from a card's comparisons that fit the reader's values.

    `states` are the reader's values now, and after steps (advised changes) that come before this change:
    [{"packing": "nopack"}, {"packing": "pack"}]. Each operation (a command with its cache state, such as the
    cold log) counts in one state only. It is the last state with a decided comparison of the operation,
    because a reader who follows the advice comes to the last state. Without a decided comparison, it is the
    first state with any.
    """
    by_operation: dict[OperationKey, list[Outcome]] = {}
    for state in states:
        for key, outcomes in _outcomes_in(card, value, state).items():
            is_decided = any(outcome.effect in DECIDED for outcome in outcomes)
            if is_decided or key not in by_operation:
                by_operation[key] = outcomes
    all_outcomes = [outcome for outcomes in by_operation.values() for outcome in outcomes]
    # Nobody runs the commands of svnbench at work. They count only if no other command was compared.
    for_work = [outcome for outcome in all_outcomes if not is_benchmark(outcome.where)]
    return for_work or all_outcomes


def _outcomes_in(card: Card, value: str, state: AxisValues) -> dict[OperationKey, list[Outcome]]:
    """Return the outcomes of the change to a value in one state, by operation.

    The outcomes come from comparisons of this value with the reader's value in the state, or with any value
    if the reader's value is unknown. Return {} if the reader has the value already, as after an earlier step.
    """
    current = state.get(card.question.axis, "")
    if current == value:
        return {}
    outcomes: dict[OperationKey, list[Outcome]] = {}
    for case in card.cases:
        if not fits(case.where, state):
            continue
        for pair in case.pairs:
            # A noise check compares equal binaries, and shows no effect.
            if value in pair.sides and pair.compares(current) and not pair.is_noise_check:
                outcome = _outcome(card.question.axis, case, pair, value)
                outcomes.setdefault(outcome.operation_key, []).append(outcome)
    return outcomes


def _outcome(axis: str, case: Case, pair: Pair, value: str) -> Outcome:
    """Return the outcome of the change of an axis to `value`, one side of a pair, from the other side.

    Example: f6 takes 3 s (baseline), and f7 takes 1.5 s (candidate). The change to f7 is FASTER by the factor
    2.0, from 3 to 1.5 s. The change to f6 is SLOWER by 2.0, from 1.5 to 3 s.
    """
    # The result has no direction, and is EQUAL for a difference below the margin.
    is_different = pair.result == Result.DIFFERENT
    # If start-up hides a part of a difference, `proven_ratio` has the certain part.
    ratio = pair.proven_ratio if is_different else pair.ratio
    baseline_s, candidate_s = pair.times
    # `ratio` is the baseline's time / the candidate's. `speedup` is the time before / the time after.
    if value == pair.candidate:
        before, before_s, after_s = pair.baseline, baseline_s, candidate_s
        speedup = ratio
    else:
        before, before_s, after_s = pair.candidate, candidate_s, baseline_s
        speedup = 1 / ratio
    if is_different:
        effect = Call.FASTER if speedup >= 1 else Call.SLOWER
    else:
        # Each of the other results is also a call, such as EQUAL.
        effect = Call(pair.result)
    # A pair has 0 for an unknown time, an outcome has None.
    return Outcome(
        where=case.where,
        effect=effect,
        factor=at_least_1(speedup),
        before_s=before_s or None,
        after_s=after_s or None,
        before={axis: before},
        is_at_least=is_different and pair.is_at_least,
    )


def _change_to(card: Card, value: str, states: Sequence[AxisValues]) -> ValueChange:
    """Return the change of a card's axis to a value, such as the change to f7, with its gain and its worth.

    `states` are the reader's values now and after steps on other axes (find_outcomes). The gain ranks
    changes, and the worth is the class of the change, such as DO or KEEP.
    """
    outcomes = find_outcomes(card, value, states)
    gain = _weighted_gain(outcomes, card.workload)
    worth = _worth(outcomes, gain, margin=card.margin, has_workload=bool(card.workload))
    return ValueChange(card, value, outcomes, worth, gain)


def _weighted_gain(outcomes: Sequence[Outcome], workload: Sequence[WeightedOperation]) -> float:
    """Return the weighted sum of the logarithms of the factors, those of slower outcomes with a minus sign.

    Logarithms let 2x faster and 2x slower cancel each other. The outcomes of an operation, such as the cold
    log over http and over svn, share its weight: that in the user's workload, or 1 without a workload.
    """
    # An undecided outcome shows neither a gain nor a loss.
    decided = [outcome for outcome in outcomes if outcome.effect in DECIDED]
    if workload:
        # Only decided outcomes share a weight, as in cards, so that no part of it is lost.
        weights = share_weights([outcome.where for outcome in decided], workload)
    else:
        # Undecided outcomes share, too: a log that is faster over http and undecided over svn counts half.
        outcome_counts = Counter(outcome.operation_key for outcome in outcomes)
        weights = [1 / outcome_counts[outcome.operation_key] for outcome in decided]
    gain = 0.0
    for outcome, weight in zip(decided, weights, strict=True):
        if outcome.effect is Call.FASTER:
            gain += weight * math.log(outcome.factor)
        elif outcome.effect is Call.SLOWER:
            gain -= weight * math.log(outcome.factor)
    return gain


def _worth(outcomes: Sequence[Outcome], gain: float, margin: float, has_workload: bool) -> Worth:
    """Return the worth of a change with its weighted `gain` (ValueChange.gain)."""
    if not outcomes:
        return Worth.NOT_MEASURED
    faster = [outcome.factor for outcome in outcomes if outcome.effect is Call.FASTER]
    slower = [outcome.factor for outcome in outcomes if outcome.effect is Call.SLOWER]
    has_loss = max(slower, default=1.0) >= margin
    if max(faster, default=1.0) >= margin:
        # Only the weights of a workload show whether the gains outweigh the losses. Without anything slower,
        # `gain` does not count: it would be 0 if the workload lacks the faster commands.
        if has_workload and slower:
            is_worth_it = gain > 0
        else:
            is_worth_it = not has_loss
        return Worth.DO if is_worth_it else Worth.DEPENDS
    # Something becomes slower, and nothing faster by the margin: the present value is better.
    if has_loss:
        return Worth.KEEP
    if faster or slower:
        return Worth.SLIGHT
    effects = {outcome.effect for outcome in outcomes}
    if Call.EQUAL in effects:
        return Worth.EQUAL
    return Worth.TOO_SMALL if effects == {Call.TOO_SMALL} else Worth.UNDECIDED


def _changes_of(card: Card, states: Sequence[AxisValues]) -> list[ValueChange]:
    """Return the changes to the other values of a card's axis, the best first.

    `states` are the reader's values now and after steps on other axes: [{"format": "f6"}, {"format": "f6",
    "packing": "pack"}]. So all of them have the same value of this axis, or none:

    - The reader's value is known: there is a change from this value to each other value.
    - It is unknown, and the card recommends another value than its reference (the value that most readers
      have): there is one change, from any value to the recommended one.
    - Otherwise, there is a change from the reference to each other value.
    """
    axis = card.question.axis
    current = states[0].get(axis, "")
    if not current:
        recommended = _recommended_value(card, states)
        if recommended is not None and recommended != card.reference:
            return [_change_to(card, recommended, states)]
    start = current or card.reference
    # Outcomes come only from comparisons with the value that a state has.
    states_with_start = [{**state, axis: start} for state in states]
    pairs = [pair for case in card.cases for pair in case.pairs if not pair.is_noise_check]
    sides = dict.fromkeys(side for pair in pairs for side in pair.sides)
    changes = [_change_to(card, side, states_with_start) for side in sides if side != start]
    return sorted(changes, key=_rank)


def _recommended_value(card: Card, states: Sequence[AxisValues]) -> str | None:
    """Return the value that a card recommends in the last state with a recommendation; None without one."""
    for state in reversed(states):
        answer = card.answer_for(state)
        # Without a difference between the values, the answer has none (answer_texts.NO_DIFFERENCE).
        if answer.kind in (AnswerKind.VALUE, AnswerKind.DEPENDS) and answer.value:
            return answer.value
    return None


def find_combined_outcomes(
    situations: Sequence[Situation], before: AxisValues, after: AxisValues, margin: float
) -> list[Outcome]:
    """Return the measured effect of several steps taken together, one outcome for each situation.

    `before` has the reader's values, such as {"access": "http", "format": "f6"}, and `after` those after the
    steps. A situation is left out unless it fits `before`, exactly one of its choices fits `before`, and
    exactly one fits `after`. Commands of svnbench are left out, too: nobody runs them at work.
    """
    outcomes = []
    for situation in situations:
        if not fits(situation.where, before) or is_benchmark(situation.where):
            continue
        now = _choice_of_reader(situation, before)
        then = _choice_of_reader(situation, after)
        if now and then:
            outcome = Outcome(
                where=situation.where,
                effect=_effect_of_choice(now, then, margin),
                factor=at_least_1(now.seconds / then.seconds),
                before_s=now.seconds,
                after_s=then.seconds,
            )
            outcomes.append(outcome)
    return outcomes


def _choice_of_reader(situation: Situation, values: AxisValues) -> Choice | None:
    """Return the choice of a situation that a reader has; None if no choice fits, or several do.

    With f7 alone, for example, both (f7, packed) and (f7, not packed) fit.
    """
    fitting = [
        choice for choice in situation.choices if fits({**situation.where, **choice.values}, values)
    ]
    return fitting[0] if values and len(fitting) == 1 else None


def _effect_of_choice(now: Choice, then: Choice, margin: float) -> Call:
    """Return the effect of a change from one choice of a situation to another.

    The two choices were not compared with each other, but each with the best choice, which itself counts as
    equal. They are shown to be equal if their times are within the margin, and both comparisons with the best
    choice are decided (slower or equal). They are shown to differ if one of them is slower than the best
    choice, and neither is open (_is_open).
    """
    if at_least_1(now.seconds / then.seconds) < margin:
        is_decided = all(choice.is_equal or choice.is_slower for choice in (now, then))
        return Call.EQUAL if is_decided else Call.UNDECIDED
    has_slower = now.is_slower or then.is_slower
    if not has_slower or _is_open(now, margin) or _is_open(then, margin):
        return Call.UNDECIDED
    return Call.FASTER if now.seconds > then.seconds else Call.SLOWER


def _is_open(choice: Choice, margin: float) -> bool:
    """Return True for a choice that is undecided far from the best one: it may still be as fast."""
    return not choice.is_slower and not choice.is_equal and choice.ratio >= margin

"""The order of the changes that are worth it for a reader, decided once for each combination of picks.

A change sets one axis to another value. It is judged by the comparisons that fit the reader's picks, and by
those that fit the picks after earlier changes.
"""

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from vcsbench.advice.answer_texts import is_benchmark
from vcsbench.advice.cards import Card, Choice, Situation, fits, has_side
from vcsbench.advice.decision import Case, Pair, Row, Where
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
    KEEP = "keep"  # only slower
    NOT_MEASURED = "not measured"


# The order in which a card's changes are considered.
RANKS = {worth: rank for rank, worth in enumerate(Worth)}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a change in one case. `factor` is at least 1. Times are in seconds, None if
    unknown.
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
        return {a: v for a, v in self.where.items() if v and a in ("command", "cache")}


@dataclass(frozen=True)
class ReaderState:
    """What a reader has after some steps: the values by axis, and the numbers of these steps."""

    values: Where
    steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class ValueChange:
    """A change of an axis to a value, with its outcomes and its worth.

    `gain` is the sum of the logarithms of its factors, by which changes are ordered. `instead` is the
    number of the step that it would replace, 0 for none.
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
    """The steps for a reader in their order, the other changes, and the states after the steps."""

    steps: Sequence[ValueChange]
    others: Sequence[ValueChange]
    states: Sequence[ReaderState]


def combinations_of(
    grid: Iterable[Row], axes: Mapping[str, Sequence[str]], most: int
) -> list[Where]:
    """Return the combinations of picks that some cell fits, at most `most`. The first one is empty.

    `axes` are those of the picker with their values. The last axes are left out if there are too many.
    """
    cells = {tuple(row.get(axis) or "" for axis in axes) for row in grid if not row.get("skip")}
    kept = list(axes)
    while math.prod(len(axes[axis]) + 1 for axis in kept) > most:
        kept.pop()
    found: list[Where] = []
    for values in product(*(["", *axes[axis]] for axis in kept)):
        picks = {axis: value for axis, value in zip(kept, values, strict=True) if value}
        if any(fits(dict(zip(axes, cell, strict=True)), picks) for cell in cells):
            found.append(picks)
    return found


def plan_of(
    cards: Sequence[Card], picks: Where, margin: float, workload: Sequence[Row] = ()
) -> StepPlan:
    """Return the changes for a reader who has `picks`. A factor from the `margin` (such as 1.1) on matters.

    Of the next possible steps, those come first that lose nowhere, also after one of the others; of these the
    one with the largest gain.
    """
    steps: list[ValueChange] = []
    states = [ReaderState(picks)]
    while True:
        taken = {step.axis for step in steps}
        open_cards = [card for card in cards if card.question.axis not in taken]
        best_first = [_changes_of(card, states, margin, workload) for card in open_cards]
        free = []
        for changes in best_first:
            possible = [c for c in changes if c.worth is Worth.DO and not c.condition]
            free += possible[:1]
        free.sort(key=lambda change: -change.gain)
        if not free:
            break
        harmless = [change for change in free if not _loses(change, free, states[-1])]
        step = (harmless or free)[0]
        steps.append(step)
        states += [
            ReaderState({**state.values, step.axis: step.value}, (*state.steps, len(steps)))
            for state in states
        ]
        states.sort(key=lambda state: len(state.steps))
    others = [changes[0] for changes in best_first if changes]
    # A better value of the same card can have a condition.
    for number, step in enumerate(steps, 1):
        for change in _changes_of(step.card, states[:1], margin, workload):
            if change.worth is Worth.DO and change.condition and change.gain > step.gain:
                others.append(
                    ValueChange(
                        step.card, change.value, change.outcomes, change.worth, change.gain, number
                    )
                )
                break
    others.sort(key=lambda change: (RANKS[change.worth], -change.gain))
    return StepPlan(steps, others, states)


def outcomes_of(card: Card, value: str, states: Sequence[ReaderState]) -> list[Outcome]:
    """Return the outcomes of a change. Each operation has those of the last state that decides it."""
    axis = card.question.axis
    by_operation: dict[tuple[tuple[str, str], ...], list[Outcome]] = {}
    for state in states:
        if state.values.get(axis) == value:
            continue
        of_state: dict[tuple[tuple[str, str], ...], list[Outcome]] = {}
        for case in card.cases:
            for pair in case.pairs:
                current = state.values.get(axis, "")
                is_side = value in (pair.baseline, pair.candidate) and has_side(pair, current)
                if is_side and not pair.is_noise_check and fits(case.where, state.values):
                    outcome = _outcome(case, pair, value)
                    key = tuple(outcome.operation.items())
                    of_state.setdefault(key, []).append(outcome)
        for key, outcomes in of_state.items():
            is_decided = any(
                o.effect not in (ChangeEffect.UNDECIDED, ChangeEffect.SMALL) for o in outcomes
            )
            if is_decided or key not in by_operation:
                by_operation[key] = outcomes
    found = [outcome for outcomes in by_operation.values() for outcome in outcomes]
    # Commands of svnbench decide only if there are no others.
    for_work = [outcome for outcome in found if not is_benchmark(outcome.where)]
    return for_work or found


def _outcome(case: Case, pair: Pair, value: str) -> Outcome:
    baseline_s, candidate_s = pair.times
    ratio, before_s, after_s = pair.ratio, baseline_s, candidate_s
    if value == pair.baseline:
        ratio, before_s, after_s = 1 / pair.ratio, candidate_s, baseline_s
    effect = ChangeEffect.UNDECIDED
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
        before_s=before_s or None,
        after_s=after_s or None,
        flags=pair.flags,
    )


def _change_to(
    card: Card, value: str, states: Sequence[ReaderState], margin: float, workload: Sequence[Row]
) -> ValueChange:
    outcomes = outcomes_of(card, value, states)
    faster = [o.factor for o in outcomes if o.effect is ChangeEffect.FASTER]
    slower = [o.factor for o in outcomes if o.effect is ChangeEffect.SLOWER]
    numbers: dict[tuple[tuple[str, str], ...], int] = {}
    for outcome in outcomes:
        key = tuple(outcome.operation.items())
        numbers[key] = numbers.get(key, 0) + 1
    gain = 0.0
    for outcome in outcomes:
        # The cases of an operation share its weight.
        share = _weight(outcome.where, workload) / numbers[tuple(outcome.operation.items())]
        if outcome.effect is ChangeEffect.FASTER:
            gain += share * math.log(outcome.factor)
        elif outcome.effect is ChangeEffect.SLOWER:
            gain -= share * math.log(outcome.factor)
    is_gain = max(faster, default=1.0) >= margin
    is_loss = max(slower, default=1.0) >= margin
    if not outcomes:
        worth = Worth.NOT_MEASURED
    elif is_gain:
        is_good = gain > 0 if workload else not is_loss
        worth = Worth.DO if is_good else Worth.DEPENDS
    elif is_loss:
        worth = Worth.KEEP
    elif faster or slower:
        worth = Worth.SLIGHT
    elif any(outcome.effect is ChangeEffect.EQUAL for outcome in outcomes):
        worth = Worth.EQUAL
    elif all(outcome.effect is ChangeEffect.SMALL for outcome in outcomes):
        worth = Worth.SMALL
    else:
        worth = Worth.UNDECIDED
    return ValueChange(card, value, outcomes, worth, gain)


def _weight(where: Where, workload: Sequence[Row]) -> float:
    if not workload:
        return 1.0
    return sum(part["weight"] for part in workload if fits(where, part["where"]))


def _changes_of(
    card: Card, states: Sequence[ReaderState], margin: float, workload: Sequence[Row]
) -> list[ValueChange]:
    """Return the changes of a card, the best first.

    Without a pick they lead to the recommended value. If there is none, to each value.
    """
    present = states[0].values.get(card.question.axis, "")
    pairs = [pair for case in card.cases for pair in case.pairs if not pair.is_noise_check]
    values = dict.fromkeys(side for pair in pairs for side in (pair.baseline, pair.candidate))
    values.pop(present, None)
    if not present:
        for state in reversed(states):
            answer = card.answer_for(state.values)
            if answer.kind in (AnswerKind.VALUE, AnswerKind.DEPENDS):
                values = {answer.value: None}
                break
    changes = [_change_to(card, value, states, margin, workload) for value in values]
    return sorted(changes, key=lambda change: (RANKS[change.worth], -change.gain))


def _loses(change: ValueChange, free: Sequence[ValueChange], state: ReaderState) -> bool:
    """Return True if a change is slower somewhere, now or after one of the other free changes."""
    outcomes = list(change.outcomes)
    for other in free:
        if other.axis != change.axis:
            after = ReaderState({**state.values, other.axis: other.value})
            outcomes += outcomes_of(change.card, change.value, [after])
    return any(outcome.effect is ChangeEffect.SLOWER for outcome in outcomes)


def choice_of(situation: Situation, values: Where) -> Choice | None:
    """Return the choice of a situation that a reader has. Return None if several fit."""
    fitting = [
        choice for choice in situation.choices if fits({**situation.where, **choice.values}, values)
    ]
    return fitting[0] if values and len(fitting) == 1 else None


def together(
    situations: Sequence[Situation], before: Where, after: Where, margin: float
) -> list[Outcome]:
    """Return the measured effect of several steps together, for each operation."""
    outcomes = []
    for situation in situations:
        if not fits(situation.where, before) or is_benchmark(situation.where):
            continue
        now, then = choice_of(situation, before), choice_of(situation, after)
        if not now or not then:
            continue
        ratio = now.seconds / then.seconds
        # Calls are against the best choice. One without a call that is notably slower is open.
        is_called = now.is_slower or then.is_slower
        is_open = any(not c.is_slower and not c.is_equal and c.ratio >= margin for c in (now, then))
        effect = ChangeEffect.UNDECIDED
        if max(ratio, 1 / ratio) < margin:
            effect = ChangeEffect.EQUAL
        elif is_called and not is_open:
            effect = ChangeEffect.FASTER if ratio > 1 else ChangeEffect.SLOWER
        outcomes.append(
            Outcome(situation.where, effect, max(ratio, 1 / ratio), now.seconds, then.seconds, ())
        )
    return outcomes

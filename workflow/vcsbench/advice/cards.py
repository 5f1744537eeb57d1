"""Cards: one answer for each question of a study, with its cases; and the best choice in each situation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pydantic import TypeAdapter

from vcsbench.advice import decision
from vcsbench.advice.answer_texts import (
    NO_ANSWER,
    Answer,
    AnswerSettings,
    answer_of_cost,
    answer_with_choice,
    answer_without_choice,
    is_benchmark,
)
from vcsbench.advice.decision import Case, Missing, WeightedOperation, Where, Withheld
from vcsbench.advice.questions import CardQuestion
from vcsbench.advice.rules import find_rule
from vcsbench.axis_names import ACCESS_AXIS
from vcsbench.codes import AnswerKind, Call, WhyNoBest
from vcsbench.config.study import matches_cell
from vcsbench.statistics import texts
from vcsbench.statistics.comparisons import Limits
from vcsbench.words import count_of


@dataclass(frozen=True)
class Card:
    """A question with its answer over all cases.

    `reference` is the value that stays if nothing is changed. `shown` are the axes that distinguish cases.
    `has_workload`: the cases have weights of the user's workload. `missing` has values without measurements,
    `withheld` the comparisons without a result. `notes` has sentences on further metrics, on the workload,
    and on withheld comparisons.

    A question with `aggregate` asks for one answer over all cells, such as that for builds. Its card has an
    answer for each candidate (`candidates`). It has sentences on noise (`lines`) in place of `notes`.
    """

    question: CardQuestion
    reference: str
    shown: Sequence[str]
    cases: Sequence[Case]
    answer: Answer = NO_ANSWER
    min_effect_pct: float = 10.0
    has_workload: bool = False
    missing: Sequence[Missing] = ()
    candidates: Sequence[Answer] = ()
    lines: Sequence[str] = ()
    notes: Sequence[str] = ()
    withheld: Sequence[Withheld] = ()

    @property
    def counted_cases(self) -> Sequence[Case]:
        """Return the cases that the answer over all cases counts."""
        # One answer over all cells, such as that for builds, counts all of them.
        return self.cases if self.question.aggregate else self._answering_cases({}, "")

    @property
    def uncounted_cases(self) -> Sequence[Case]:
        """Return the cases of svnbench's commands that the answer over all cases leaves out."""
        counted = self.counted_cases
        return [case for case in self.cases if case not in counted]

    def answer_for(self, picks: Where) -> Answer:
        """Return the answer for a reader of the page who has picked values of some axes: `picks`.

        `picks` may have the reader's current value of the question's axis: with `{"format": "f6", "access":
        "http"}`, the question about the format is answered for a reader who has f6 and uses http. {} is the
        answer over all cases.

        Only cases that fit the picks and compare the current value count. A case that compares it without a
        decision counts as undecided. Without a case, the answer is NOT_COMPARED if a comparison of the
        current value was withheld, and otherwise NOT_MEASURED.
        """
        # "" if the reader has picked no value on this axis.
        current = picks.get(self.question.axis, "")
        cases = self._answering_cases(picks, current)
        # Only a case that decides the current value shows how much slower that value is.
        deciding = [case for case in cases if not current or current in case.costs]
        # A cost is the time of a value against that of the reference.
        if self.question.is_cost:
            deciding = [case for case in deciding if self.reference in case.costs]
        limits = Limits(self.min_effect_pct)
        kind, value = decision.recommend(deciding, self.reference, limits)
        if kind == AnswerKind.DEPENDS and not find_rule(cases, value, self.reference, limits):
            # Single cases in which another value wins are named with the answer. They are no kind of case for
            # which a reader could choose it, and in the next session other ones are decided.
            kind = AnswerKind.VALUE
        # No case decides the current value (or the cost), so recommend() got no cases. The kind depends on
        # the reason.
        if kind == AnswerKind.NOT_MEASURED:
            withheld = [comparison for comparison in self.withheld if fits(comparison.where, picks)]
            if cases:
                kind = AnswerKind.UNDECIDED
            elif any(comparison.compares(current) for comparison in withheld):
                kind = AnswerKind.NOT_COMPARED
        settings = AnswerSettings(
            reference=self.reference,
            current=current,
            min_effect_pct=self.min_effect_pct,
            has_workload=self.has_workload,
        )
        if kind in (AnswerKind.VALUE, AnswerKind.DEPENDS):
            if self.question.is_cost:
                return answer_of_cost(self.question.axis, cases, self.reference)
            return answer_with_choice(self.question, kind, value, cases, settings)
        return answer_without_choice(kind, value, cases, settings)

    def _answering_cases(self, picks: Where, current: str) -> list[Case]:
        """Return the cases that fit the picks and compare the current value, or any value if that is "".

        Commands of svnbench, such as null-log, do no work for a user. They add cases to an answer that the
        other commands decide, but never make one: if log and export are undecided, the answer is undecided,
        too. Only without other commands do they make an answer, and never one on accesses.
        """
        fitting = []
        for case in self.cases:
            if fits(case.where, picks) and any(pair.compares(current) for pair in case.pairs):
                fitting.append(case)
        for_work = [case for case in fitting if not is_benchmark(case.where)]
        # The client of svnbench does less work over svn than over http. So its times never show which access
        # is faster.
        if self.question.axis == ACCESS_AXIS:
            return for_work
        # If commands for work decide, commands of svnbench only add cases to the answer.
        is_undecided = for_work and not any(case.decides(current) for case in for_work)
        return for_work if is_undecided else fitting


@dataclass(frozen=True)
class Choice:
    """A choice of values with its mean in `seconds`; `ratio` is over the best time.

    `call` is the outcome of its comparison with the best choice: slower, equal, bounded, undecided, or too
    small if start-up explains the difference. The best choice itself has EQUAL.
    """

    values: Where
    seconds: float
    ratio: float = 1.0
    call: Call = Call.UNDECIDED

    @property
    def is_slower(self) -> bool:
        return self.call == Call.SLOWER

    @property
    def is_equal(self) -> bool:
        return self.call == Call.EQUAL


@dataclass(frozen=True)
class Situation:
    """The choices in one situation, the best one first. `where` has its values: {"command": "log"}.

    `why` is the reason for no best choice, and `choices` is then empty. `other_work` has a pair for each
    choice that did other work than most: its values, and the figures that differ.
    """

    where: Where
    choices: Sequence[Choice] = ()
    why: WhyNoBest | None = None
    other_work: Sequence[tuple[Where, str]] = ()

    @property
    def why_not(self) -> str:
        return texts.NO_BEST[self.why] if self.why else ""

    @property
    def best(self) -> Choice | None:
        return self.choices[0] if self.choices else None

    @property
    def gain(self) -> float | None:
        """Return how many times as fast the best choice is as the slowest one: 2.0 for half of its time.

        None without a choice, or if the slowest one is not shown to be slower.
        """
        last = self.choices[-1] if self.choices else None
        return last.ratio if last and last.is_slower else None

    @property
    def not_slower(self) -> list[Choice]:
        """Return the choices next to the best one that are not shown to be slower."""
        return [choice for choice in self.choices[1:] if not choice.is_slower]


@dataclass(frozen=True)
class Advice:
    """Advice on a study, written and read as JSON by ADVICE."""

    cards: Sequence[Card] = ()
    situations: Sequence[Situation] = ()
    less_work: Sequence[str] = ()
    min_effect_pct: float = 10.0
    workload: Sequence[WeightedOperation] = ()


ADVICE = TypeAdapter(Advice)


# An axis that a case lacks fits any value.
fits = partial(matches_cell, fits_empty=True)


def make_card(
    question: CardQuestion,
    reference: str,
    axes: Sequence[str],
    cases: Sequence[Case],
    min_effect_pct: float,
    workload: Sequence[WeightedOperation] = (),
    missing: Sequence[Missing] = (),
    withheld: Sequence[Withheld] = (),
) -> Card:
    """Return a card with its answer over all cases.

    `axes` are the study's, in order. `reference` is the value that stays if nothing is changed. For the other
    parameters see Card.
    """
    card = Card(
        question,
        reference,
        distinguishing_axes(axes, [case.where for case in cases]),
        _weigh_cases(cases, workload),
        min_effect_pct=min_effect_pct,
        has_workload=bool(workload),
        missing=missing,
        notes=[*_workload_notes(cases, workload), *_withheld_notes(withheld)],
        withheld=withheld,
    )
    return replace(card, answer=card.answer_for({}))


def distinguishing_axes(axes: Sequence[str], wheres: Sequence[Where]) -> list[str]:
    """Return the axes with several values in some cases. One value in all of them distinguishes none."""
    return [axis for axis in axes if len({where.get(axis, "") for where in wheres}) > 1]


def _weigh_cases(cases: Sequence[Case], workload: Sequence[WeightedOperation]) -> list[Case]:
    """Return the cases with their weights in per cent, 0 for a case that no operation matches.

    The cases that match an operation share its weight: if `log` has 60 %, and three cases match, each gets
    20. A case that several operations match gets a share of each.
    """
    weights = [0.0] * len(cases)
    for operation in workload:
        # The positions in `cases`.
        matching = [n for n, case in enumerate(cases) if fits(case.where, operation.where)]
        for number in matching:
            weights[number] += operation.weight / len(matching)
    return [replace(case, weight=weight) for case, weight in zip(cases, weights, strict=True)]


def _workload_notes(cases: Sequence[Case], workload: Sequence[WeightedOperation]) -> list[str]:
    """Return a sentence for each operation of the workload without a decided case."""
    notes = []
    for operation in workload:
        matching = [case for case in cases if fits(case.where, operation.where)]
        if not any(case.is_decided for case in matching):
            name = f"{operation.name} ({operation.weight:g} %)"
            notes.append(f"Your workload's {name} has no result here.")
    return notes


def _withheld_notes(withheld: Sequence[Withheld]) -> list[str]:
    """Return a sentence on the comparisons without a result, with the most frequent reason.

    Example: `8 comparisons left out (5 of them): measured on several machines. ...`
    """
    if not withheld:
        return []
    reasons = Counter(comparison.reason for comparison in withheld)
    reason, number = reasons.most_common(1)[0]
    share = f" ({number} of them)" if len(reasons) > 1 else ""
    return [f"{count_of(len(withheld), 'comparison')} left out{share}: {reason}"]

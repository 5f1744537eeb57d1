"""Cards: one answer for each question of a study, with its cases; and the best choice in each situation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pydantic import TypeAdapter

from vcsbench.advice import decision
from vcsbench.advice.answers import NO_ANSWER, Answer, AnswerBasis, make_answer
from vcsbench.advice.decision import Case, Missing, WeightedOperation, Withheld
from vcsbench.advice.effects import is_benchmark
from vcsbench.advice.questions import CardQuestion
from vcsbench.advice.rules import find_rule
from vcsbench.axis_names import ACCESS_AXIS
from vcsbench.codes import AnswerKind, Call, WhyNoBest
from vcsbench.config.study import matches_cell
from vcsbench.metrics import DEFAULT_METRIC
from vcsbench.plan.grid import AxisValues
from vcsbench.statistics.capacity import Capacity
from vcsbench.statistics.comparisons import Limits

# An axis that a case lacks, or that does not apply to it, fits any value.
fits = partial(matches_cell, fits_empty=True)


def share_weights(
    wheres: Sequence[AxisValues], workload: Sequence[WeightedOperation]
) -> list[float]:
    """Return the weight of each case in the user's workload, in per cent.

    `wheres` has the axis values of each case, such as {"command": "log", "cache": "cold"}. The cases that
    match an operation share its weight: if `log` has the weight 60 and matches three cases, each of them gets
    20. A case that matches several operations gets a share of each. A case that matches none gets 0.
    """
    weights = [0.0] * len(wheres)
    for operation in workload:
        matching = [index for index, where in enumerate(wheres) if fits(where, operation.where)]
        for index in matching:
            weights[index] += operation.weight / len(matching)
    return weights


@dataclass(frozen=True)
class AverageRatio:
    """The geometric mean over all cases of the ratio baseline / candidate, with its 95 % interval."""

    value: float
    low: float
    high: float


UNKNOWN_AVERAGE = AverageRatio(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class ProcessorLoad:
    """The shares of all processors that the server and its clients took, in per cent."""

    server_pct: float
    clients_pct: float


@dataclass(frozen=True)
class RoleCard:
    """The card of a question by another metric than the elapsed time.

    `reader` names who needs this metric: `a server with many clones an hour` needs `server_cpu_s`.
    """

    reader: str
    card: Card


@dataclass(frozen=True)
class Card:
    """A question, such as which format to choose, with its cases and its answer over all cases.

    A card has no texts but its question, which is the study's. The report makes all others.
    """

    question: CardQuestion
    # The value that most readers have, which stays if nothing is changed. Gains are over this value. For a
    # question about a cost, it is the value without the cost, such as http.
    reference: str
    # The axes that distinguish cases.
    shown: Sequence[str]
    cases: Sequence[Case]
    answer: Answer = NO_ANSWER
    min_effect_pct: float = 10.0
    # Values without measurements.
    missing: Sequence[Missing] = ()
    # Comparisons without a result.
    withheld: Sequence[Withheld] = ()
    # The cards by other metrics than the elapsed time.
    roles: Sequence[RoleCard] = ()
    # The metric by which the cases compare values.
    metric: str = DEFAULT_METRIC
    # The user's workload, whose weights each answer shares over the cases that it counts.
    workload: Sequence[WeightedOperation] = ()
    # Only of a question with `aggregate`, such as that for builds: the known means of its candidates.
    averages: Mapping[str, AverageRatio] = field(default_factory=dict)
    # Only of a question about capacity: how many clients a server carries in each case. `loads` has an entry
    # for each capacity, None if it is unknown.
    capacities: Sequence[Capacity] = ()
    loads: Sequence[ProcessorLoad | None] = ()

    @property
    def margin(self) -> float:
        """Return the smallest factor that is a reason to change, such as 1.1."""
        return Limits(self.min_effect_pct).margin

    @property
    def counted_cases(self) -> Sequence[Case]:
        """Return the cases that the answer over all cases counts."""
        return self.cases if self.question.aggregate else self._answering_cases({})

    @property
    def uncounted_cases(self) -> Sequence[Case]:
        """Return the cases of svnbench's commands that the answer over all cases leaves out."""
        counted = self.counted_cases
        return [case for case in self.cases if case not in counted]

    def answer_for(self, picks: AxisValues) -> Answer:
        """Return the answer for a reader of the page who has picked values of some axes: `picks`."""
        return make_answer(self.basis_for(picks))

    def basis_for(self, picks: AxisValues) -> AnswerBasis:
        """Return the facts from which the answer for a reader with these picks is made.

        With `{"format": "f6", "access": "http"}`, the question about the format is answered for a reader who
        has f6 and uses http. Without picks ({}), the answer is over all cases.
        """
        current = picks.get(self.question.axis, "")
        cases = self._answering_cases(picks)
        deciding = self._deciding_cases(cases, current)
        kind, value = self._recommend(cases, deciding)
        # NOT_MEASURED means here that `deciding` is empty. There may still be comparisons that decide nothing
        # for this reader (`cases`), or measured cells whose comparison is withheld.
        if kind == AnswerKind.NOT_MEASURED and cases:
            kind = AnswerKind.UNDECIDED
        elif kind == AnswerKind.NOT_MEASURED and self.is_withheld(picks):
            kind = AnswerKind.NOT_COMPARED
        return AnswerBasis(
            question=self.question,
            kind=kind,
            value=value,
            cases=cases,
            reference=self.reference,
            current=current,
            min_effect_pct=self.min_effect_pct,
            # Only decided cases have a weight in the user's workload. The picks may leave none of them.
            has_workload=any(case.weight for case in deciding if case.is_decided),
            metric=self.metric,
        )

    def is_withheld(self, picks: AxisValues) -> bool:
        """Return True if a comparison that fits the picks has no result.

        If the reader has picked a value of the question's axis, only comparisons of this value count.
        """
        current = picks.get(self.question.axis, "")
        return any(
            fits(comparison.where, picks) and comparison.compares(current)
            for comparison in self.withheld
        )

    def _deciding_cases(self, cases: Sequence[Case], current: str) -> list[Case]:
        """Return the cases that count in a recommendation, with their weights in the workload.

        A case decides a value if its decided comparisons show how fast the value is. If a case shows a
        difference of f6 and f7, and has an undecided comparison of f6 and f8, it decides f6 and f7. It does
        not count for a reader who has f8 (`current`). If the reader's value is unknown (""), all cases count,
        even undecided ones. In a question about a cost, a case must also decide the reference.
        """
        counted = list(cases)
        # Other cases do not show how much slower the reader's value is.
        if current:
            counted = [case for case in counted if case.decides(current)]
        # A cost compares the time of a value with the time of the reference.
        if self.question.is_cost:
            counted = [case for case in counted if case.decides(self.reference)]
        decided = [case for case in counted if case.is_decided]
        undecided = [case for case in counted if not case.is_decided]
        # An operation of the workload has a weight, such as 60 % for log. Only its decided cases share the
        # weight, because undecided cases recommend no value.
        weights = share_weights([case.where for case in decided], self.workload)
        weighted = [
            replace(case, weight=weight) for case, weight in zip(decided, weights, strict=True)
        ]
        # The cases of a card have the weight 0, and undecided cases keep it. Some of them show how large a
        # loss can be at most.
        return [*weighted, *undecided]

    def _recommend(self, cases: Sequence[Case], deciding: Sequence[Case]) -> tuple[AnswerKind, str]:
        """Return the kind of the answer and the value to choose; NOT_MEASURED without a deciding case.

        `cases` are all cases of the answer. `deciding` are those that count, with weights (_deciding_cases).
        """
        limits = Limits(self.min_effect_pct)
        kind, value = decision.recommend(deciding, self.reference, limits)
        # A reader can follow a rule, such as "f7 for cold logs". Without a rule, the exceptions are single
        # cases, and the next session may have other exceptions. So one value is recommended.
        if kind == AnswerKind.DEPENDS and not find_rule(cases, value, self.reference, limits):
            return AnswerKind.VALUE, value
        return kind, value

    def _answering_cases(self, picks: AxisValues) -> list[Case]:
        """Return the cases that an answer for a reader with these picks is about.

        With the picks {"format": "f6", "access": "http"}, the question about the format has the cases over
        http that compare f6 with another format. Commands of svnbench, such as null-log, do no work for a
        user. So two kinds of questions leave out their cases: those about the access, and those in which
        other commands were compared without a decision.
        """
        current = picks.get(self.question.axis, "")
        # Without a pick on the question's axis, `current` is "", and compares("") is True for each case.
        fitting = [
            case for case in self.cases if fits(case.where, picks) and case.compares(current)
        ]
        for_work = [case for case in fitting if not is_benchmark(case.where)]
        # The client of svnbench does less work over svn than over http. So its times never show which access
        # is faster.
        if self.question.axis == ACCESS_AXIS:
            return for_work
        # A case decides a value if its decided comparisons show how fast the value is.
        is_decided_for_work = any(case.decides(current) for case in for_work)
        # If only svnbench's cases decide the value, they would be the whole answer. That is no advice.
        if for_work and not is_decided_for_work:
            return for_work
        return fitting


@dataclass(frozen=True)
class Choice:
    """A choice of values in a situation, such as `{"format": "f7", "packing": "pack"}`, with its mean time.

    `ratio` is its time over the best time, in their common rounds if they have any. `call` is the outcome of
    its comparison with the best choice. The best choice itself has EQUAL.
    """

    values: AxisValues
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
class OtherWork:
    """A choice that did other work than most, with its work and the one that it differs from.

    Works are texts of same_work.join_works(). `compared` is "" if `work` cannot be compared with any other.
    """

    values: AxisValues
    work: str
    compared: str


@dataclass(frozen=True)
class Situation:
    """The choices in one situation, the best one first. `where` has its values: {"command": "log"}.

    `choices` is empty without a best one, and `why` has the reason.
    """

    where: AxisValues
    choices: Sequence[Choice] = ()
    why: WhyNoBest | None = None
    other_work: Sequence[OtherWork] = ()

    @property
    def best(self) -> Choice | None:
        return self.choices[0] if self.choices else None

    @property
    def gain(self) -> float | None:
        """Return how many times as fast the best choice is as the slowest one: 2.0 for half of its time.

        Return None without a choice, or if the slowest one is not shown to be slower.
        """
        last = self.choices[-1] if self.choices else None
        return last.ratio if last and last.is_slower else None

    @property
    def not_slower(self) -> list[Choice]:
        """Return the choices next to the best one that are not shown to be slower."""
        return [choice for choice in self.choices[1:] if not choice.is_slower]


@dataclass(frozen=True)
class LessWork:
    """A value that does less work than another one, by an exact metric such as `read_calls`.

    `factors` has how many times less, in each case with a difference of the margin or more, out of `cases`.
    """

    axis: str
    value: str
    other: str
    metric: str
    factors: Sequence[float]
    cases: int


@dataclass(frozen=True)
class Advice:
    """Advice on a study, written and read as JSON by ADVICE."""

    cards: Sequence[Card] = ()
    situations: Sequence[Situation] = ()
    less_work: Sequence[LessWork] = ()
    min_effect_pct: float = 10.0

    @property
    def margin(self) -> float:
        """Return the smallest factor that is a reason to change, such as 1.1."""
        return Limits(self.min_effect_pct).margin


ADVICE = TypeAdapter(Advice)


def make_card(
    question: CardQuestion,
    reference: str,
    axes: Sequence[str],
    cases: Sequence[Case],
    min_effect_pct: float,
    workload: Sequence[WeightedOperation] = (),
    missing: Sequence[Missing] = (),
    withheld: Sequence[Withheld] = (),
    roles: Sequence[RoleCard] = (),
    metric: str = DEFAULT_METRIC,
) -> Card:
    """Return the card of a question with its answer over all cases.

    `cases` are the comparisons with a result, and `withheld` comparisons of measured cells without one
    (decision.find_cases). `axes` are all axes of the study, of which the card shows those that distinguish
    its cases. Card explains the other parameters, which are its fields.
    """
    card = Card(
        question=question,
        reference=reference,
        shown=distinguishing_axes(axes, [case.where for case in cases]),
        cases=cases,
        min_effect_pct=min_effect_pct,
        missing=missing,
        withheld=withheld,
        roles=roles,
        metric=metric,
        workload=workload,
    )
    # The card computes its answer from its other fields.
    return replace(card, answer=card.answer_for({}))


def distinguishing_axes(axes: Sequence[str], wheres: Sequence[AxisValues]) -> list[str]:
    """Return the axes with several values in the cases, by which texts tell the cases apart.

    Example: {"command": "log", "format": "f7"} and {"command": "export", "format": "f7"} give ["command"].
    """
    shown = []
    for axis in axes:
        values = {where.get(axis, "") for where in wheres}
        # "" is for an axis that applies to no case of a command or an access. These two axes tell the cases
        # apart already.
        values.discard("")
        if len(values) > 1:
            shown.append(axis)
    return shown

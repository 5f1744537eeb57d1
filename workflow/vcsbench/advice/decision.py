"""The cases of a question, and the decision rule: recommend the value with the smallest worst loss.

The loss of a value in a case is its time divided by the best time there. A value without a decided
comparison in a case counts as the reference, which stays if the user changes nothing. A comparison that is
bounded has its bound as the largest loss. One that is mostly start-up has no loss.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from vcsbench.codes import AnswerKind, Call, Result, WhyUndecided, WithheldCode
from vcsbench.evidence.flags import FLAGS, Flag
from vcsbench.metrics import DEFAULT, name_in
from vcsbench.statistics.comparisons import ComparisonRow, Limits, comparison_rows
from vcsbench.statistics.texts import withheld_text
from vcsbench.words import count_of

# A row of a CSV file by column: of a table, a grid or the failures.
Row = Mapping[Any, Any]
# Values by axis.
Where = Mapping[str, str]
# Losses that are equal but for rounding differ by less.
SAME = 1e-9


@dataclass(frozen=True)
class WeightedOperation:
    """An operation of the user's workload: the cells of `where` have `weight` per cent of the whole."""

    name: str
    weight: float
    where: Where


@dataclass(frozen=True)
class Pair:
    """One comparison: `ratio` = time of the baseline / time of the candidate, with its 95 % interval.

    `within` is the largest ratio, in either direction, that is possible. `fixed_share` is the larger share
    of fixed cost of the two, 0 if unknown; `flags` are of both. `times` are the geometric means of both
    sides over their common rounds, in seconds: their quotient is the ratio.
    """

    baseline: str
    candidate: str
    ratio: float
    low: float = 0.0
    high: float = 0.0
    rounds: int = 0
    call: Call = Call.UNDECIDED
    result: Result = Result.UNDECIDED
    why_undecided: WhyUndecided | None = None
    within: float = 0.0
    fixed_share: float = 0.0
    detectable: float = 0.0
    flags: tuple[str, ...] = ()
    times: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of_row(cls, row: ComparisonRow) -> "Pair":
        """Return the comparison of a row. Unknown numbers are 0, because JSON has no NaN.

        A row with a ratio but without a call has too few rounds for one: it counts as undecided.
        """
        return cls(
            baseline=row.baseline,
            candidate=row.candidate,
            ratio=row.ratio,
            low=_known_or_0(row.low),
            high=_known_or_0(row.high),
            rounds=row.n,
            call=row.call or Call.UNDECIDED,
            result=row.result or Result.UNDECIDED,
            why_undecided=row.why_undecided,
            within=_known_or_0(row.within),
            fixed_share=_known_or_0(row.fixed_share),
            detectable=_known_or_0(row.detectable),
            flags=row.flags,
            times=(row.baseline_mean, row.candidate_mean),
        )

    @property
    def sides(self) -> tuple[str, str]:
        return self.baseline, self.candidate

    def compares(self, value: str) -> bool:
        """Return True if `value` is a side of the comparison, or "" (any value)."""
        return value in ("", self.baseline, self.candidate)

    @property
    def is_decided(self) -> bool:
        return self.result in (Result.DIFFERENT, Result.EQUAL)

    @property
    def is_noise_check(self) -> bool:
        """Return True if both builds have the same binaries (A/A test)."""
        return Flag.SAME_BINARIES in self.flags

    @property
    def is_at_least(self) -> bool:
        """Return True if the true factor is larger, because start-up is part of both sides."""
        return Flag.AT_LEAST in self.flags

    @property
    def proven_ratio(self) -> float:
        """Return the ratio to decide by: 1 if equal, the near end of the interval if `at least`."""
        if self.result != Result.DIFFERENT:
            return 1.0
        return self.near_end if self.is_at_least else self.ratio

    @property
    def near_end(self) -> float:
        """Return the end of the interval that is nearer to 1."""
        return self.low if self.ratio > 1 else self.high

    def largest_loss(self, value: str) -> float:
        """Return the largest factor by which one side of a bounded comparison can be slower."""
        faster = self.candidate if self.ratio > 1 else self.baseline
        if value != faster:
            return self.within
        # `within` is the factor times the error. Against the direction of the factor, only the error counts.
        factor = max(self.ratio, 1 / self.ratio)
        return max(1.0, self.within / factor**2)


def _known_or_0(number: float) -> float:
    return number if math.isfinite(number) else 0.0


@dataclass(frozen=True)
class Case:
    """The comparisons of cells that differ in the axis of the question only.

    `where` has the values of the other axes, `times` the geometric mean in seconds of each value. `weight` is
    the case's part of the user's workload, in per cent.
    """

    where: Where
    pairs: tuple[Pair, ...]
    times: Mapping[str, float] = field(default_factory=dict)
    weight: float = 0.0

    @cached_property
    def costs(self) -> dict[str, float]:
        """Return the time of each value as a multiple of the best one, from the decided pairs.

        Pairs chain their values: f6 / f7 = 2 and f7 / f8 = 1.5 give `{"f6": 3, "f7": 1.5, "f8": 1}`. Values
        without a decided path to the first pair's baseline are missing.
        """
        decided = [pair for pair in self.pairs if pair.is_decided]
        if not decided:
            return {}
        # The logarithm of the time of each value over that of the first baseline.
        logs = {decided[0].baseline: 0.0}
        # Each pass reaches at least one more value, if there is a path to it.
        for _ in decided:
            for pair in decided:
                step = math.log(pair.proven_ratio)
                if pair.baseline in logs and pair.candidate not in logs:
                    logs[pair.candidate] = logs[pair.baseline] - step
                elif pair.candidate in logs and pair.baseline not in logs:
                    logs[pair.baseline] = logs[pair.candidate] + step
        least = min(logs.values())
        # The best value gets the cost 1.
        return {value: math.exp(log - least) for value, log in logs.items()}

    @cached_property
    def small(self) -> set[str]:
        """Return the values that are only compared in pairs that are mostly start-up."""
        sides: set[str] = set()
        for pair in self.pairs:
            if pair.result == Result.TOO_SMALL:
                sides.update(pair.sides)
        return sides - self.costs.keys()

    @property
    def is_decided(self) -> bool:
        return bool(self.costs)

    def decides(self, value: str) -> bool:
        """Return True if the case decides a value, or any if the value is ""."""
        return value in self.costs if value else self.is_decided

    @property
    def is_small(self) -> bool:
        return bool(self.small) and not self.costs

    def loss(self, value: str, reference: str) -> float:
        """Return the factor by which a value is slower than the best one, at most."""
        if value in self.costs:
            return self.costs[value]
        # What is mostly start-up counts neither for nor against a value.
        if value in self.small:
            return 1.0
        bounds = [
            pair.largest_loss(value)
            for pair in self.pairs
            if pair.result == Result.BOUNDED and value in pair.sides
        ]
        if bounds:
            return max(bounds)
        # Without any comparison a value counts as the reference, which stays if nothing is changed.
        return self.costs.get(reference, 1.0)


@dataclass(frozen=True)
class Missing:
    """A value that the grid has and no comparison shows: why, and how many cells."""

    value: str
    reason: str
    cells: int

    def sentence(self, label: str) -> str:
        cells = count_of(self.cells, "cell")
        return f"{label}: {cells} not measured: {self.reason.rstrip('.')}."


@dataclass(frozen=True)
class Withheld:
    """A comparison of measured cells that has no result, with the reason and a remedy.

    `where` has the values of the other axes.
    """

    where: Where
    baseline: str
    candidate: str
    codes: tuple[WithheldCode, ...] = (WithheldCode.NO_SHARED_ROUND,)
    detail: str = ""

    @property
    def reason(self) -> str:
        """Return why there is no result, and what to do."""
        text = withheld_text(self.codes, self.detail)
        for code in self.codes:
            # Most codes are also flags, whose advice is the remedy.
            if code in FLAGS:
                return f"{text}. {FLAGS[code].advice}".strip()
        return f"{text}."

    def compares(self, value: str) -> bool:
        """Return True if `value` is a side of the comparison, or "" (any value)."""
        return value in ("", self.baseline, self.candidate)


def compares_times(definition: Mapping[str, Any], axis: str) -> bool:
    """Return True if a table compares the elapsed times of values of an axis."""
    compare = definition.get("compare", {})
    # Best or worst runs, and rows by copy or host, are no cases for a decision.
    is_special = "by" in definition or "reduce" in definition
    return compare.get("axis") == axis and name_in(definition) == DEFAULT and not is_special


def find_cases(
    axis: str,
    records: Iterable[Row],
    axes: Sequence[str],
    values: Sequence[str] = (),
) -> tuple[list[Case], list[Withheld]]:
    """Return the cases of an axis, and the comparisons of measured cells without a result.

    `records` are rows of the tables that compare elapsed times of the axis. `axes` are the study's in
    order, `values` restrict what is compared (all if empty).
    """
    other_axes = [name for name in axes if name != axis]
    # By the values of the other axes, then by the two sides: two tables may compare the same cells.
    pairs_of_case: dict[tuple[str, ...], dict[tuple[str, str], Pair]] = {}
    withheld: list[Withheld] = []
    for row in comparison_rows(records):
        sides = (row.baseline, row.candidate)
        # A question about http and svn has no case with file.
        if values and not set(values).issuperset(sides):
            continue
        where = {name: row.where.get(name, "") for name in other_axes}
        if row.has_ratio:
            pairs = pairs_of_case.setdefault(tuple(where.values()), {})
            pairs.setdefault(sides, Pair.of_row(row))
        else:
            codes = row.withheld or (WithheldCode.NO_SHARED_ROUND,)
            comparison = Withheld(where, row.baseline, row.candidate, codes, row.detail)
            if comparison not in withheld:
                withheld.append(comparison)
    cases = []
    for key, pairs in pairs_of_case.items():
        where = dict(zip(other_axes, key, strict=True))
        cases.append(Case(where, tuple(pairs.values()), _first_times(pairs.values())))
    return cases, withheld


def _first_times(pairs: Iterable[Pair]) -> dict[str, float]:
    """Return the seconds of each value, from the first pair that has it: others have other common rounds."""
    times: dict[str, float] = {}
    for pair in pairs:
        for value, seconds in zip(pair.sides, pair.times, strict=True):
            times.setdefault(value, seconds)
    return times


def missing_values(
    axis: str, cases: Sequence[Case], grid: Sequence[Row], failures: Sequence[Row]
) -> list[Missing]:
    """Return the values without any comparison, with the most frequent reason.

    `grid` has a row per cell (cell, axes, skip), `failures` one per failed round (cell, reason).
    """
    compared: set[str] = set()
    for case in cases:
        for pair in case.pairs:
            compared.update(pair.sides)
    failed = {row["cell"]: str(row["reason"]) for row in failures}
    # How many cells of each value have each reason.
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in grid:
        value = row.get(axis, "")
        # A cell is skipped before the run, or one of its rounds failed.
        reason = row["skip"] or failed.get(row["cell"], "")
        if value and value not in compared and reason:
            reasons[value][reason] += 1
    missing = []
    for value, counts in reasons.items():
        reason, _ = counts.most_common(1)[0]
        missing.append(Missing(value, reason, counts.total()))
    return missing


def recommend(cases: Sequence[Case], reference: str, limits: Limits) -> tuple[AnswerKind, str]:
    """Return the kind of the answer, and the value to choose even if the answer depends on the case.

    Without a decided case there is no value.
    """
    if not cases:
        return AnswerKind.NOT_MEASURED, ""
    decided = [case for case in cases if case.is_decided]
    if not decided:
        return AnswerKind.UNDECIDED, ""
    if all(cost <= 1 + SAME for case in decided for cost in case.costs.values()):
        values = decided_values(decided)
        return AnswerKind.EQUAL, reference if reference in values else values[0]
    # An average over the user's workload decides also where a value loses in some cases.
    weights = [case.weight for case in cases]
    if any(weights):
        means = {
            value: mean_log_loss(value, cases, reference, weights)
            for value in decided_values(decided)
        }
        return AnswerKind.VALUE, min(means, key=lambda value: means[value])
    best = best_value(cases, reference, limits)
    # A loss that is only possible does not make the answer depend on the case.
    losses = [case.costs[best] for case in decided if best in case.costs]
    if max(losses, default=1.0) <= limits.margin + SAME:
        return AnswerKind.VALUE, best
    return AnswerKind.DEPENDS, best


def decided_values(cases: Iterable[Case]) -> list[str]:
    """Return the values that the cases decide, in their order."""
    return list(dict.fromkeys(value for case in cases for value in case.costs))


def worst_losses(cases: Sequence[Case], reference: str) -> dict[str, float]:
    """Return the largest loss of each decided value over the cases."""
    return {
        value: max(case.loss(value, reference) for case in cases) for value in decided_values(cases)
    }


def best_value(cases: Sequence[Case], reference: str, limits: Limits) -> str:
    """Return the value with the smallest worst loss.

    Worst losses that differ by less than the margin are a tie. The smallest mean loss breaks it, then the
    reference. Needs a decided case.
    """
    worst = worst_losses(cases, reference)
    least = min(worst.values())
    tied = [value for value, loss in worst.items() if loss < least * limits.margin]
    means = {value: mean_log_loss(value, cases, reference) for value in tied}
    smallest = min(means.values())
    best = [value for value in tied if means[value] <= smallest + SAME]
    # Nobody has to change anything without a gain.
    return reference if reference in best else best[0]


def mean_log_loss(
    value: str, cases: Sequence[Case], reference: str, weights: Sequence[float] = ()
) -> float:
    """Return the (weighted) mean of the logarithms of a value's losses."""
    logs = [math.log(case.loss(value, reference)) for case in cases]
    if not weights:
        return math.fsum(logs) / len(logs)
    total = math.fsum(weight * log for weight, log in zip(weights, logs, strict=True))
    return total / math.fsum(weights)

"""The cases of a question, and the decision rule: recommend the value with the smallest worst loss.

The loss of a value in a case is its time divided by the best time there. A value without a decided
comparison in a case counts as the reference, which stays if the user changes nothing. A comparison that is
bounded has its bound as the largest loss. One that is mostly start-up has no loss.
"""

import math
from collections import Counter
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

Row = Mapping[Any, Any]
Where = Mapping[str, str]

# Losses that are equal but for rounding.
SAME = 1e-9


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
        """Return the comparison of a row. Unknown numbers are 0, because JSON has no NaN."""
        numbers = {
            name: getattr(row, name) if math.isfinite(getattr(row, name)) else 0.0
            for name in ("low", "high", "within", "fixed_share", "detectable")
        }
        return cls(
            row.baseline,
            row.candidate,
            row.ratio,
            rounds=row.n,
            call=row.call or Call.UNDECIDED,
            result=row.result or Result.UNDECIDED,
            why_undecided=row.why_undecided,
            flags=row.flags,
            times=(row.baseline_mean, row.candidate_mean),
            **numbers,
        )

    @property
    def sides(self) -> tuple[str, str]:
        return self.baseline, self.candidate

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
        is_leading = (self.ratio > 1) == (value == self.candidate)
        factor = max(self.ratio, 1 / self.ratio)
        # `within` is the factor times the error. Against the direction of the factor, only the error counts.
        return max(1.0, self.within / factor**2) if is_leading else self.within


@dataclass(frozen=True)
class Case:
    """The comparisons of cells that differ in the axis of the question only.

    `where` has the values of the other axes, `times` the geometric mean in seconds of each value.
    """

    where: Where
    pairs: tuple[Pair, ...]
    times: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def costs(self) -> dict[str, float]:
        """Return the time of each value as a multiple of the best one, from the decided pairs.

        Values without a decided path to the first pair's baseline are missing.
        """
        decided = [pair for pair in self.pairs if pair.is_decided]
        logs: dict[str, float] = {}
        if decided:
            logs[decided[0].baseline] = 0.0
        # Each pass reaches at least one more value, if there is a path to it.
        for _ in decided:
            for pair in decided:
                step = math.log(pair.proven_ratio)
                if pair.baseline in logs and pair.candidate not in logs:
                    logs[pair.candidate] = logs[pair.baseline] - step
                elif pair.candidate in logs and pair.baseline not in logs:
                    logs[pair.baseline] = logs[pair.candidate] + step
        least = min(logs.values(), default=0.0)
        return {value: math.exp(log - least) for value, log in logs.items()}

    @cached_property
    def small(self) -> set[str]:
        """Return the values that are only compared in pairs that are mostly start-up."""
        sides = {side for p in self.pairs if p.result == Result.TOO_SMALL for side in p.sides}
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
        if value in self.small:
            return 1.0
        bounds = [
            pair.largest_loss(value)
            for pair in self.pairs
            if pair.result == Result.BOUNDED and value in pair.sides
        ]
        if bounds:
            return max(bounds)
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
        advice = next((FLAGS[code].advice for code in self.codes if code in FLAGS), "")
        return f"{withheld_text(self.codes, self.detail)}. {advice}".strip()


def compares_times(definition: Mapping[str, Any], axis: str) -> bool:
    """Return True if a table compares the elapsed times of values of an axis."""
    is_of_axis = (definition.get("compare") or {}).get("axis") == axis
    is_special = "by" in definition or "reduce" in definition
    return is_of_axis and name_in(definition) == DEFAULT and not is_special


def cases_of(
    axis: str,
    records: Iterable[Row],
    axes: Sequence[str],
    values: Sequence[str] = (),
) -> tuple[list[Case], list[Withheld]]:
    """Return the cases of an axis, and the comparisons of measured cells without a result.

    `records` are rows of the tables that compare elapsed times of the axis. `axes` are the study's in
    order, `values` restrict what is compared (all if empty).
    """
    others = [name for name in axes if name != axis]
    pairs_of: dict[tuple[str, ...], dict[tuple[str, str], Pair]] = {}
    withheld: list[Withheld] = []
    for row in comparison_rows(records):
        sides = row.baseline, row.candidate
        if values and not {*sides} <= {*values}:
            continue
        where = {name: row.where.get(name, "") for name in others}
        if row.has_ratio:
            pairs = pairs_of.setdefault(tuple(where.values()), {})
            # Two tables may compare the same cells.
            pairs.setdefault(sides, Pair.of_row(row))
            continue
        codes = row.withheld or (WithheldCode.NO_SHARED_ROUND,)
        comparison = Withheld(where, *sides, codes, row.detail)
        if comparison not in withheld:
            withheld.append(comparison)
    cases = []
    for key, pairs in pairs_of.items():
        times: dict[str, float] = {}
        for pair in pairs.values():
            for value, seconds in zip(pair.sides, pair.times, strict=True):
                times.setdefault(value, seconds)
        where = dict(zip(others, key, strict=True))
        cases.append(Case(where, tuple(pairs.values()), times))
    return cases, withheld


def missing_values(
    axis: str, cases: Sequence[Case], grid: Sequence[Row], failures: Sequence[Row]
) -> list[Missing]:
    """Return the values without any comparison, with the most frequent reason.

    `grid` has a row per cell (cell, axes, skip), `failures` one per failed round (cell, reason).
    """
    compared = {side for case in cases for pair in case.pairs for side in pair.sides}
    failed = {row["cell"]: str(row["reason"]) for row in failures}
    reasons: dict[str, Counter[str]] = {}
    for row in grid:
        value = str(row.get(axis) or "")
        reason = str(row.get("skip") or "") or failed.get(row["cell"], "")
        if value and value not in compared and reason:
            reasons.setdefault(value, Counter())[reason] += 1
    missing = []
    for value, counts in reasons.items():
        reason, _ = counts.most_common(1)[0]
        missing.append(Missing(value, reason, counts.total()))
    return missing


def recommend(
    cases: Sequence[Case], reference: str, limits: Limits, weights: Sequence[float] = ()
) -> tuple[AnswerKind, str]:
    """Return the kind of the answer, and the value to choose even if the answer depends on the case.

    `weights` of the cases are of the user's workload. Without a decided case there is no value.
    """
    decided = [case for case in cases if case.is_decided]
    if not decided:
        return (AnswerKind.UNDECIDED if cases else AnswerKind.NOT_MEASURED), ""
    if all(cost <= 1 + SAME for case in decided for cost in case.costs.values()):
        values = dict.fromkeys(value for case in decided for value in case.costs)
        return AnswerKind.EQUAL, reference if reference in values else next(iter(values))
    if any(weights):
        means = {
            value: mean_log_loss(value, cases, reference, weights)
            for value in decided_values(decided)
        }
        return AnswerKind.VALUE, min(means, key=lambda value: means[value])
    best = best_value(cases, reference, limits)
    # A loss that is only possible does not make the answer depend on the case.
    losses = [case.costs[best] for case in decided if best in case.costs]
    is_small = max(losses, default=1.0) <= limits.margin + SAME
    return (AnswerKind.VALUE if is_small else AnswerKind.DEPENDS), best


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
    return reference if reference in best else best[0]


def mean_log_loss(
    value: str, cases: Sequence[Case], reference: str, weights: Sequence[float] = ()
) -> float:
    """Return the (weighted) mean of the logarithms of a value's losses."""
    weights = weights or [1.0] * len(cases)
    logs = [math.log(case.loss(value, reference)) for case in cases]
    total = math.fsum(weight * log for weight, log in zip(weights, logs, strict=True))
    return total / math.fsum(weights)

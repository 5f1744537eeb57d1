"""The cases of a question, and the decision rule: recommend the value with the smallest worst loss.

A question asks for the best value of an axis, such as the format. A case compares its values for one
combination of the other axes, such as the cold log over http.

The loss of a value in a case is its time divided by the best time there: 1 for the best value, 1.5 for one
that takes half as long again. A comparison is decided if it shows a difference, or that no difference is
worth noting. `Case.losses` has the losses that decided comparisons show, `Case.assumed_loss` also the others.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from vcsbench.codes import AnswerKind, Call, Result, WhyUndecided, WithheldCode
from vcsbench.evidence.flags import FLAGS, Flag
from vcsbench.metrics import DEFAULT_METRIC, name_in
from vcsbench.plan.grid import AxisValues
from vcsbench.plan.result_state import reason_by_cell
from vcsbench.statistics import texts
from vcsbench.statistics.comparisons import (
    ComparisonRow,
    Limits,
    classify_call,
    comparison_rows,
)
from vcsbench.words import count_of

# A row of a CSV file by column: of a table, a grid or the failures.
Row = Mapping[Any, Any]
# The baseline and the candidate of a comparison: ("f6", "f7").
Sides = tuple[str, str]
# The values of a case on the axes that are not compared: (("command", "log"), ("cache", "cold")).
CaseKey = tuple[tuple[str, str], ...]
# Two losses that are equal but for rounding differ by less.
ROUNDING = 1e-9


@dataclass(frozen=True)
class WeightedOperation:
    """An operation of the user's workload: the cells of `where` have `weight` per cent of the whole."""

    name: str
    weight: float
    where: AxisValues


@dataclass(frozen=True)
class Pair:
    """A comparison of two values in a case, such as f6 (the baseline) with f7 (the candidate).

    An unknown number is 0, because JSON has no NaN.
    """

    baseline: str
    candidate: str
    # The baseline's time / the candidate's time, with the 95 % interval.
    ratio: float
    low: float = 0.0
    high: float = 0.0
    rounds: int = 0
    # The outcome for the candidate, and the class in which it is counted.
    call: Call = Call.UNDECIDED
    result: Result = Result.UNDECIDED
    why_undecided: WhyUndecided | None = None
    # The largest possible factor between both times.
    within: float = 0.0
    # The share of start-up in the time, the larger one of both sides.
    fixed_share: float = 0.0
    # Of both sides.
    flags: tuple[str, ...] = ()
    # The geometric means of both sides over their common rounds, in seconds.
    times: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of_row(cls, row: ComparisonRow) -> "Pair":
        """Return the comparison of a row of a table. Callers pass only rows with a ratio."""
        return cls(
            baseline=row.baseline,
            candidate=row.candidate,
            # A row with a ratio also has the two means. All other numbers may be NaN.
            ratio=row.ratio,
            times=(row.baseline_mean, row.candidate_mean),
            low=_known_or_0(row.low),
            high=_known_or_0(row.high),
            rounds=row.n,
            # 3 % faster has the call FASTER, but is no reason to change, so its result is EQUAL.
            call=row.call or Call.UNDECIDED,
            result=row.result or Result.UNDECIDED,
            why_undecided=row.why_undecided,
            # The largest possible factor between both times, such as 1.14.
            within=_known_or_0(row.within),
            # The share of start-up in the time, such as 0.3, of the side that has the larger share.
            fixed_share=_known_or_0(row.fixed_share),
            flags=row.flags,
        )

    @property
    def sides(self) -> Sides:
        return self.baseline, self.candidate

    def compares(self, value: str) -> bool:
        """Return True if `value` is a side of the comparison, or "" (any value)."""
        return value in ("", *self.sides)

    @property
    def is_decided(self) -> bool:
        return self.result in (Result.DIFFERENT, Result.EQUAL)

    @property
    def outcome(self) -> Result | WhyUndecided:
        """Return why the pair is undecided, and the result of any other pair."""
        if self.result == Result.UNDECIDED and self.why_undecided:
            return self.why_undecided
        return self.result

    @property
    def is_noise_check(self) -> bool:
        """Return True if both builds have the same binaries (A/A test)."""
        return Flag.SAME_BINARIES in self.flags

    @property
    def is_at_least(self) -> bool:
        """Return True if the work itself differs by a larger factor, because both times include start-up."""
        return Flag.AT_LEAST in self.flags

    @property
    def proven_ratio(self) -> float:
        """Return the ratio to decide by: the measured one, 1 without a difference.

        If start-up hides the true factor, return the cautious end of the interval.
        """
        if self.result != Result.DIFFERENT:
            return 1.0
        return self.near_end if self.is_at_least else self.ratio

    @property
    def near_end(self) -> float:
        """Return the end of the interval that is nearer to 1."""
        return self.low if self.ratio > 1 else self.high

    @property
    def has_interval(self) -> bool:
        """Return True if the interval has a width: its ends are 0 after one round, and equal for counts."""
        return 0 < self.low < self.high

    @property
    def far_end(self) -> float:
        """Return the end of a known interval that is farther from 1, as a factor of at least 1."""
        return max(self.high, 1 / self.low)

    def largest_loss(self, value: str) -> float:
        """Return the largest factor by which the side `value` can be slower than the other side, at least 1.

        Example: f6 takes 1.02 times as long as f7 (the ratio), and at most 1.12 times (`within`). So f6 is
        slower by at most 1.12. The measured factor is wrong by at most 1.12 / 1.02 = 1.098. So f7 may be the
        slower side in truth, by at most 1.098 / 1.02 = 1.08. Callers pass only bounded comparisons, because
        in others, `within` may be unknown (0).
        """
        faster_side = self.candidate if self.ratio > 1 else self.baseline
        if value != faster_side:
            return self.within
        measured_factor = max(self.ratio, 1 / self.ratio)
        largest_error = self.within / measured_factor
        # An error below the measured factor cannot exchange the sides: the faster side is faster in truth.
        return max(1.0, largest_error / measured_factor)


def _known_or_0(number: float) -> float:
    return number if math.isfinite(number) else 0.0


@dataclass(frozen=True)
class Case:
    """The comparisons of cells that differ in the axis of the question only.

    `where` has the values of the other axes, `times` the geometric mean in seconds of each value. `weight` is
    the case's part of the user's workload in per cent. It depends on the other cases that an answer counts,
    so a card sets it for each answer (cards.share_weights). It is 0 in a stored card.
    """

    where: AxisValues
    pairs: tuple[Pair, ...]
    times: Mapping[str, float] = field(default_factory=dict)
    weight: float = 0.0

    @cached_property
    def losses(self) -> dict[str, float]:
        """Return the time of each value as a multiple of the best time, from the decided comparisons.

        Comparisons form chains: the ratios of times f6 / f7 = 2 and f7 / f8 = 1.5 give `{"f6": 3, "f7": 1.5,
        "f8": 1}`. The baseline of the first decided comparison comes first. A value that no chain connects
        with this baseline is missing.
        """
        decided = [pair for pair in self.pairs if pair.is_decided]
        if not decided:
            return {}
        # The logarithm of each value's time divided by the first baseline's time.
        logs = {decided[0].baseline: 0.0}
        # Each pass over all comparisons adds at least one value, as long as one can be added. So as many
        # passes as comparisons suffice.
        for _ in decided:
            for pair in decided:
                log_ratio = math.log(pair.proven_ratio)
                if pair.baseline in logs and pair.candidate not in logs:
                    logs[pair.candidate] = logs[pair.baseline] - log_ratio
                elif pair.candidate in logs and pair.baseline not in logs:
                    logs[pair.baseline] = logs[pair.candidate] + log_ratio
        log_of_best = min(logs.values())
        return {value: math.exp(log - log_of_best) for value, log in logs.items()}

    @cached_property
    def mostly_start_up(self) -> set[str]:
        """Return the values that `losses` lacks, with a comparison whose times are mostly start-up."""
        pairs = [pair for pair in self.pairs if pair.result == Result.TOO_SMALL]
        return {side for pair in pairs for side in pair.sides} - self.losses.keys()

    @property
    def baseline(self) -> str:
        """Return the baseline of the first comparison."""
        return self.pairs[0].baseline

    @property
    def is_decided(self) -> bool:
        return bool(self.losses)

    def decides(self, value: str) -> bool:
        """Return True if the case decides a value, or any if the value is ""."""
        return value in self.losses if value else self.is_decided

    def compares(self, value: str) -> bool:
        """Return True if a comparison has the value as a side, or any if the value is ""."""
        return any(pair.compares(value) for pair in self.pairs)

    def assumed_loss(self, value: str, reference: str) -> float:
        """Return how many times as long a value takes as the fastest one, 1.0 for the fastest one itself.

        If no decided comparison shows this, an assumption takes its place, the first that applies:

        1. The times of the value are mostly start-up: 1.0, because start-up counts for or against no value.
        2. A comparison of the value is bounded: the largest loss that this comparison leaves possible.
        3. Nothing is known: the loss of `reference` (the value that stays if the user changes nothing), so
           that the value gains nothing over the reference.
        4. The reference is not compared: the loss of the first decided baseline, 1.0 without one.
        """
        if value in self.losses:
            return self.losses[value]
        if value in self.mostly_start_up:
            return 1.0
        bounded = [pair for pair in self.pairs if pair.result == Result.BOUNDED]
        bounds = [pair.largest_loss(value) for pair in bounded if value in pair.sides]
        if bounds:
            return max(bounds)
        if self.compares(reference):
            # The reference may be undecided, too.
            return self.losses.get(reference, 1.0)
        # `losses` begins with the first decided baseline.
        return next(iter(self.losses.values()), 1.0)


@dataclass(frozen=True)
class Missing:
    """A value that the grid has and no comparison shows.

    `cells` is the number of its cells that were not measured, `reason` the most frequent reason for that.
    """

    value: str
    reason: str
    cells: int

    def sentence(self, label: str) -> str:
        """Return `f8: 4 cells not measured: svnadmin is too old.` `label` names the value."""
        cells = count_of(self.cells, "cell")
        reason = texts.failure_text(self.reason)
        return f"{label}: {cells} not measured: {reason.rstrip('.')}."


@dataclass(frozen=True)
class Withheld:
    """A comparison of measured cells that has no result, such as one of times from two machines.

    `where` has the values of the other axes. `detail` has the figures in which the works of both sides
    differ, "" if the reason is another one.
    """

    where: AxisValues
    baseline: str
    candidate: str
    codes: tuple[WithheldCode, ...] = (WithheldCode.NO_SHARED_ROUND,)
    detail: str = ""

    @property
    def reason(self) -> str:
        """Return why the result is missing, and what to do."""
        text = texts.withheld_text(self.codes, self.detail)
        for code in self.codes:
            # Most codes are also flags, whose advice is the remedy.
            if code in FLAGS:
                return f"{text}. {FLAGS[code].advice}".strip()
        return f"{text}."

    def compares(self, value: str) -> bool:
        """Return True if `value` is a side of the comparison, or "" (any value)."""
        return value in ("", self.baseline, self.candidate)


def compares(definition: Mapping[str, Any], axis: str, metric: str = DEFAULT_METRIC) -> bool:
    """Return True if decisions can use a table: it compares values of an axis by the means of a metric.

    A definition is {"compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"], ...}}.
    """
    compare = definition.get("compare", {})
    # `reduce` makes a table of best or worst runs, `by` makes several rows of a case, such as one by host.
    is_special = "by" in definition or "reduce" in definition
    return compare.get("axis") == axis and name_in(definition) == metric and not is_special


def find_cases(
    axis: str, records: Iterable[Row], axes: Sequence[str], values: Sequence[str] = ()
) -> tuple[list[Case], list[Withheld]]:
    """Return the cases of an axis, and comparisons without a ratio, such as one of times from two machines.

    `records` are rows of tables that compare values of `axis` by one metric. Only rows with both sides in
    `values` count; () means all values. Rows with the same values of the other axes become one case. So the
    cold log of f6 against f7, and of f6 against f8, is one case with two pairs.
    """
    # {(("command", "log"), ("cache", "cold")): {("f6", "f7"): Pair(...), ("f6", "f8"): Pair(...)}}
    pairs_by_case: dict[CaseKey, dict[Sides, Pair]] = defaultdict(dict)
    withheld_by_case: dict[CaseKey, dict[Sides, Withheld]] = defaultdict(dict)
    for row in comparison_rows(records):
        # A question about http and svn ignores a row that compares one of these with `file`.
        if values and not {row.baseline, row.candidate}.issubset(values):
            continue
        where = {name: row.where.get(name, "") for name in axes if name != axis}
        case_key: CaseKey = tuple(where.items())
        # Several tables may have the same comparison, also with exchanged sides. It counts once, so the key
        # has the sides in alphabetical order.
        sides = (min(row.baseline, row.candidate), max(row.baseline, row.candidate))
        if row.has_ratio:
            pairs_by_case[case_key].setdefault(sides, Pair.of_row(row))
        else:
            # A row with neither a ratio nor a code is of cells without a common round.
            codes = row.withheld or (WithheldCode.NO_SHARED_ROUND,)
            comparison = Withheld(where, row.baseline, row.candidate, codes, row.detail)
            withheld_by_case[case_key].setdefault(sides, comparison)
    cases = []
    for case_key, pair_by_sides in pairs_by_case.items():
        pairs = tuple(pair_by_sides.values())
        cases.append(Case(dict(case_key), pairs, _times_of_values(pairs)))
    withheld: list[Withheld] = []
    for withheld_by_sides in withheld_by_case.values():
        withheld += withheld_by_sides.values()
    return cases, withheld


def _times_of_values(pairs: Iterable[Pair]) -> dict[str, float]:
    """Return the time of each value in seconds: {"f6": 3.0, "f7": 1.5}.

    A pair has the mean time over the rounds that both sides have. So f6 may have one time in its pair with
    f7, and another time in its pair with f8. A reader needs one number, and gets the first pair's.
    """
    times: dict[str, float] = {}
    for pair in pairs:
        for value, seconds in zip(pair.sides, pair.times, strict=True):
            times.setdefault(value, seconds)
    return times


def count_from_margin(case: Case, limits: Limits) -> Case:
    """Return the case with differences below the margin of the limits counted as EQUAL.

    Tables count each difference of an exact metric as DIFFERENT, because 2 % fewer bytes are fewer
    (classify_call). An answer advises a change, and 2 % are no reason to change anything.
    """
    pairs = []
    for pair in case.pairs:
        # The result is None without a call only.
        result = classify_call(pair.call, pair.ratio, limits) or pair.result
        pairs.append(replace(pair, result=result))
    return replace(case, pairs=tuple(pairs))


def missing_values(
    axis: str, cases: Sequence[Case], grid: Sequence[Row], failures: Sequence[Row]
) -> list[Missing]:
    """Return the values of an axis without any comparison, if one of their cells was skipped or failed.

    `grid` has a row for each cell: its path (`cell`), its value of each axis, and the reason why it is
    skipped (`skip`, "" if it is not). `failures` has a row with `cell` and `reason` for each failed round.
    """
    compared = {side for case in cases for pair in case.pairs for side in pair.sides}
    failure_by_cell = reason_by_cell(failures)
    # By value, how many of its cells have each reason: {"f8": {"svnadmin is too old": 4}}.
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in grid:
        value = row.get(axis, "")
        # A cell is skipped before a run, or it fails during the run.
        reason = row["skip"] or failure_by_cell.get(row["cell"], "")
        if value and value not in compared and reason:
            reasons[value][reason] += 1
    missing = []
    for value, counts in reasons.items():
        reason, _ = counts.most_common(1)[0]
        missing.append(Missing(value, reason, counts.total()))
    return missing


def recommend(cases: Sequence[Case], reference: str, limits: Limits) -> tuple[AnswerKind, str]:
    """Return the kind of the answer to a question, and the value to choose, "" if nothing is decided.

    A loss of 1.5 means that a value takes 1.5 times as long as the fastest value of a case. The value whose
    largest loss is the smallest is chosen. The answer is DEPENDS if it still loses more than the margin in
    some case: users should choose it only if they must have one value for all cases. `reference` is the value
    that stays if the user changes nothing.
    """
    if not cases:
        return AnswerKind.NOT_MEASURED, ""
    decided = [case for case in cases if case.is_decided]
    if not decided:
        return AnswerKind.UNDECIDED, ""
    # If all losses are 1, all decided values are equally fast.
    if all(loss <= 1 + ROUNDING for case in decided for loss in case.losses.values()):
        values = decided_values(decided)
        return AnswerKind.EQUAL, reference if reference in values else values[0]
    # A case has a weight if it is part of the user's workload. Gains can then make up for losses.
    if any(case.weight for case in decided):
        return AnswerKind.VALUE, _best_for_workload(cases, reference)
    # Only undecided cases can have a weight here. They show nothing, so their weights must not decide a tie.
    unweighted_cases = [replace(case, weight=0.0) for case in cases]
    best = best_value(unweighted_cases, reference, limits)
    # In a case without a decided comparison of the best value, its loss is only assumed. That does not show
    # that another value is better, so such a case does not count. Some case decides the best value.
    shown_losses = [case.losses[best] for case in decided if best in case.losses]
    if max(shown_losses) <= limits.margin + ROUNDING:
        return AnswerKind.VALUE, best
    return AnswerKind.DEPENDS, best


def _best_for_workload(cases: Sequence[Case], reference: str) -> str:
    """Return the value with the smallest mean loss, weighted by the user's workload.

    Of tied values, return the reference, otherwise the first one.
    """
    means = {value: _mean_log_loss(value, cases, reference) for value in decided_values(cases)}
    smallest = min(means.values())
    tied = [value for value, mean in means.items() if mean <= smallest + ROUNDING]
    return reference if reference in tied else tied[0]


def decided_values(cases: Iterable[Case]) -> list[str]:
    """Return the values with a decided comparison in some case, in the order of the cases."""
    return list(dict.fromkeys(value for case in cases for value in case.losses))


def best_value(cases: Sequence[Case], reference: str, limits: Limits) -> str:
    """Return the value whose largest loss over all cases is the smallest. Some case must be decided.

    Largest losses within the margin of the smallest one are a tie: of 1.5 (f6), 1.05 (f7) and 1.02 (f8), f7
    and f8 tie with the margin 1.1. Of tied values, the reference is best, unless another tied value gains
    more than the margin on average. Otherwise, the tied value with the smallest mean loss is best.
    """
    worst_losses = {}
    for value in decided_values(cases):
        worst_losses[value] = max(case.assumed_loss(value, reference) for case in cases)
    smallest = min(worst_losses.values())
    tied = [value for value, loss in worst_losses.items() if loss < smallest * limits.margin]
    means = {value: _mean_log_loss(value, cases, reference) for value in tied}
    # `means` are logarithms, so `+` stands for a product.
    if reference in tied and means[reference] <= min(means.values()) + math.log(limits.margin):
        return reference
    return min(tied, key=lambda value: means[value])


def _mean_log_loss(value: str, cases: Sequence[Case], reference: str) -> float:
    """Return the mean of the logarithms of a value's losses, weighted by the workload if there is one."""
    logs = [math.log(case.assumed_loss(value, reference)) for case in cases]
    weights = [case.weight for case in cases]
    # Without a workload, all weights are 0.
    return fmean(logs, weights if any(weights) else None)

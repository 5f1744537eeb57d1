"""Check a finding: its value over cells, pairs of cells, or pairs with a saved baseline, and the verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from vcsbench import words
from vcsbench.codes import ReasonCode, Verdict, WithheldCode
from vcsbench.config.study import axis_values, matches_cell
from vcsbench.evidence import same_work
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import METRICS, name_in
from vcsbench.statistics import comparisons
from vcsbench.statistics.aggregation import FIXED_SHARE, MEAN, pair_rows, rows_where
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, Limits
from vcsbench.statistics.estimates import (
    CONFIDENCE,
    NO_ESTIMATE,
    Estimate,
    mean_interval,
)
from vcsbench.statistics.noise import NO_NOISE, CellPair, Noise
from vcsbench.statistics.verdicts import Reason

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition

REDUCTIONS = {"mean": "mean", "min": "least", "max": "greatest"}
# The reduction of a statement about the usual case.
MEAN_OVER = "mean"
# A value that needs more rounds than this lies on its bound.
MAX_ROUNDS = 1000


def geometric_mean_of(ratios: pd.Series) -> float:
    """Return the geometric mean. It is NaN if one ratio is."""
    return float(np.exp(np.log(ratios).mean(skipna=False)))


@dataclass(frozen=True)
class Conditions:
    """Conditions of published numbers."""

    scale: float | None = None
    subversion: str = ""
    storage: str = ""
    server: str = ""
    system: str = ""


@dataclass(frozen=True)
class EvaluationContext:
    """Facts about measured numbers that a verdict and its reasons use.

    `scales` has the least scale by repository. `versions` are of Subversion, `storages` kinds of storages.
    `noise` is by metric, `baselines` has a frame of pair_cells by name, `grid` the cells (axes and `skip`).
    """

    scales: Mapping[str, float] = field(default_factory=dict)
    versions: Sequence[str] = ()
    storages: Sequence[str] = ()
    study: str = ""
    published: Conditions = Conditions()
    noise: Callable[[str, str], Noise] = lambda _metric, _statistic: NO_NOISE
    grid: Sequence[Mapping[str, str]] = ()
    baselines: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    limits: Limits = DEFAULT_LIMITS
    are_expectations: bool = False


@dataclass(frozen=True)
class Evaluation:
    """A measured value, the verdict on it and its reasons; `over` is the reduction: `least of 12 cells`.

    `values` has the rows of CellCheck.values from which the value is computed.
    """

    estimate: Estimate = NO_ESTIMATE
    verdict: Verdict = Verdict.NOT_MEASURED
    reasons: Sequence[Reason] = ()
    over: str = ""
    values: pd.DataFrame = field(default_factory=pd.DataFrame)


def check_of(finding: FindingDefinition, axes: Sequence[str]) -> CellCheck:
    compare = finding.get("compare", {})
    kind = BaselineCheck if "to" in compare else PairCheck if compare else CellCheck
    return kind(finding, axes)


class CellCheck:
    """A check of a finding on the values of cells, in frames of by_round, whose cells `axes` identify.

    `statistic` summarizes the runs (default: mean), `where` selects the cells. `keys` identify what has
    a value: a cell, or in PairCheck a pair of cells with the values `sides` of an axis, the baseline first.
    """

    noun = "cell"
    # Work that has no value.
    refused_work: tuple[str, ...] = (same_work.OTHER,)

    def __init__(self, finding: FindingDefinition, axes: Sequence[str]) -> None:
        self.finding, self.axes, self.where = finding, list(axes), {**finding["where"]}
        self.statistic = str(self.where.pop(comparisons.STATISTIC, MEAN))
        self.compare: dict[str, Any] = {**finding.get("compare", {})}
        self.metric, self.reduction = name_in(finding), finding["expect"]["over"]
        self.sides = [str(self.compare[side]) for side in comparisons.SIDES if side in self.compare]
        self.keys = [axis for axis in axes if axis != self.compare.get("axis")]

    @property
    def unit(self) -> str:
        return METRICS[self.metric].unit if self.metric in METRICS else ""

    def involved(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the finding's cells. `frame` may lack axes."""
        return rows_where(frame, {a: of for a, of in self.where.items() if a in frame})

    def values(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return a row per cell or pair, host and round: `value` (infinite for a ratio with a 0),
        `fixed_share`, and `works` by side."""
        works = pd.Series([{"": work} for work in rows["work"]], rows.index, dtype=object)
        return rows.assign(value=rows[self.metric], works=works).dropna(subset="value")

    def pairs(self, values: pd.DataFrame) -> list[CellPair]:
        """Return the pairs of cells of ratios; their noise is the noise of the ratios."""
        return []

    def evaluate(self, rounds: pd.DataFrame, context: EvaluationContext) -> Evaluation:
        if self.metric not in rounds:
            return Evaluation(reasons=[Reason(ReasonCode.NO_METRIC, {"metric": self.metric})])
        rows = self.involved(rounds)
        # Ratios of several hosts are averaged. Values of several hosts are neither averaged nor divided.
        hosts = group_rows(rows, self.keys if self.sides else [])["host"]
        if len(several := rows["host"][hosts.transform("nunique") > 1]):
            return _of_several_hosts(several)
        values, refused = self._comparable(self.values(rows))
        noise = context.noise(self.metric, self.statistic)
        large, total = self._without_small(values, noise), self.count(values)
        others = list[Reason]()
        if excluded := total - self.count(large):
            numbers = {"excluded": excluded, "total": words.count_of(total, self.noun)}
            others.append(Reason(ReasonCode.FIXED_COST, numbers))
            if large.empty:
                small = self._with_error(values, noise)
                return Evaluation(small, Verdict.TOO_SMALL, others, values=values)
        if large.empty:
            return Evaluation(reasons=refused or [self._why_nothing(rows, context.grid)])
        value, count = self._with_error(large, noise), self.count(large)
        if not value.n:
            incomplete = Reason(ReasonCode.INCOMPLETE, {"total": words.count_of(count, self.noun)})
            return Evaluation(verdict=Verdict.UNDECIDED, reasons=[*refused, incomplete])
        if not all(map(noise.are_in_turns, self.pairs(large))):
            others.append(Reason(ReasonCode.NOT_IN_TURNS))
        others = [*self._partial(rounds, count, context.grid), *others]
        if refused:
            return Evaluation(
                value, Verdict.UNDECIDED, [*refused, *others], self.over(count), large
            )
        verdict, reasons = verdict_of(self.finding, value, context.limits, noise.has_duplicates)
        # An expectation holds or fails, whatever its pairs do.
        if not context.are_expectations and self._is_mixed(large, noise, context.limits):
            verdict = Verdict.MIXED
        if not value.is_ratio:
            # No time, share or count is below 0. The verdict used the whole interval.
            value = replace(value, low=max(value.low, 0.0))
        return Evaluation(value, verdict, [*reasons, *others], self.over(count), large)

    def rows_of(self, values: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the cells or pairs that have values."""
        return rows.merge(values[self.keys].drop_duplicates()) if self.keys else rows

    def count(self, values: pd.DataFrame) -> int:
        return int(group_rows(values, self.keys).ngroups)

    def over(self, count: int) -> str:
        things = words.count_of(count, self.noun)
        return things if count == 1 else f"{REDUCTIONS[self.reduction]} of {things}"

    def estimate(self, values: pd.DataFrame) -> Estimate:
        """Use only complete rounds, because all must reduce the same cells."""
        if values.empty:
            return NO_ESTIMATE
        of_rounds, count = values.groupby("round")["value"], self.count(values)
        is_mean = self.reduction == MEAN_OVER
        reduction = geometric_mean_of if self.sides and is_mean else self.reduction
        reduced = of_rounds.agg(reduction)[of_rounds.count() == count]
        averaged = float(count) if is_mean else 1.0
        numbers = np.log(reduced) if self.sides else reduced
        estimate = mean_interval(numbers, averaged, is_ratio=bool(self.sides))
        return replace(estimate, value=float(reduced.iloc[0])) if estimate.n == 1 else estimate

    def _with_error(self, values: pd.DataFrame, noise: Noise) -> Estimate:
        """Return the value with the error of its verdict.

        The least of several noisy values is below each true one, and more rounds do not change that. So pairs
        and cells are averaged over their rounds first, and the least or greatest of them is taken then.
        """
        if self.reduction == MEAN_OVER or self.count(values) == 1:
            return noise.with_error(self.estimate(values), self.pairs(values))
        estimates = [self._with_error(of, noise) for _, of in group_rows(values, self.keys)]
        return self.reduce([estimate for estimate in estimates if estimate.n])

    def reduce(self, estimates: Sequence[Estimate]) -> Estimate:
        """Return the mean, least or greatest. Intervals of the last two hold together (Bonferroni)."""
        is_mean = self.reduction == MEAN_OVER
        chance = (1 - CONFIDENCE) / (1 if is_mean else len(estimates))
        wide = pd.DataFrame([e.with_error(e.error, e.degrees, 1 - chance) for e in estimates])

        def reduced(values: pd.Series) -> float:
            if is_mean:
                return geometric_mean_of(values)
            return float(values.agg(self.reduction, skipna=False))

        low, high = (float(reduced(wide[end])) for end in ("low", "high"))
        value = float(reduced(pd.Series([e.value for e in estimates])))
        error = float(wide["error"].max(skipna=False))
        return replace(
            estimates[0], value=value, low=low, high=high, n=int(wide["n"].min()), error=error
        )

    def _without_small(self, values: pd.DataFrame, noise: Noise) -> pd.DataFrame:
        """Return the values without pairs whose difference can be start-up."""
        # A limit of a time holds with its start-up.
        if not self.sides or METRICS[self.metric].exact:
            return values
        for _, pair in group_rows(values, self.keys):
            ratio = self._with_error(pair, noise)
            shares = [pair[f"{FIXED_SHARE}_{side}"].max() for side in comparisons.SIDES]
            is_faster = ratio.value >= 1
            slow_share, fast_share = shares if is_faster else reversed(shares)
            least_factor = ratio.low if is_faster else 1 / ratio.high
            if comparisons.can_be_start_up(fast_share, slow_share, least_factor):
                values = values.drop(pair.index)
        return values

    def _is_mixed(self, values: pd.DataFrame, noise: Noise, limits: Limits) -> bool:
        """Return True if one pair is surely faster and another surely slower, both by the margin."""
        if not self.sides or self.reduction != MEAN_OVER:
            return False
        ratios = [self._with_error(pair, noise) for _, pair in group_rows(values, self.keys)]
        is_faster = any(r.low > 1 and r.value >= limits.margin for r in ratios)
        is_slower = any(r.high < 1 and r.value <= 1 / limits.margin for r in ratios)
        return is_faster and is_slower

    def _comparable(self, values: pd.DataFrame) -> tuple[pd.DataFrame, list[Reason]]:
        """Return the values of the same work, and the reasons for leaving others out."""
        refused: list[Reason] = []
        for _, of_key in group_rows(values, self.keys):
            first = of_key.iloc[0].to_dict()
            refusal = same_work.refusal(same_work.name_of(first, self.keys), first["works"])
            if refusal and refusal.flag in self.refused_work:
                reason = Reason(ReasonCode(refusal.flag), {"detail": refusal.reason})
            elif np.isinf(of_key["value"]).any():
                reason = Reason(ReasonCode.NOT_COUNTED, {"withheld": WithheldCode.ZERO})
            else:
                continue
            if reason not in refused:
                refused.append(reason)
            values = values.drop(of_key.index)
        return values, refused

    def _why_nothing(self, rows: pd.DataFrame, grid: Sequence[Mapping[str, str]]) -> Reason:
        why_missing = METRICS[self.metric].why_missing
        if len(rows) and why_missing:
            return Reason(ReasonCode.NOT_COUNTED, {"withheld": why_missing})
        for side in [{self.compare["axis"]: side} for side in self.sides] or [{}]:
            where = {**self.where, **side}
            cells = [cell for cell in grid if matches_cell(cell, where)]
            if not cells:
                named = [f"{a} {' or '.join(axis_values(v))}" for a, v in where.items()]
                return Reason(ReasonCode.NOT_IN_GRID, {"cells": ", ".join(named) or "any"})
            if all(cell["skip"] for cell in cells):
                return Reason(ReasonCode.SKIPPED, {"reason": cells[0]["skip"]})
        return Reason(ReasonCode.NO_RESULT)

    def _partial(
        self, rounds: pd.DataFrame, count: int, grid: Sequence[Mapping[str, str]]
    ) -> list[Reason]:
        axes = [axis for axis in self.axes if grid and axis in grid[0]]
        if not axes or self.compare.get("axis", axes[0]) not in axes:
            return []
        cells = self.involved(pd.DataFrame(grid)[axes].drop_duplicates())
        known = rows_where(rounds[rounds[self.metric].notna()], self.where)
        measured = cells.merge(known[axes].drop_duplicates())
        if len(measured) == len(cells):
            return []
        numbers = {"measured": len(measured), "total": len(cells)}
        return [
            Reason(ReasonCode.PARTIAL, {**numbers, "reduced": words.count_of(count, self.noun)})
        ]


class PairCheck(CellCheck):
    """A check of ratios baseline / candidate: of two cells that differ in one axis, on the same host."""

    noun = "pair"
    refused_work = same_work.REFUSED

    @property
    def unit(self) -> str:
        return f"times, {' / '.join(self.sides)}"

    def involved(self, frame: pd.DataFrame) -> pd.DataFrame:
        rows, axis = super().involved(frame), self.compare["axis"]
        both = pd.concat([rows[rows[axis] == side] for side in self.sides])
        keys = [key for key in self.keys if key in frame]
        return both[group_rows(both, keys)[axis].transform("nunique") == 2]

    def values(self, rows: pd.DataFrame) -> pd.DataFrame:
        on = [*self.keys, "host", "round"]
        pairs = pair_rows(rows, self.compare["axis"], self.sides, on)
        both = zip(pairs["work_baseline"], pairs["work_candidate"], strict=True)
        works = pd.Series([dict(zip(self.sides, of, strict=True)) for of in both], dtype=object)
        shares = pairs[[f"{FIXED_SHARE}_baseline", f"{FIXED_SHARE}_candidate"]].max(axis=1)
        sides = pairs[[f"{self.metric}_{side}" for side in comparisons.SIDES]]
        value = (sides.iloc[:, 0] / sides.iloc[:, 1]).mask((sides <= 0).any(axis=1), math.inf)
        return pairs.assign(value=value, works=works, fixed_share=shares).dropna(subset="value")

    def pairs(self, values: pd.DataFrame) -> list[CellPair]:
        place = self.axes.index(self.compare["axis"])
        known = dict.fromkeys(zip(*(values[key] for key in self.keys), strict=True))
        first, second = self.sides
        return [
            ((*key[:place], first, *key[place:]), (*key[:place], second, *key[place:]))
            for key in known
        ]


class BaselineCheck(CellCheck):
    """A check of ratios saved / now of each cell with a saved baseline."""

    @property
    def unit(self) -> str:
        return f"times, {self.compare['to']} / now"

    def evaluate(self, rounds: pd.DataFrame, context: EvaluationContext) -> Evaluation:
        name = self.compare["to"]
        if name not in context.baselines:
            return Evaluation(reasons=[Reason(ReasonCode.NO_BASELINE, {"name": name})])
        pairs = self.involved(context.baselines[name])
        if pairs.empty:
            return Evaluation(reasons=[self._why_nothing(pairs, context.grid)])
        other_host = pairs["refused"].map(lambda refused: WithheldCode.HOSTS_DIFFER in refused)
        if other_host.any():
            return _of_several_hosts(chain.from_iterable(pairs["hosts"][other_host]))
        counts = Counter(chain.from_iterable(pairs["refused"]))
        excluded = [
            Reason(
                ReasonCode.NOT_COMPARED,
                {"withheld": code, "excluded": counts[code], "total": len(pairs)},
            )
            for code in WithheldCode
            if counts[code]
        ]
        compared = pairs[pairs["withheld"] == ""]
        if compared.empty:
            return Evaluation(verdict=Verdict.UNDECIDED, reasons=excluded)
        columns = compared[["ratio", "low", "high", "n", "error", "degrees"]]
        value = self.reduce([Estimate(*row) for row in columns.itertuples(index=False)])
        has_duplicates = bool(compared["duplicate_sd"].notna().all())
        verdict, reasons = verdict_of(self.finding, value, context.limits, has_duplicates)
        verdict = Verdict.UNDECIDED if excluded and verdict == Verdict.REPRODUCED else verdict
        return Evaluation(value, verdict, [*reasons, *excluded], self.over(len(compared)))


def _of_several_hosts(hosts: Iterable[str]) -> Evaluation:
    reason = Reason(ReasonCode.HOSTS_DIFFER, {"hosts": ", ".join(sorted({*hosts}))})
    return Evaluation(verdict=Verdict.UNDECIDED, reasons=[reason])


def verdict_of(
    finding: FindingDefinition, measured: Estimate, limits: Limits, has_duplicates: bool = True
) -> tuple[Verdict, list[Reason]]:
    if measured.n < comparisons.CALLED_ROUNDS:
        return Verdict.UNDECIDED, [Reason(ReasonCode.FEW_ROUNDS)]
    unknown = [] if has_duplicates else [Reason(ReasonCode.NO_DUPLICATES)]
    if is_expected(finding, measured.low) and is_expected(finding, measured.high):
        return Verdict.REPRODUCED, unknown
    low, high = expected_bounds(finding)
    if measured.high < low or measured.low > high:
        return direction_of(finding, measured, limits), unknown
    return Verdict.UNDECIDED, [*unknown, _why_undecided(finding, measured)]


def direction_of(finding: FindingDefinition, measured: Estimate, limits: Limits) -> Verdict:
    """Return how a value outside of its expected range differs from it."""
    low, high = expected_bounds(finding)
    has_effect = low > limits.margin or high < 1 / limits.margin
    is_equal = 1 / limits.margin <= measured.low and measured.high <= limits.margin
    if measured.is_ratio and has_effect and is_equal:
        return Verdict.GONE
    value = measured.value
    if "compare" not in finding:
        return Verdict.WEAKER if value < low else Verdict.STRONGER
    if low <= 1 <= high:
        return Verdict.STRONGER
    if low > 1:
        if measured.high < 1:
            return Verdict.REVERSED
        return Verdict.WEAKER if value < low else Verdict.STRONGER
    if measured.low > 1:
        return Verdict.REVERSED
    return Verdict.WEAKER if value > high else Verdict.STRONGER


def _why_undecided(finding: FindingDefinition, measured: Estimate) -> Reason:
    """Return the number of rounds that should decide a value whose interval crosses a bound."""
    if "to" in finding.get("compare", {}):
        return Reason(ReasonCode.SAVED_ROUNDS)
    on = math.log if measured.is_ratio else float
    value, shrink = on(measured.value), 0.0
    for bound in expected_bounds(finding):
        if measured.low <= bound <= measured.high:
            half = on(measured.high if bound > measured.value else measured.low) - value
            room = on(bound) - value
            shrink = max(shrink, half / room if room else math.inf)
    needed = measured.n * shrink**2
    if needed > MAX_ROUNDS:
        return Reason(ReasonCode.ON_BOUND)
    return Reason(ReasonCode.NEEDS_ROUNDS, {"needed": math.ceil(needed), "n": measured.n})


def is_expected(finding: FindingDefinition, value: float) -> bool:
    low, high = expected_bounds(finding)
    return low <= value <= high


def expected_bounds(finding: FindingDefinition) -> tuple[float, float]:
    expect = finding["expect"]
    return expect.get("at_least", -math.inf), expect.get("at_most", math.inf)


def smaller_scales(
    rows: pd.DataFrame, subject: str, context: EvaluationContext
) -> list[tuple[str, float]]:
    """Return the repositories of rows that are smaller than published, with their scales."""
    names = dict.fromkeys(rows[subject]) if subject else ()
    scales = {name: context.scales.get(name, math.inf) for name in names}
    whole = context.published.scale or 0.0
    return [(name, scale) for name, scale in scales.items() if scale < whole]

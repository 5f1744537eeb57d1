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
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, SIDES, Limits
from vcsbench.statistics.estimates import CONFIDENCE, NO_ESTIMATE, Estimate, mean_interval
from vcsbench.statistics.finding_verdicts import judge_value
from vcsbench.statistics.noise import NO_NOISE, CellPair, Noise
from vcsbench.statistics.verdicts import Reason

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition

# The words for the key `over` of a finding, in `least of 12 cells`.
REDUCTIONS = {"mean": "mean", "min": "least", "max": "greatest"}
# The reduction of a statement about the usual case.
MEAN_OVER = "mean"


@dataclass(frozen=True)
class Conditions:
    """Conditions under which published numbers were measured. An unpublished condition is None or "".

    Examples: the scale 1.0 (all revisions), Subversion `1.9`, storage `SSD`, a `server` on another machine,
    system `Windows`.
    """

    scale: float | None = None
    subversion: str = ""
    storage: str = ""
    server: str = ""
    system: str = ""


@dataclass(frozen=True)
class EvaluationContext:
    """Facts about measured numbers that a verdict and its reasons use.

    - `scales`: the least scale of each repository.
    - `versions`: of Subversion; `storages`: kinds of storages, such as `SSD`.
    - `noise`: the noise by metric and statistic.
    - `grid`: the cells of the study, with `skip`: why one is not measured, or "".
    - `baselines`: the frame of pair_cells of each saved baseline.
    - `are_expectations`: True for the expectations of a user, which hold or fail.
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

    `values` has the rows of CellCheck.compute_values from which the value is computed. It is empty without a
    value, and for a comparison with a saved baseline. The default is a finding without measurements.
    """

    estimate: Estimate = NO_ESTIMATE
    verdict: Verdict = Verdict.NOT_MEASURED
    reasons: Sequence[Reason] = ()
    over: str = ""
    values: pd.DataFrame = field(default_factory=pd.DataFrame)


def make_check(finding: FindingDefinition, axes: Sequence[str]) -> CellCheck:
    """Return the check of a finding, on levels, on two values of an axis, or against a saved baseline."""
    if "compare" not in finding:
        return CellCheck(finding, axes)
    if "to" in finding["compare"]:
        return BaselineCheck(finding, axes)
    return PairCheck(finding, axes)


def geometric_mean_of(ratios: pd.Series) -> float:
    """Return the geometric mean. It is NaN if one ratio is."""
    return float(np.exp(np.log(ratios).mean(skipna=False)))


class CellCheck:
    """A check of a finding on the values of cells, in frames of by_round, whose cells `axes` identify.

    `statistic` reduces the runs of a round to one value (default: mean). `where` selects the cells, such as
    `{"command": ["log"]}`. `reduction` is how the values of cells become one: mean, min or max. `keys` are
    the columns that identify what has a value: a cell, or in PairCheck a pair of cells. `sides` are the two
    values of the compared axis, the baseline first, such as ["f6", "f7"]; [] if cells are not compared.
    """

    noun = "cell"
    # The flags of work (same_work) with which a cell has no value. Unknown work is one of them in PairCheck
    # only: without a comparison, it need not be equal to any other.
    refused_work: tuple[str, ...] = (same_work.OTHER,)

    def __init__(self, finding: FindingDefinition, axes: Sequence[str]) -> None:
        self.finding = finding
        self.axes = list(axes)
        self.metric = name_in(finding)
        self.reduction = finding["expect"]["over"]
        self.where: dict[str, Any] = {**finding["where"]}
        # The key `where` of a finding may have `statistic`, as if it were an axis. But it selects no cells:
        # it says which statistic of the runs is meant. Published numbers have a row for each statistic.
        self.statistic = str(self.where.pop(comparisons.STATISTIC, MEAN))
        self.compare: dict[str, Any] = {**finding.get("compare", {})}
        self.sides = [str(self.compare[side]) for side in SIDES if side in self.compare]
        self.keys = [axis for axis in axes if axis != self.compare.get("axis")]

    @property
    def unit(self) -> str:
        return METRICS[self.metric].unit if self.metric in METRICS else ""

    def select_rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the finding's cells. `frame` may lack axes."""
        where = {axis: values for axis, values in self.where.items() if axis in frame}
        return rows_where(frame, where)

    def compute_values(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a cell or pair, one for each host and round, with the column `value`.

        A ratio in which a side is 0 is infinite, so that it can be left out later with its reason. Rows
        without a value are left out here. `works` has the work of each side by its name, {"f6": ..., "f7":
        ...}; a cell has one side, without name: {"": ...}. `fixed_share` is the share of start-up in the
        time.
        """
        works = pd.Series([{"": work} for work in rows["work"]], rows.index, dtype=object)
        return rows.assign(value=rows[self.metric], works=works).dropna(subset="value")

    def list_pairs(self, values: pd.DataFrame) -> list[CellPair]:
        """Return the pairs of cells of ratios; their noise is the noise of the ratios."""
        return []

    def evaluate(self, rounds: pd.DataFrame, context: EvaluationContext) -> Evaluation:
        """Compute the finding's value from the measured rounds, and judge it.

        `rounds` has a row per cell, host and round (by_round with the check's statistic). The result has the
        value with its interval, the verdict, and reasons. The first step that applies decides:

        1. The metric was not measured: not measured.
        2. Values that belong together come from several hosts: undecided.
        3. No cell or pair has a value: not measured. Cells that did different work have none.
        4. Start-up alone can explain the difference of every pair: too small.
        5. The value is a mean over cells, and no round has valid runs of all of them: undecided.
        6. Some cells did different work: undecided, with the value of the others.
        7. Otherwise the value is compared with the expected range (judge_value). The verdict is mixed if some
           pairs are surely faster and others surely slower.

        Example: `f7 is at least 1.8 times as fast` with 2.0 (1.9 to 2.1) over 12 pairs is reproduced. Reasons
        also tell what was left out: pairs that are mostly start-up, and cells without a result.
        """
        if self.metric not in rounds:
            return Evaluation(reasons=[Reason(ReasonCode.NO_METRIC, {"metric": self.metric})])
        rows = self.select_rows(rounds)
        # A time of one machine must neither be divided by a time of another machine, nor averaged with it. So
        # both cells of a pair need the same host; for values of cells, all cells do. A ratio is of one host
        # already, so the ratios of different pairs may come from several hosts.
        hosts = group_rows(rows, self.keys if self.sides else [])["host"]
        hosts_of_mixed = rows["host"][hosts.transform("nunique") > 1]
        if len(hosts_of_mixed):
            return _evaluation_of_several_hosts(hosts_of_mixed)
        values, refused = self._leave_out_other_work(self.compute_values(rows))
        noise = context.noise(self.metric, self.statistic)
        large = self._leave_out_start_up(values, noise)
        total, count = self.count(values), self.count(large)
        remarks: list[Reason] = []
        if count < total:
            numbers = {"excluded": total - count, "total": words.count_of(total, self.noun)}
            remarks.append(Reason(ReasonCode.FIXED_COST, numbers))
        if values.empty:
            why = refused or [self._why_nothing(rows, context.grid)]
            return Evaluation(reasons=why)
        if large.empty:
            small = self._with_error(values, noise)
            return Evaluation(small, Verdict.TOO_SMALL, remarks, values=values)
        value = self._with_error(large, noise)
        # A round counts only if all cells have a valid run in it (estimate). Here, no round has.
        if not value.n:
            incomplete = Reason(ReasonCode.INCOMPLETE, {"total": words.count_of(count, self.noun)})
            return Evaluation(verdict=Verdict.UNDECIDED, reasons=[*refused, incomplete])
        if not all(noise.are_in_turns(pair) for pair in self.list_pairs(large)):
            remarks.append(Reason(ReasonCode.NOT_IN_TURNS))
        remarks = [*self._remark_on_missing_cells(rounds, count, context.grid), *remarks]
        over = self.describe_reduction(count)
        # Cells that did different work are left out. They might contradict the finding, so the value of the
        # others does not decide it.
        if refused:
            return Evaluation(value, Verdict.UNDECIDED, [*refused, *remarks], over, large)
        verdict, reasons = judge_value(self.finding, value, context.limits, noise.has_duplicates)
        # A user's expectation is about the mean: it holds or fails, even if its pairs disagree.
        if not context.are_expectations and self._is_mixed(large, noise, context.limits):
            verdict = Verdict.MIXED
        if not value.is_ratio:
            # The interval of a mean may reach below 0. No time, share or count does, so it is cut for the
            # reader. judge_value() above has used the whole interval.
            value = replace(value, low=max(value.low, 0.0))
        return Evaluation(value, verdict, [*reasons, *remarks], over, large)

    def select_rows_with_values(self, values: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the cells or pairs that have values."""
        if not self.keys:
            return rows
        return rows.merge(values[self.keys].drop_duplicates())

    def count(self, values: pd.DataFrame) -> int:
        """Return the number of cells or pairs."""
        return int(group_rows(values, self.keys).ngroups)

    def describe_reduction(self, count: int) -> str:
        """Return `least of 12 cells`, or `1 pair`."""
        things = words.count_of(count, self.noun)
        return things if count == 1 else f"{REDUCTIONS[self.reduction]} of {things}"

    def estimate(self, values: pd.DataFrame) -> Estimate:
        """Return the finding's value with the interval that the scatter of its rounds gives.

        `values` has the rows of compute_values(): one for each cell or pair, host and round. First, the
        values of each round are reduced to one: to their mean (of ratios: geometric), least or greatest. Then
        the mean over the rounds is taken. Example: with `over: mean`, two pairs have the ratios 2.0 and 4.5
        in round 1, and 2.2 and 4.0 in round 2. The rounds have the geometric means 3.0 and 2.97, and the
        value is 2.98.

        A round counts only if it has all cells, because otherwise a missing slow cell would make its mean
        smaller. Without values or complete rounds, the result has `n` 0 and the value NaN.
        """
        if values.empty:
            return NO_ESTIMATE
        values_by_round = values.groupby("round")["value"]
        count = self.count(values)
        is_mean, is_ratio = self.reduction == MEAN_OVER, bool(self.sides)
        if is_mean and is_ratio:
            reduced = values_by_round.agg(geometric_mean_of)
        else:
            reduced = values_by_round.agg(self.reduction)
        # Only complete rounds: those with as many values as there are cells or pairs.
        reduced = reduced[values_by_round.count() == count]
        numbers = np.log(reduced) if is_ratio else reduced
        # The number of cells or pairs that a round's value averages. The least of them averages none.
        averaged = float(count) if is_mean else 1.0
        estimate = mean_interval(numbers, averaged, is_ratio=is_ratio)
        if estimate.n == 1:
            # exp(ln(x)) may differ from x in its last digit, and a published number is printed as it is.
            return replace(estimate, value=float(reduced.iloc[0]))
        return estimate

    def _with_error(self, values: pd.DataFrame, noise: Noise) -> Estimate:
        """Return the finding's value with the error that its verdict uses (Noise.with_error).

        A mean is taken within each round, then over the rounds (estimate). For the least or greatest, the
        order is the other way round: each cell or pair is averaged over its rounds, and then the least of
        these means is taken. Noise makes some value of each round too small, so the least of each round
        would be below the least true value, however many rounds there are.
        """
        if self.reduction == MEAN_OVER or self.count(values) == 1:
            return noise.with_error(self.estimate(values), self.list_pairs(values))
        estimates = []
        for _, values_of_key in group_rows(values, self.keys):
            estimate = self._with_error(values_of_key, noise)
            if estimate.n:
                estimates.append(estimate)
        return self.reduce(estimates)

    def reduce(self, estimates: Sequence[Estimate]) -> Estimate:
        """Return the mean, least or greatest of the estimates of single cells or pairs.

        The value, and both ends of the interval, are reduced separately. The least of 1.2 (1.1 to 1.3) and
        1.5 (1.4 to 1.6) is 1.2. Its interval is from the least low end to the least high end. `n` is the
        smallest number of rounds, `error` the largest one.

        The least of 10 intervals of 95 % is wrong with a chance of up to 10 x 5 %. By Bonferroni's
        inequality, 10 intervals of 99.5 % are all right with 95 %. So the single intervals are widened first,
        except for a mean. A mean is taken here only of ratios with a saved baseline. Its interval is the mean
        of the single intervals: averaging does not make it smaller, because all cells of a baseline share the
        noise of its day.
        """
        is_mean = self.reduction == MEAN_OVER
        # `chance` is the probability with which a single interval may be wrong.
        chance = (1 - CONFIDENCE) / (1 if is_mean else len(estimates))
        wide = [each.with_error(each.error, each.degrees, 1 - chance) for each in estimates]

        def reduce_numbers(numbers: Sequence[float]) -> float:
            values = pd.Series(numbers)
            if is_mean:
                return geometric_mean_of(values)
            return float(values.agg(self.reduction, skipna=False))

        return replace(
            estimates[0],
            value=reduce_numbers([each.value for each in estimates]),
            low=reduce_numbers([each.low for each in wide]),
            high=reduce_numbers([each.high for each in wide]),
            n=min(each.n for each in wide),
            error=float(pd.Series([each.error for each in wide]).max(skipna=False)),
        )

    def _leave_out_start_up(self, values: pd.DataFrame, noise: Noise) -> pd.DataFrame:
        """Return the values without the pairs whose difference start-up alone can explain.

        `values` has the rows of compute_values(). Start-up is the time of process start and connection; the
        columns `fixed_share_baseline` and `fixed_share_candidate` have its share in the time of both sides.
        """
        # A finding such as "takes at most 2 s" is about the time with its start-up. Counts have no start-up.
        if not self.sides or METRICS[self.metric].exact:
            return values
        for _, pair in group_rows(values, self.keys):
            ratio = self._with_error(pair, noise)
            baseline_share = pair[f"{FIXED_SHARE}_baseline"].max()
            candidate_share = pair[f"{FIXED_SHARE}_candidate"].max()
            # The ratio is baseline / candidate: above 1, the candidate is the faster side. `least_factor` is
            # the smallest factor between both sides, by the end of the interval that is nearer to 1.
            if ratio.value >= 1:
                fast_share, slow_share = candidate_share, baseline_share
                least_factor = ratio.low
            else:
                fast_share, slow_share = baseline_share, candidate_share
                least_factor = 1 / ratio.high
            if comparisons.can_be_start_up(fast_share, slow_share, least_factor):
                values = values.drop(pair.index)
        return values

    def _is_mixed(self, values: pd.DataFrame, noise: Noise, limits: Limits) -> bool:
        """Return True if one pair is surely faster and another surely slower.

        A pair counts as such if its whole interval lies on one side of 1, and its ratio is at least the
        margin (such as 1.1) away: 1.3 (1.2 to 1.4) and 0.8 (0.7 to 0.9) are mixed. Only a mean of ratios can
        be mixed.
        """
        if not self.sides or self.reduction != MEAN_OVER:
            return False
        ratios = [self._with_error(pair, noise) for _, pair in group_rows(values, self.keys)]
        is_faster = any(ratio.low > 1 and ratio.value >= limits.margin for ratio in ratios)
        is_slower = any(ratio.high < 1 and ratio.value <= 1 / limits.margin for ratio in ratios)
        return is_faster and is_slower

    def _leave_out_other_work(self, values: pd.DataFrame) -> tuple[pd.DataFrame, list[Reason]]:
        """Return the values of cells or pairs that may be compared, and the reasons why others may not.

        A pair is left out if its cells did different or unknown work, or if a 0 in a round leaves it without
        a ratio. A single cell is left out only if its rounds did different work. Equal reasons are returned
        once.
        """
        refused: list[Reason] = []
        for _, values_of_key in group_rows(values, self.keys):
            # by_round() has put the works of all rounds of a cell into each of its rows.
            first = values_of_key.iloc[0].to_dict()
            refusal = same_work.refusal(same_work.name_of(first, self.keys), first["works"])
            if refusal and refusal.flag in self.refused_work:
                reason = Reason(ReasonCode(refusal.flag), {"detail": refusal.reason})
            elif np.isinf(values_of_key["value"]).any():
                reason = Reason(ReasonCode.NOT_COUNTED, {"withheld": WithheldCode.ZERO})
            else:
                continue
            if reason not in refused:
                refused.append(reason)
            values = values.drop(values_of_key.index)
        return values, refused

    def _why_nothing(self, rows: pd.DataFrame, grid: Sequence[Mapping[str, str]]) -> Reason:
        """Return the reason why no cell or pair has a value.

        The first that applies: the kernel did not count the metric, the grid has no such cell, all such cells
        are skipped, or (in any other case) they failed. `rows` are the measured rounds of the finding's
        cells. `grid` has the cells of the study: their axes, and `skip` with a text why one is not measured,
        or "". For a pair, each side is looked up, the baseline first.
        """
        why_missing = METRICS[self.metric].why_missing
        if len(rows) and why_missing:
            return Reason(ReasonCode.NOT_COUNTED, {"withheld": why_missing})
        # The conditions that select the cells of each side. A finding that compares nothing has one side.
        wheres: list[dict[str, Any]] = [self.where]
        if self.sides:
            wheres = [{**self.where, self.compare["axis"]: side} for side in self.sides]
        for where in wheres:
            cells = [cell for cell in grid if matches_cell(cell, where)]
            if not cells:
                names = []
                for axis, values in where.items():
                    names.append(f"{axis} {' or '.join(axis_values(values))}")
                return Reason(ReasonCode.NOT_IN_GRID, {"cells": ", ".join(names) or "any"})
            if all(cell["skip"] for cell in cells):
                return Reason(ReasonCode.SKIPPED, {"reason": cells[0]["skip"]})
        return Reason(ReasonCode.NO_RESULT)

    def _remark_on_missing_cells(
        self, rounds: pd.DataFrame, count: int, grid: Sequence[Mapping[str, str]]
    ) -> list[Reason]:
        """Return a remark, such as `measured: 10 of 12 cells`, if cells of the finding lack a value; or [].

        `count` is the number of cells or pairs that the value is reduced over, which the remark tells, too.
        """
        axes = [axis for axis in self.axes if grid and axis in grid[0]]
        # A finding may compare the values of a column such as `run`, which is no axis of the grid. The cells
        # of its two sides cannot be looked up in the grid then.
        if not axes or self.compare.get("axis", axes[0]) not in axes:
            return []
        cells = self.select_rows(pd.DataFrame(grid)[axes].drop_duplicates())
        with_value = rows_where(rounds[rounds[self.metric].notna()], self.where)
        measured = cells.merge(with_value[axes].drop_duplicates())
        if len(measured) == len(cells):
            return []
        reduced = words.count_of(count, self.noun)
        numbers = {"measured": len(measured), "total": len(cells), "reduced": reduced}
        return [Reason(ReasonCode.PARTIAL, numbers)]


class PairCheck(CellCheck):
    """A check of ratios baseline / candidate: of two cells that differ in one axis, on the same host."""

    noun = "pair"
    refused_work = same_work.REFUSED

    @property
    def unit(self) -> str:
        return f"times, {' / '.join(self.sides)}"

    def select_rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the finding's cells that have a counterpart on the other side of the comparison.

        If f6 was measured with svn and http, and f7 with svn only, the rows of http are left out.
        """
        rows = super().select_rows(frame)
        axis = self.compare["axis"]
        rows_of_sides = pd.concat([rows[rows[axis] == side] for side in self.sides])
        keys = [key for key in self.keys if key in frame]
        number_of_sides = group_rows(rows_of_sides, keys)[axis].transform("nunique")
        return rows_of_sides[number_of_sides == 2]

    def compute_values(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return a row per pair of cells, host and round, with the ratio baseline / candidate in `value`.

        The ratio is infinite if one side is 0. Rounds that one side lacks are left out. `works` has the work
        of both sides: {"f6": ..., "f7": ...}. `fixed_share` is the larger share of start-up in both times.
        """
        on = [*self.keys, "host", "round"]
        pairs = pair_rows(rows, self.compare["axis"], self.sides, on)
        first_side, second_side = self.sides
        works = []
        for first, second in zip(pairs["work_baseline"], pairs["work_candidate"], strict=True):
            works.append({first_side: first, second_side: second})
        shares = pairs[[f"{FIXED_SHARE}_baseline", f"{FIXED_SHARE}_candidate"]].max(axis=1)
        baseline = pairs[f"{self.metric}_baseline"]
        candidate = pairs[f"{self.metric}_candidate"]
        # A side of 0 has no ratio. NaN would be left out silently below. Infinity stays, and
        # _leave_out_other_work() leaves the pair out with a reason.
        has_zero = (baseline <= 0) | (candidate <= 0)
        value = (baseline / candidate).mask(has_zero, math.inf)
        columns = {"value": value, "works": pd.Series(works, dtype=object), "fixed_share": shares}
        return pairs.assign(**columns).dropna(subset="value")

    def list_pairs(self, values: pd.DataFrame) -> list[CellPair]:
        """Return the two cells of each pair of `values`, by their values of all axes.

        Example: [(("log", "f6", "cold"), ("log", "f7", "cold"))] for the sides f6 and f7 of the second axis.
        """
        # The index of the compared axis in the key of a cell. `self.keys` are the other axes in their order.
        position = self.axes.index(self.compare["axis"])
        first, second = self.sides
        # A pair has a row for each round, and is listed once.
        keys = dict.fromkeys(zip(*(values[key] for key in self.keys), strict=True))
        pairs = []
        for key in keys:
            before, after = key[:position], key[position:]
            pairs.append(((*before, first, *after), (*before, second, *after)))
        return pairs


class BaselineCheck(CellCheck):
    """A check of ratios saved / now of each cell with a saved baseline."""

    @property
    def unit(self) -> str:
        return f"times, {self.compare['to']} / now"

    def evaluate(self, rounds: pd.DataFrame, context: EvaluationContext) -> Evaluation:
        """Return the value over the finding's cells in the frame of a saved baseline, and the verdict on it.

        The frame (context.baselines, of pair_cells) has a ratio saved / now for each cell: 0.8 means that the
        cell became slower. `rounds` are not used. The first of these cases applies:

        1. The baseline has no results of the study, or none of these cells: not measured.
        2. A cell was measured on other hosts than in the baseline: undecided.
        3. No cell can be compared, for example after a change of its settings: undecided.
        4. Otherwise the reduced ratio is judged (judge_value). `reproduced` becomes undecided if some cells
           could not be compared, because these may be the slower ones.
        """
        name = self.compare["to"]
        if name not in context.baselines:
            return Evaluation(reasons=[Reason(ReasonCode.NO_BASELINE, {"name": name})])
        pairs = self.select_rows(context.baselines[name])
        if pairs.empty:
            return Evaluation(reasons=[self._why_nothing(pairs, context.grid)])
        is_of_two_hosts = pairs["refused"].map(lambda codes: WithheldCode.HOSTS_DIFFER in codes)
        if is_of_two_hosts.any():
            hosts = chain.from_iterable(pairs["hosts"][is_of_two_hosts])
            return _evaluation_of_several_hosts(hosts)
        excluded = self._count_refused(pairs)
        compared = pairs[pairs["withheld"] == ""]
        if compared.empty:
            return Evaluation(verdict=Verdict.UNDECIDED, reasons=excluded)
        columns = compared[["ratio", "low", "high", "n", "error", "degrees"]]
        value = self.reduce([Estimate(*row) for row in columns.itertuples(index=False)])
        has_duplicates = bool(compared["duplicate_sd"].notna().all())
        verdict, reasons = judge_value(self.finding, value, context.limits, has_duplicates)
        # The cells that are not compared may be the slower ones, so the others do not prove the statement.
        if excluded and verdict == Verdict.REPRODUCED:
            verdict = Verdict.UNDECIDED
        over = self.describe_reduction(len(compared))
        return Evaluation(value, verdict, [*reasons, *excluded], over)

    def _count_refused(self, pairs: pd.DataFrame) -> list[Reason]:
        """Count the cells that are not compared, and return a reason for each code that says why.

        `pairs` is a frame of pair_cells(), whose column `refused` lists the codes of a cell. Example: 3 of 12
        cells have the code other-command. A cell with two codes counts for both.
        """
        counts = Counter(chain.from_iterable(pairs["refused"]))
        reasons = []
        for code in WithheldCode:
            if counts[code]:
                numbers = {"withheld": code, "excluded": counts[code], "total": len(pairs)}
                reasons.append(Reason(ReasonCode.NOT_COMPARED, numbers))
        return reasons


def _evaluation_of_several_hosts(hosts: Iterable[str]) -> Evaluation:
    reason = Reason(ReasonCode.HOSTS_DIFFER, {"hosts": ", ".join(sorted(set(hosts)))})
    return Evaluation(verdict=Verdict.UNDECIDED, reasons=[reason])

"""Check a finding: its value over cells, pairs of cells, or pairs with a saved baseline, and the verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from vcsbench import words
from vcsbench.codes import ReasonCode, Verdict, WithheldCode
from vcsbench.config.study import axis_values, matches_cell
from vcsbench.evidence import same_work
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import METRICS, name_in
from vcsbench.statistics import comparisons, disagreement
from vcsbench.statistics.aggregation import FIXED_SHARE, MEAN, pair_rows, rows_where
from vcsbench.statistics.comparisons import Limits
from vcsbench.statistics.estimates import (
    CONFIDENCE,
    NO_ESTIMATE,
    Estimate,
    geometric_mean_interval,
    mean_interval,
    ratio_interval,
)
from vcsbench.statistics.evaluations import VERSION_COLUMNS, Evaluation, EvaluationContext
from vcsbench.statistics.expected_range import ExpectedRange, expected_range
from vcsbench.statistics.finding_verdicts import ValueVerdict, judge_value
from vcsbench.statistics.noise import CellPair, Noise
from vcsbench.statistics.verdicts import MixedPart, Reason

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition

# The words for the key `over` of a finding, in `least of 12 cells`.
REDUCTIONS = {"mean": "mean", "min": "least", "max": "greatest"}
# The reduction of a statement about the usual case.
MEAN_OVER = "mean"


@dataclass(frozen=True)
class Selection:
    """The values of a finding on which the verdict is made, and the reasons why other values are left out.

    - `values`: rows of CellCheck.compute_values, of the cells or pairs that count.
    - `decisive`: the rows of `values` that are not too small to compare (_leave_out_too_small). The verdict
      is on these.
    - `refusals`: the reasons why cells or pairs do not count, such as other work (_why_refused).
    - `too_small`: a reason with the number of pairs in `values` that are not decisive; [] without such pairs.
    """

    values: pd.DataFrame
    decisive: pd.DataFrame
    refusals: Sequence[Reason]
    too_small: Sequence[Reason]


class KeyEstimate(NamedTuple):
    """The value of one cell or pair, and the index of its rows."""

    rows: pd.Index
    estimate: Estimate


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
    """A check of a finding on the values of cells, which computes the measured value and the verdict on it.

    Its frames have a row per cell, host and round (by_round). The columns `axes` identify a cell.
    `statistic` reduces the runs of a round to one value (default: mean). `where` selects the cells, such as
    `{"command": ["log"]}`. `sides` are the two values of `compared_axis`, the baseline first, such as ["f6",
    "f7"]. If no two values of an axis are compared, `sides` is [] and `compared_axis` is "".
    """

    noun = "cell"
    # The flags of work (same_work) with which a cell does not count. PairCheck adds the flag of unknown work,
    # because only a comparison needs two cells with the same work.
    refused_work: tuple[str, ...] = (same_work.OTHER,)

    def __init__(self, finding: FindingDefinition, axes: Sequence[str]) -> None:
        """Take a finding, and the columns that identify a cell.

        Example: `{"where": {"command": "log"}, "compare": {"axis": "format", "baseline": "f6", "candidate":
        "f7"}, "expect": {"at_least": 1.8, "over": "mean"}}` states that f7 is at least 1.8 times as fast as
        f6 for the command log. Without `compare`, the finding is about the values of single cells.
        """
        self.finding = finding
        self.axes = list(axes)
        self.metric = name_in(finding)
        # How the values of cells or pairs become one: mean, min or max.
        self.reduction = finding["expect"]["over"]
        # A copy, because pop() below must not change the finding.
        self.where: dict[str, object] = {**finding["where"]}
        # `statistic` selects no cells: it names the statistic of the runs, such as the best run of a round.
        self.statistic = str(self.where.pop(comparisons.STATISTIC, MEAN))
        compare = finding.get("compare", {})
        # A comparison with a saved baseline has the key `to`, and no axis.
        self.compared_axis = compare.get("axis", "")
        self.sides: list[str] = []
        if self.compared_axis:
            self.sides = [str(compare["baseline"]), str(compare["candidate"])]
        # The columns that identify a cell, or a pair of cells that differ in the compared axis only.
        self.keys = [axis for axis in axes if axis != self.compared_axis]

    @property
    def unit(self) -> str:
        return METRICS[self.metric].unit if self.metric in METRICS else ""

    @property
    def published_statistic(self) -> str:
        """Return the statistic of the published numbers: the runs' statistic, but the median for the mean.

        The mean is only vcsbench's own default. Published numbers are medians by default, as in tables.
        """
        return comparisons.MEDIAN if self.statistic == MEAN else self.statistic

    def select_rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the finding's cells. `frame` may lack axes."""
        where = {axis: values for axis, values in self.where.items() if axis in frame}
        return rows_where(frame, where)

    def compute_values(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of cells, one for each host and round, with the metric in the column `value`.

        Rows without a value are left out. PairCheck returns a row per pair of cells, whose value is a ratio.
        The column `works` has the work of each side of a comparison by its name: {"f6": ..., "f7": ...}. A
        cell is one side without a name: {"": ...}.
        """
        works = pd.Series([{"": work} for work in rows["work"]], rows.index, dtype=object)
        return rows.assign(value=rows[self.metric], works=works).dropna(subset="value")

    def list_pairs(self, values: pd.DataFrame) -> list[CellPair]:
        """Return the two cells of each ratio, whose noise makes the noise of the ratio; [] without ratios."""
        return []

    def evaluate(self, rounds: pd.DataFrame, context: EvaluationContext) -> Evaluation:
        """Return the finding's value from the measured rounds, with the verdict and its reasons.

        `rounds` are of by_round() with the check's statistic. First come the cases without a value: the
        statement is about other versions, the metric was not measured, or values of several hosts would be
        compared. Then values are left out in two steps. Refused values do not count, such as values of a pair
        with different work. Pairs that are too small to compare are left out of the verdict (_judge), which
        is on the other, decisive values.
        """
        rows = self.select_rows(rounds)
        other_version = self._why_other_version(context.known_values(rows, VERSION_COLUMNS))
        if other_version:
            return Evaluation(reasons=[other_version])
        if self.metric not in rounds:
            return Evaluation(reasons=[Reason(ReasonCode.NO_METRIC, {"metric": self.metric})])
        mixed_hosts = self._list_mixed_hosts(rows)
        if len(mixed_hosts):
            return _evaluation_of_several_hosts(mixed_hosts)
        noise = context.noise(self.metric, self.statistic)
        values, refusals = self._leave_out_refused(self.compute_values(rows))
        if values.empty:
            return self._evaluate_without_value(rows, refusals, context)
        decisive = self._leave_out_too_small(values, noise, context.limits)
        too_small = self._remark_on_too_small(self.count(values), self.count(decisive))
        selection = Selection(values, decisive, refusals, too_small)
        return self._judge(selection, rounds, noise, context)

    def _list_mixed_hosts(self, rows: pd.DataFrame) -> pd.Series:
        """Return the hosts of rows whose values would be divided or averaged, but are of several hosts.

        Both cells of a pair must have the same host. Without pairs, all cells must have the same one.
        """
        # Without columns, group_rows() makes one group of all rows.
        columns = self.keys if self.sides else []
        number_of_hosts = group_rows(rows, columns)["host"].transform("nunique")
        return rows["host"][number_of_hosts > 1]

    def _remark_on_too_small(self, count: int, decisive_count: int) -> list[Reason]:
        """Return a remark if some of `count` pairs are too small to compare (not decisive), otherwise []."""
        excluded = count - decisive_count
        if not excluded:
            return []
        # The time of such a pair is mostly a fixed cost, which is start-up, or it is too short.
        facts = {"excluded": excluded, "total": words.count_of(count, self.noun)}
        return [Reason(ReasonCode.FIXED_COST, facts)]

    def _why_other_version(self, versions: Sequence[str]) -> Reason | None:
        """Return the reason if the statement is not about one of the measured versions; None if it is.

        The keys of the finding are `since`, the first version that the statement is about, and `until`, the
        first later version that it is not about. Without a key, the text is "", which is neither newer nor
        older than a version.
        """
        since = self.finding.get("since", "")
        too_old = [version for version in versions if words.is_newer(since, version)]
        if too_old:
            facts = {"since": since, "measured": words.enumeration(too_old)}
            return Reason(ReasonCode.OLD_VERSION, facts)
        until = self.finding.get("until", "")
        too_new = [version for version in versions if words.is_at_least(version, until)]
        if too_new:
            facts = {"until": until, "measured": words.enumeration(too_new)}
            return Reason(ReasonCode.TOO_NEW_VERSION, facts)
        return None

    def _evaluate_without_value(
        self, rows: pd.DataFrame, refusals: Sequence[Reason], context: EvaluationContext
    ) -> Evaluation:
        """Return the evaluation of a finding without a value that counts: NOT_MEASURED, with the reasons.

        `rows` has the rounds of the finding's cells. `refusals` are the reasons why values that were measured
        do not count, such as other work; [] if there are no values. A user's expectation is UNDECIDED if
        there were measured values.
        """
        reasons = list(refusals)
        # The two cells of a pair may have values of different rounds, which give no ratio.
        if not reasons and self._lacks_shared_round(rows):
            facts = {"withheld": WithheldCode.NO_SHARED_ROUND}
            reasons.append(Reason(ReasonCode.NO_SHARED_ROUND, facts))
        # Each of these reasons is about values that were measured.
        has_measured_values = bool(reasons)
        if not has_measured_values:
            reason = self._why_nothing(rows, context.grid)
            return Evaluation(verdict=Verdict.NOT_MEASURED, reasons=[reason])
        # NOT_MEASURED would let an expectation pass by its key `allow_not_measured`.
        if context.are_expectations:
            return Evaluation(verdict=Verdict.UNDECIDED, reasons=reasons)
        return Evaluation(verdict=Verdict.NOT_MEASURED, reasons=reasons)

    def _lacks_shared_round(self, rows: pd.DataFrame) -> bool:
        """Return True if both cells of some pair have values, but never in the same round.

        `rows` has the rounds of the finding's cells, and no pair of these cells has a ratio.
        """
        if not self.sides:
            return False
        rows_with_value = rows[rows[self.metric].notna()]
        # select_rows() keeps pairs with values of both cells. These values are of different rounds, because
        # values of the same round would have a ratio.
        return not self.select_rows(rows_with_value).empty

    def _judge(
        self, selection: Selection, rounds: pd.DataFrame, noise: Noise, context: EvaluationContext
    ) -> Evaluation:
        """Return the value of the selected cells or pairs, with the verdict and its reasons.

        A selection has three kinds of cells or pairs. Refused ones do not count, and only the reasons are
        known. Some pairs are too small to compare. All others are decisive. `rounds` has the rounds of all
        cells of the study. The first case that applies decides:

        1. No pair is decisive: TOO_SMALL, with the value of the pairs that are too small.
        2. No round has all decisive cells or pairs, which a mean needs: UNDECIDED, without a value.
        3. Some cells or pairs are refused: UNDECIDED, because these might contradict the finding.
        4. Otherwise, the value of the decisive cells or pairs is judged (_judge_value).
        """
        decisive = selection.decisive
        if decisive.empty:
            value = self.estimate_with_noise(selection.values, noise)
            reasons = [*selection.refusals, *selection.too_small]
            return Evaluation(value, Verdict.TOO_SMALL, reasons, values=selection.values)
        count = self.count(decisive)
        value = self.estimate_with_noise(decisive, noise)
        # `n` is the number of rounds over which the value is averaged.
        has_value = value.n > 0
        if not has_value:
            incomplete = Reason(ReasonCode.INCOMPLETE, {"total": words.count_of(count, self.noun)})
            reasons = [*selection.refusals, incomplete, *selection.too_small]
            return Evaluation(verdict=Verdict.UNDECIDED, reasons=reasons)
        if selection.refusals:
            judged = ValueVerdict(Verdict.UNDECIDED, [])
        else:
            judged = self._judge_value(value, decisive, noise, context)
        remarks = self._list_remarks(selection, rounds, noise, context.grid)
        return Evaluation(
            # The interval is cut last, because the verdict needs the whole one.
            estimate=_without_negative_low(value),
            verdict=judged.verdict,
            reasons=[*selection.refusals, *judged.reasons, *remarks],
            over=self.describe_reduction(count),
            values=decisive,
        )

    def _list_remarks(
        self,
        selection: Selection,
        rounds: pd.DataFrame,
        noise: Noise,
        grid: Sequence[Mapping[str, str]],
    ) -> list[Reason]:
        """Return the remarks on the value of a selection: cells without a value, small pairs, other times."""
        count = self.count(selection.decisive)
        remarks = self._remark_on_missing_cells(rounds, count, grid)
        remarks += selection.too_small
        pairs = self.list_pairs(selection.decisive)
        # If the cells of a pair ran at different times, the machine may have changed in between.
        if not all(noise.are_in_turns(pair) for pair in pairs):
            remarks.append(Reason(ReasonCode.NOT_IN_TURNS))
        return remarks

    def _judge_value(
        self, value: Estimate, values: pd.DataFrame, noise: Noise, context: EvaluationContext
    ) -> ValueVerdict:
        """Return the verdict on the finding's value by its interval; MIXED if a mean hides a disagreement.

        `values` are of the cells or pairs over which the value was computed.
        """
        judged = judge_value(self.finding, value, context.limits, noise.has_duplicates)
        # The least or the greatest value does not claim that all cells or pairs are alike. A published mean
        # does. A user's expectation is about the mean only: it holds or fails, even if its pairs disagree.
        claims_that_all_are_alike = self.reduction == MEAN_OVER and not context.are_expectations
        if not claims_that_all_are_alike:
            return judged
        parts = self._estimate_each(values, noise)
        margin = context.limits.margin
        expected = expected_range(self.finding["expect"], margin)
        if not self._is_mixed([part.estimate for part in parts], expected, margin):
            return judged
        # More rounds do not settle a disagreement of pairs, so reasons such as NEEDS_ROUNDS are left out.
        reasons = [each for each in judged.reasons if each.code == ReasonCode.NO_DUPLICATES]
        reasons.append(self._describe_disagreement(values, parts, expected))
        return ValueVerdict(Verdict.MIXED, reasons)

    def select_rows_with_values(self, values: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
        """Return those rows whose cell or pair is one of the cells or pairs in `values`."""
        # Without keys, all rows belong to a single cell or pair.
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

        First, the values of each round are reduced to one number. Then these numbers are averaged. Example
        with `over: mean`: two pairs have the ratios 2.0 and 4.5 in round 1, and 2.2 and 4.0 in round 2. The
        geometric means 3.0 and 2.97 give the value 2.98. Without a round that has all cells or pairs, the
        result has `n` 0 and the value NaN.
        """
        if values.empty:
            return NO_ESTIMATE
        count = self.count(values)
        number_by_round = self._reduce_rounds(values, count)
        # The result keeps how many cells or pairs its mean averages, because their noise averages out.
        averaged = float(count) if self.reduction == MEAN_OVER else 1.0
        estimate = self._average_rounds(number_by_round, averaged)
        if estimate.n == 1:
            # exp(ln(x)) may differ from x in its last digit, and a published number is printed as it is.
            return replace(estimate, value=float(number_by_round.iloc[0]))
        return estimate

    def _reduce_rounds(self, values: pd.DataFrame, count: int) -> pd.Series:
        """Return a number per round: the mean, least or greatest of the values of its `count` cells or pairs.

        The mean of ratios is geometric. Rounds with fewer than `count` values are left out, because the mean
        of a round that lacks a slow cell would be too small.
        """
        values_by_round = values.groupby("round")["value"]
        if self.reduction == MEAN_OVER and self.sides:
            number_by_round = values_by_round.agg(geometric_mean_of)
        else:
            # The reductions mean, min and max are names of functions of pandas.
            number_by_round = values_by_round.agg(self.reduction)
        is_complete = values_by_round.count() == count
        return number_by_round[is_complete]

    def _average_rounds(self, number_by_round: pd.Series, averaged: float) -> Estimate:
        """Return the mean over the rounds with its interval: geometric for ratios and times, else arithmetic.

        `averaged` is only stored in the result.
        """
        if self.sides:
            return ratio_interval(np.log(number_by_round), averaged)
        # A CPU time may be 0, which has no logarithm. Then the mean is arithmetic, as for other metrics.
        has_logs = METRICS[self.metric].takes_mean and bool((number_by_round > 0).all())
        if has_logs:
            return geometric_mean_interval(np.log(number_by_round), averaged)
        return mean_interval(number_by_round, averaged)

    def estimate_with_noise(self, values: pd.DataFrame, noise: Noise) -> Estimate:
        """Return the finding's value with the error that its verdict uses (Noise.with_error).

        For a mean, the cells or pairs are averaged within each round, and then the rounds are averaged. For
        the least or the greatest, each cell or pair is averaged over its rounds first.
        """
        if self.reduction == MEAN_OVER:
            return noise.with_error(self.estimate(values), self.list_pairs(values))
        # Noise makes some value of each round too small. So a mean of each round's least value would be below
        # the least true value, however many rounds there are.
        return self.reduce([each.estimate for each in self._estimate_each(values, noise)])

    def _estimate_each(self, values: pd.DataFrame, noise: Noise) -> list[KeyEstimate]:
        """Return the value of each cell or pair with its error."""
        estimates = []
        for _, values_of_key in group_rows(values, self.keys):
            estimate = self.estimate(values_of_key)
            estimate = noise.with_error(estimate, self.list_pairs(values_of_key))
            estimates.append(KeyEstimate(values_of_key.index, estimate))
        return estimates

    def reduce(self, estimates: Sequence[Estimate]) -> Estimate:
        """Return the mean, least or greatest of the estimates of one or more cells or pairs.

        Three numbers are reduced separately: the values, the lower ends of the intervals, and the upper ends.
        The intervals of a least or greatest are made wider first: the least of 1.2 (1.1 to 1.3) and 1.5 (1.4
        to 1.6) is 1.2 (1.09 to 1.32). The mean is geometric, because only BaselineCheck takes means here, and
        its values are ratios.
        """
        is_mean = self.reduction == MEAN_OVER
        # Each of 10 intervals of 95 % is wrong with a chance of 5 %, and the least end may be of any of them.
        # By Bonferroni's inequality, 10 intervals of 99.5 % are all right with 95 %. A mean picks none.
        number_of_intervals = 1 if is_mean else len(estimates)
        chance_of_each = (1 - CONFIDENCE) / number_of_intervals
        level = 1 - chance_of_each
        wide = [each.with_error(each.error, each.degrees, level) for each in estimates]

        def reduce_numbers(numbers: Sequence[float]) -> float:
            """Return the mean, least or greatest number; NaN if one of the numbers is NaN."""
            values = pd.Series(numbers)
            if is_mean:
                return geometric_mean_of(values)
            return float(values.agg(self.reduction, skipna=False))

        # Averaging does not make the interval of a mean smaller, because all cells of a baseline share the
        # noise of its day.
        return replace(
            estimates[0],
            value=reduce_numbers([each.value for each in estimates]),
            low=reduce_numbers([each.low for each in wide]),
            high=reduce_numbers([each.high for each in wide]),
            n=min(each.n for each in wide),
            error=float(pd.Series([each.error for each in wide]).max(skipna=False)),
            # The mean of one cell may be geometric, and another cell's mean not (CPU times of 0).
            is_geometric=all(each.is_geometric for each in wide),
        )

    def _leave_out_too_small(
        self, values: pd.DataFrame, noise: Noise, limits: Limits
    ) -> pd.DataFrame:
        """Return the values without the pairs that are too small to compare.

        A pair is too small if start-up alone can explain its difference, or if its slower side takes less
        than `limits.decides_from_s` seconds. Values of single cells are returned as they are.
        """
        # A value of cells, as in "takes at most 2 s", is a time with its start-up. Counts have no start-up.
        if not self.sides or METRICS[self.metric].exact:
            return values
        decisive = values
        for rows, ratio in self._estimate_each(values, noise):
            # The share may differ between the rounds of a cell, and the largest is the cautious one.
            shares = comparisons.start_up_shares(
                ratio.value,
                low=ratio.low,
                high=ratio.high,
                baseline=values.loc[rows, f"{FIXED_SHARE}_baseline"].max(),
                candidate=values.loc[rows, f"{FIXED_SHARE}_candidate"].max(),
            )
            times = values.loc[rows, [f"{self.metric}_baseline", f"{self.metric}_candidate"]]
            slower_side = times.mean().max()
            # CPU times are no durations. They are counted exactly, so short CPU times count.
            is_short = METRICS[self.metric].is_duration and slower_side < limits.decides_from_s
            # A table tests for a longer start-up of the slower side only if it calls the pair different. A
            # finding has no calls. True is the cautious choice, because it leaves out more pairs.
            is_start_up = comparisons.start_up_explains(shares, is_difference=True)
            if is_short or is_start_up:
                decisive = decisive.drop(rows)
        return decisive

    def _is_mixed(
        self, estimates: Sequence[Estimate], expected: ExpectedRange, margin: float
    ) -> bool:
        """Return True if cells or pairs disagree for certain, by the margin (such as 1.1).

        A mean can be inside the expected range although none of its cells is. So the interval of each cell or
        pair is compared with the range. That of a pair is also compared with 1, because one pair may be
        faster and another slower. An unknown interval (NaN) is never certain.
        """
        if disagreement.are_below_and_above(estimates, expected, margin):
            return True
        compares_pairs = bool(self.sides)
        if compares_pairs:
            return disagreement.are_faster_and_slower(estimates, margin)
        return disagreement.are_inside_and_outside(estimates, expected, margin)

    def _describe_disagreement(
        self, values: pd.DataFrame, parts: Sequence[KeyEstimate], expected: ExpectedRange
    ) -> Reason:
        """Return the reason of a mixed finding: each cell or pair, and if it is in, below or above the range.

        Each of `parts` has the estimate of a cell or pair, and the index of its rows in `values`.
        """
        records = []
        for rows, estimate in parts:
            # All rows of a cell or pair have the same values of axes.
            first_row = values.loc[rows[0]]
            low, high = estimate.low, estimate.high
            part = MixedPart(
                where={key: str(first_row[key]) for key in self.keys},
                place=expected.place_of(low, high),
                value=estimate.value,
                # As in the value of a finding, the interval of a share or a count does not reach below 0.
                low=max(low, 0.0) if math.isfinite(low) else None,
                high=high if math.isfinite(high) else None,
            )
            records.append(asdict(part))
        return Reason(ReasonCode.DISAGREEMENT, {"noun": self.noun, "parts": records})

    def _leave_out_refused(self, values: pd.DataFrame) -> tuple[pd.DataFrame, list[Reason]]:
        """Return the values of the cells or pairs that count, and the different reasons why others do not."""
        refusals: list[Reason] = []
        for _, values_of_key in group_rows(values, self.keys):
            reason = self._why_refused(values_of_key)
            if reason is None:
                continue
            if reason not in refusals:
                refusals.append(reason)
            values = values.drop(values_of_key.index)
        return values, refusals

    def _why_refused(self, values: pd.DataFrame) -> Reason | None:
        """Return why the values of one cell or pair do not count; None if they do.

        - A cell: its rounds did different work.
        - A pair: its rounds or its cells did different work, or their work is unknown. Or a value is 0, with
          which there is no ratio.
        """
        # by_round() has put the works of all rounds of a cell into each row of the cell.
        first_row = values.iloc[0].to_dict()
        command = same_work.name_of(first_row, self.keys)
        refusal = same_work.refusal(command, first_row["works"])
        # refusal() also reports unknown work, which a check of cells does not refuse.
        if refusal and refusal.flag in self.refused_work:
            return Reason(ReasonCode(refusal.flag), {"detail": refusal.reason})
        # compute_values() makes a ratio with a 0 infinite.
        if np.isinf(values["value"]).any():
            return Reason(ReasonCode.NOT_COUNTED, {"withheld": WithheldCode.ZERO})
        return None

    def _why_nothing(self, rows: pd.DataFrame, grid: Sequence[Mapping[str, str]]) -> Reason:
        """Return the reason why no cell or pair has a value: the first of this list that applies.

        - NOT_COUNTED: the cells ran, but the metric was not counted.
        - NOT_IN_GRID, SKIPPED: a side of the comparison has no cell in the grid, or only skipped ones.
        - NO_RESULT: the cells have no valid round. They failed, or no run has finished them so far, or their
          results are invalid or outdated.

        `rows` has the rounds of the finding's cells.
        """
        why_missing = METRICS[self.metric].why_missing
        if len(rows) and why_missing is not None:
            return Reason(ReasonCode.NOT_COUNTED, {"withheld": why_missing})
        # Each side of a comparison adds a condition to `where`, such as {"format": "f6"}.
        sides: list[dict[str, str]] = [{self.compared_axis: side} for side in self.sides] or [{}]
        for side in sides:
            where = {**self.where, **side}
            cells = [cell for cell in grid if matches_cell(cell, where)]
            if not cells:
                missing = {axis: [*axis_values(values)] for axis, values in where.items()}
                return Reason(ReasonCode.NOT_IN_GRID, {"where": missing})
            if all(cell["skip"] for cell in cells):
                return Reason(ReasonCode.SKIPPED, {"reason": cells[0]["skip"]})
        return Reason(ReasonCode.NO_RESULT)

    def _remark_on_missing_cells(
        self, rounds: pd.DataFrame, reduced_count: int, grid: Sequence[Mapping[str, str]]
    ) -> list[Reason]:
        """Return a remark if some of the finding's cells in the grid lack a value, otherwise [].

        Its text is `measured: 10 of 12 cells, reduced over 5 pairs`. The finding has 12 cells in `grid`, and
        10 of them have a value in `rounds`. The value of the finding is over 5 pairs (`reduced_count`).
        """
        if not grid:
            return []
        axes_of_grid = [axis for axis in self.axes if axis in grid[0]]
        # A finding may compare the values of a column such as `run`, which is no axis of the grid.
        is_outside = bool(self.compared_axis) and self.compared_axis not in axes_of_grid
        if not axes_of_grid or is_outside:
            return []
        # Of a comparison, select_rows() keeps only pairs with both cells in the grid.
        cells = self.select_rows(pd.DataFrame(grid)[axes_of_grid].drop_duplicates())
        rounds_with_value = rounds[rounds[self.metric].notna()]
        # The selection is by `where` only: a cell counts as measured even if the other cell of its pair has
        # no value. merge() then leaves out cells that are not in `cells`.
        rounds_of_finding = rows_where(rounds_with_value, self.where)
        measured = cells.merge(rounds_of_finding[axes_of_grid].drop_duplicates())
        if len(measured) == len(cells):
            return []
        facts = {
            "measured": len(measured),
            "total": len(cells),
            "reduced": words.count_of(reduced_count, self.noun),
        }
        return [Reason(ReasonCode.PARTIAL, facts)]


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
        rows_of_sides = pd.concat([rows[rows[self.compared_axis] == side] for side in self.sides])
        keys = [key for key in self.keys if key in frame]
        number_of_sides = group_rows(rows_of_sides, keys)[self.compared_axis].transform("nunique")
        return rows_of_sides[number_of_sides == 2]

    def compute_values(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return a row per pair of cells, host and round, with the ratio baseline / candidate in `value`.

        The ratio is infinite if one side is 0. Rounds that one side lacks are left out. The column `works`
        has the work of both sides: {"f6": ..., "f7": ...}.
        """
        on = [*self.keys, "host", "round"]
        pairs = pair_rows(rows, self.compared_axis, self.sides, on)
        baseline, candidate = self.sides
        works_of_pairs = zip(pairs["work_baseline"], pairs["work_candidate"], strict=True)
        works = []
        for baseline_work, candidate_work in works_of_pairs:
            works.append({baseline: baseline_work, candidate: candidate_work})
        baseline_values = pairs[f"{self.metric}_baseline"]
        candidate_values = pairs[f"{self.metric}_candidate"]
        # A pair with a 0 has no ratio. Infinity keeps its row for _why_refused(), which reports the reason.
        has_zero = (baseline_values <= 0) | (candidate_values <= 0)
        value = (baseline_values / candidate_values).mask(has_zero, math.inf)
        pairs = pairs.assign(value=value, works=pd.Series(works, dtype=object))
        # The ratio is NaN if one side did not count the metric in this round.
        return pairs.dropna(subset="value")

    def list_pairs(self, values: pd.DataFrame) -> list[CellPair]:
        """Return the two cells of each pair, by their values of all axes. `values` are of compute_values().

        Example: [(("log", "f6", "cold"), ("log", "f7", "cold"))] for the sides f6 and f7 of the second axis.
        """
        # `self.keys` are the axes without the compared one.
        position = self.axes.index(self.compared_axis)
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
        return f"times, {self.finding['compare']['to']} / now"

    def evaluate(self, rounds: pd.DataFrame, context: EvaluationContext) -> Evaluation:
        """Return the ratio saved / now over the finding's cells (0.8 is slower), and the verdict on it.

        The ratios of cells come from `context.baselines`, and `rounds` are not used. The verdict is:

        - NOT_MEASURED without the baseline, or without a cell of the finding.
        - UNDECIDED if a cell was measured on another host, or if no cell can be compared.
        - Otherwise by the value of the cells that can be compared. If others cannot, UNDECIDED replaces
          REPRODUCED, because these may be the slower ones.
        """
        name = self.finding["compare"]["to"]
        if name not in context.baselines:
            return Evaluation(reasons=[Reason(ReasonCode.NO_BASELINE, {"name": name})])
        # A row per cell. The column `refused` has the codes why the cell is not compared, such as OTHER_WORK.
        # The column `withheld` has them as text, which is "" for a compared cell.
        pairs = self.select_rows(context.baselines[name])
        if pairs.empty:
            return Evaluation(reasons=[self._why_nothing(pairs, context.grid)])
        is_of_two_hosts = [WithheldCode.HOSTS_DIFFER in codes for codes in pairs["refused"]]
        if any(is_of_two_hosts):
            hosts = chain.from_iterable(pairs["hosts"][is_of_two_hosts])
            return _evaluation_of_several_hosts(hosts)
        not_compared = _why_not_compared(pairs)
        compared = pairs[pairs["withheld"] == ""]
        if compared.empty:
            return Evaluation(verdict=Verdict.UNDECIDED, reasons=not_compared)
        # These columns have the order of the fields of Estimate.
        columns = compared[["ratio", "low", "high", "n", "error", "degrees"]]
        ratios = [Estimate(*row) for row in columns.itertuples(index=False)]
        value = self.reduce(ratios)
        has_duplicates = bool(compared["duplicate_sd"].notna().all())
        verdict, reasons = judge_value(self.finding, value, context.limits, has_duplicates)
        if not_compared and verdict == Verdict.REPRODUCED:
            verdict = Verdict.UNDECIDED
        over = self.describe_reduction(len(compared))
        return Evaluation(value, verdict, [*reasons, *not_compared], over)


def _why_not_compared(pairs: pd.DataFrame) -> list[Reason]:
    """Return a reason for each code in the column `refused`, with the number of cells that have it.

    `pairs` has a row per cell, with a list of codes. A cell with two codes counts for both.
    """
    counts = Counter(chain.from_iterable(pairs["refused"]))
    reasons = []
    for code in WithheldCode:
        if counts[code]:
            facts = {"withheld": code, "excluded": counts[code], "total": len(pairs)}
            reasons.append(Reason(ReasonCode.NOT_COMPARED, facts))
    return reasons


def _without_negative_low(estimate: Estimate) -> Estimate:
    """Return a time, share or count with an interval that does not reach below 0; a ratio as it is."""
    return estimate if estimate.is_ratio else replace(estimate, low=max(estimate.low, 0.0))


def _evaluation_of_several_hosts(hosts: Iterable[str]) -> Evaluation:
    reason = Reason(ReasonCode.HOSTS_DIFFER, {"hosts": ", ".join(sorted(set(hosts)))})
    return Evaluation(verdict=Verdict.UNDECIDED, reasons=[reason])

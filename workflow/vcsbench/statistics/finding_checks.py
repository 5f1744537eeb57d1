"""Check a finding: its value over cells, pairs of cells, or pairs with a saved baseline, and the verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from vcsbench import words
from vcsbench.codes import RangePlace, ReasonCode, Verdict, WithheldCode
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
    geometric_mean_interval,
    mean_interval,
    ratio_interval,
)
from vcsbench.statistics.expected_range import ExpectedRange, expected_range
from vcsbench.statistics.finding_verdicts import ValueVerdict, judge_value
from vcsbench.statistics.noise import NO_NOISE, CellPair, Noise
from vcsbench.statistics.verdicts import MixedPart, Reason

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition

# The words for the key `over` of a finding, in `least of 12 cells`.
REDUCTIONS = {"mean": "mean", "min": "least", "max": "greatest"}
# The reduction of a statement about the usual case.
MEAN_OVER = "mean"
# The columns of measurements with the versions of client and server, such as `1.14.2`.
VERSION_COLUMNS = ("client_version", "server_version")
# The column of measurements with the kind of the storage, such as `SSD`.
STORAGE_COLUMN = "storage_kind"
FACT_COLUMNS = (*VERSION_COLUMNS, STORAGE_COLUMN)


@dataclass(frozen=True)
class Conditions:
    """Conditions under which published numbers were measured. An unpublished condition is None or "".

    Examples: the scale 1.0 (all revisions), Subversion `1.9`, storage `SSD`, a `server` on another machine,
    system `Windows`, history `real`. `revisions` has the number of revisions of each repository, and `files`
    that of the files of its tree. `limits` has the most revisions that a command reads at any scale: {"log":
    20000}. `ranges` has the last revision of commands that read a part of the repository, which shrinks with
    the scale: {"dump": 5000}.
    """

    scale: float | None = None
    subversion: str = ""
    storage: str = ""
    server: str = ""
    system: str = ""
    revisions: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    ranges: Mapping[str, int] = field(default_factory=dict)
    history: str = ""


NOTHING_PUBLISHED = Conditions()


@dataclass(frozen=True)
class EvaluationContext:
    """Facts about measured numbers that a verdict and its reasons use.

    - `scales`: the least measured share of the revisions of each repository: {"ruby": 0.12}.
    - `cells`: the axes of each measured cell, with those of the FACT_COLUMNS that were measured. A cell has a
      row for each different combination.
    - `noise`: a function from a metric and a statistic of runs to the noise.
    - `grid`: the cells of the study, with `skip`: why one is not measured, or "".
    - `baselines`: the frame of pair_cells of each saved baseline.
    - `are_expectations`: False for findings, which were published. True for the expectations of a user, which
      hold or fail.
    """

    scales: Mapping[str, float] = field(default_factory=dict)
    cells: pd.DataFrame = field(default_factory=pd.DataFrame)
    published: Conditions = NOTHING_PUBLISHED
    noise: Callable[[str, str], Noise] = lambda _metric, _statistic: NO_NOISE
    grid: Sequence[Mapping[str, str]] = ()
    baselines: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    limits: Limits = DEFAULT_LIMITS
    are_expectations: bool = False

    def known_values(self, rows: pd.DataFrame, columns: Sequence[str]) -> list[str]:
        """Return the different values that the cells of `rows` have in some `columns` of `self.cells`.

        Example: the rounds of cells on a disk have the kind ["SSD"] in STORAGE_COLUMN, even if other cells of
        the study are in RAM. Unknown values are left out.
        """
        if rows.empty:
            return []
        cells = self.cells
        # merge() keeps the cells that `rows` has. Without a common column, all cells count.
        keys = [str(name) for name in cells if name in rows]
        if keys:
            cells = cells.merge(rows[keys].drop_duplicates(), on=keys)
        values: list[str] = []
        for name in columns:
            if name in cells:
                values += [str(value) for value in cells[name].dropna() if value != ""]
        return list(dict.fromkeys(values))


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


@dataclass(frozen=True)
class Selection:
    """The values of a finding, and the reasons why other values are left out.

    `values` has rows of CellCheck.compute_values, of the cells or pairs that count. `decisive` has the rows
    of those that are not too small to compare (_leave_out_too_small): the verdict is on these. `refused` has
    the reasons why cells or pairs do not count, such as other work. `start_up` has one reason with the number
    of the pairs that are too small. It is empty without such pairs.
    """

    values: pd.DataFrame
    decisive: pd.DataFrame
    refused: Sequence[Reason]
    start_up: Sequence[Reason]


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
        """Return the statistic of the published numbers: that of the runs, but the median for the mean.

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

        `rounds` are of by_round() with the check's statistic. The verdict is NOT_MEASURED if no measured
        value counts, or if the statement is about other versions, and UNDECIDED for times of several hosts.
        An expectation is also UNDECIDED if its cells were measured, but none of them counts.
        """
        rows = self.select_rows(rounds)
        other_version = self._why_other_version(context.known_values(rows, VERSION_COLUMNS))
        if other_version:
            return Evaluation(reasons=[other_version])
        if self.metric not in rounds:
            return Evaluation(reasons=[Reason(ReasonCode.NO_METRIC, {"metric": self.metric})])
        # Times of two machines must neither be divided nor averaged. Both cells of a pair need the same host,
        # and without pairs, all cells do: with [], group_rows() makes one group of all rows.
        keys_of_one_host = self.keys if self.sides else []
        number_of_hosts = group_rows(rows, keys_of_one_host)["host"].transform("nunique")
        mixed_hosts = rows["host"][number_of_hosts > 1]
        if len(mixed_hosts):
            return _evaluation_of_several_hosts(mixed_hosts)
        noise = context.noise(self.metric, self.statistic)
        values, refused = self._leave_out_refused(self.compute_values(rows))
        if values.empty:
            return self._evaluate_without_value(rows, refused, context)
        decisive = self._leave_out_too_small(values, noise, context.limits)
        total, count = self.count(values), self.count(decisive)
        start_up = []
        if count < total:
            numbers = {"excluded": total - count, "total": words.count_of(total, self.noun)}
            start_up.append(Reason(ReasonCode.FIXED_COST, numbers))
        selection = Selection(values, decisive, refused, start_up)
        return self._judge(selection, rounds, noise, context)

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
        self, rows: pd.DataFrame, refused: Sequence[Reason], context: EvaluationContext
    ) -> Evaluation:
        """Return the evaluation if no cell or pair has a value that counts, with the reasons why.

        A user's expectation is UNDECIDED if its cells were measured. In all other cases, the verdict is
        NOT_MEASURED. `rows` has the rounds of the finding's cells.
        """
        reasons = list(refused)
        if not reasons and self._lacks_shared_round(rows):
            facts = {"withheld": WithheldCode.NO_SHARED_ROUND}
            reasons.append(Reason(ReasonCode.NO_SHARED_ROUND, facts))
        # No reason so far: no cell has a value, or only one cell of each pair.
        if not reasons:
            return Evaluation(reasons=[self._why_nothing(rows, context.grid)])
        # The cells were measured. NOT_MEASURED would let an expectation pass by its key `allow_not_measured`.
        if context.are_expectations:
            return Evaluation(verdict=Verdict.UNDECIDED, reasons=reasons)
        return Evaluation(reasons=reasons)

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
        """Return the value of selected cells or pairs, with the verdict and all reasons of the selection.

        `rounds` has the rounds of all cells of the study. The first case that applies decides:

        1. Each pair is too small to compare (`decisive` is empty): TOO_SMALL, with the value of all pairs.
        2. A mean has no round with all cells or pairs: UNDECIDED, without a value.
        3. Some cells do not count (`refused`): UNDECIDED, with the value of the cells that count.
        4. Otherwise the value decides (_judge_value).
        """
        decisive = selection.decisive
        if decisive.empty:
            value = self.estimate_with_noise(selection.values, noise)
            reasons = [*selection.refused, *selection.start_up]
            # `over` would be the number of decisive pairs, and there are none.
            return Evaluation(value, Verdict.TOO_SMALL, reasons, values=selection.values)
        count = self.count(decisive)
        value = self.estimate_with_noise(decisive, noise)
        # `n` of a mean counts only the rounds that have all cells or pairs. It may be 0.
        if not value.n:
            incomplete = Reason(ReasonCode.INCOMPLETE, {"total": words.count_of(count, self.noun)})
            reasons = [*selection.refused, incomplete, *selection.start_up]
            return Evaluation(verdict=Verdict.UNDECIDED, reasons=reasons)
        if selection.refused:
            # The cells that are left out might contradict the finding.
            judged = ValueVerdict(Verdict.UNDECIDED, [])
        else:
            judged = self._judge_value(value, decisive, noise, context)
        remarks = self._remark_on_missing_cells(rounds, count, context.grid)
        remarks += selection.start_up
        if not all(noise.are_in_turns(pair) for pair in self.list_pairs(decisive)):
            remarks.append(Reason(ReasonCode.NOT_IN_TURNS))
        if not value.is_ratio:
            # The interval of a mean may reach below 0, and no time, share or count does. The interval is cut
            # after judge_value() has used the whole one.
            value = replace(value, low=max(value.low, 0.0))
        reasons = [*selection.refused, *judged.reasons, *remarks]
        return Evaluation(value, judged.verdict, reasons, self.describe_reduction(count), decisive)

    def _judge_value(
        self, value: Estimate, values: pd.DataFrame, noise: Noise, context: EvaluationContext
    ) -> ValueVerdict:
        """Return the verdict on the finding's value; mixed if the cells or pairs of `values` disagree."""
        judged = judge_value(self.finding, value, context.limits, noise.has_duplicates)
        # A user's expectation is about the mean: it holds or fails, even if its pairs disagree. A statement
        # about the least or the greatest value does not claim that all are alike.
        if context.are_expectations or self.reduction != MEAN_OVER:
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

        The values of each round are reduced to one, and then the mean over the rounds is taken. Example with
        `over: mean`: two pairs have the ratios 2.0 and 4.5 in round 1, and 2.2 and 4.0 in round 2. The
        geometric means 3.0 and 2.97 give the value 2.98. Without a round that has all cells or pairs, the
        result has `n` 0 and the value NaN.
        """
        if values.empty:
            return NO_ESTIMATE
        is_mean = self.reduction == MEAN_OVER
        is_ratio = bool(self.sides)
        values_by_round = values.groupby("round")["value"]
        if is_mean and is_ratio:
            value_of_round = values_by_round.agg(geometric_mean_of)
        else:
            # The reductions mean, min and max are names of functions of pandas.
            value_of_round = values_by_round.agg(self.reduction)
        # A round that lacks a slow cell would make the mean smaller. So only rounds with as many values as
        # there are cells or pairs count.
        count = self.count(values)
        complete = value_of_round[values_by_round.count() == count]
        # Noise.with_error() divides the noise of duplicates by the number of values that a round averages.
        averaged = float(count) if is_mean else 1.0
        # A CPU time may be 0, which has no logarithm. Then the mean is arithmetic, as that of other metrics.
        has_logs = METRICS[self.metric].takes_mean and bool((complete > 0).all())
        if is_ratio:
            estimate = ratio_interval(np.log(complete), averaged)
        elif has_logs:
            estimate = geometric_mean_interval(np.log(complete), averaged)
        else:
            estimate = mean_interval(complete, averaged)
        if estimate.n == 1:
            # exp(ln(x)) may differ from x in its last digit, and a published number is printed as it is.
            return replace(estimate, value=float(complete.iloc[0]))
        return estimate

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

        The value, and both ends of the interval, are reduced separately: the least of 1.2 (1.1 to 1.3) and
        1.5 (1.4 to 1.6) is 1.2 (1.1 to 1.3), but the intervals are made wider first. The mean is geometric,
        because only BaselineCheck takes means here, and its values are ratios.
        """
        is_mean = self.reduction == MEAN_OVER
        # The least of 10 intervals of 95 % is wrong with a chance of up to 10 x 5 %. By Bonferroni's
        # inequality, 10 intervals of 99.5 % are all right with 95 %. A mean picks no single interval.
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
            # The mean of one cell may be geometric, and that of another not (CPU times of 0).
            is_geometric=all(each.is_geometric for each in wide),
        )

    def _leave_out_too_small(
        self, values: pd.DataFrame, noise: Noise, limits: Limits
    ) -> pd.DataFrame:
        """Return the values without the pairs that are too small to compare.

        A pair is too small if start-up alone can explain its difference, or if its slower side takes less
        than `limits.decides_from_s` seconds. Values of single cells are returned as they are.
        """
        # A finding such as "takes at most 2 s" is about the time with its start-up. Counts have no start-up.
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
            # No call has decided here if a pair differs. `is_difference` is the cautious choice, because more
            # pairs are left out.
            if is_short or comparisons.start_up_explains(shares, is_difference=True):
                decisive = decisive.drop(rows)
        return decisive

    def _is_mixed(
        self, estimates: Sequence[Estimate], expected: ExpectedRange, margin: float
    ) -> bool:
        """Return True if cells or pairs disagree for certain, and by more than the margin (such as 1.1).

        A mean can be inside the expected range although none of its cells is. So the interval of each cell or
        pair is compared with the range itself:

        - One is below the range, another above it, both with the whole interval and by more than the margin.
          Example: with the range 1.5 to 3.5, the pairs 1.0 and 4.5 are mixed.
        - Cells: some are inside the range, others outside by more than the margin. Example: with `at_least:
          84`, cells of 98 % and 46 % are mixed.
        - Pairs: one is faster and another slower, each with its whole interval on one side of 1 and a ratio
          that differs from 1 by the margin or more. Example: 1.3 (1.2 to 1.4) and 0.8 (0.7 to 0.9).

        An unknown interval (NaN) is never certain.
        """
        is_below = any(each.high < expected.low / margin for each in estimates)
        is_above = any(each.low > expected.high * margin for each in estimates)
        if is_below and is_above:
            return True
        if not self.sides:
            places = [expected.place_of(each.low, each.high) for each in estimates]
            return RangePlace.INSIDE in places and (is_below or is_above)
        is_faster = any(ratio.low > 1 and ratio.value >= margin for ratio in estimates)
        is_slower = any(ratio.high < 1 and ratio.value <= 1 / margin for ratio in estimates)
        return is_faster and is_slower

    def _describe_disagreement(
        self, values: pd.DataFrame, parts: Sequence[KeyEstimate], expected: ExpectedRange
    ) -> Reason:
        """Return the reason of a mixed finding, with the place of each cell or pair in `parts`."""
        records = []
        for rows, estimate in parts:
            first = values.loc[rows[0]]
            low, high = estimate.low, estimate.high
            part = MixedPart(
                where={key: str(first[key]) for key in self.keys},
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
        refused: list[Reason] = []
        for _, values_of_key in group_rows(values, self.keys):
            reason = self._why_refused(values_of_key)
            if reason is None:
                continue
            if reason not in refused:
                refused.append(reason)
            values = values.drop(values_of_key.index)
        return values, refused

    def _why_refused(self, values: pd.DataFrame) -> Reason | None:
        """Return why the values of one cell or pair do not count; None if they do.

        A pair does not count if its cells did different or unknown work, or if a 0 in a round leaves the pair
        without a ratio. A single cell is left out in one case only: its rounds did different work.
        """
        # by_round() has put the works of all rounds of a cell into each row of the cell.
        first = values.iloc[0].to_dict()
        command = same_work.name_of(first, self.keys)
        refusal = same_work.refusal(command, first["works"])
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
        self, rounds: pd.DataFrame, count: int, grid: Sequence[Mapping[str, str]]
    ) -> list[Reason]:
        """Return a remark if some of the finding's cells lack a value, otherwise [].

        Its text is `measured: 10 of 12 cells, reduced over 5 pairs`. `grid` has the 12 cells, and `rounds`
        have a value for 10 of them. `count` is the 5: the cells or pairs in the value of the finding.
        """
        if not grid:
            return []
        axes_of_grid = [axis for axis in self.axes if axis in grid[0]]
        # A finding may compare the values of a column such as `run`, which is no axis of the grid.
        is_outside = bool(self.compared_axis) and self.compared_axis not in axes_of_grid
        if not axes_of_grid or is_outside:
            return []
        cells = self.select_rows(pd.DataFrame(grid)[axes_of_grid].drop_duplicates())
        # select_rows() would leave out a measured cell if the other cell of its pair is not measured.
        with_value = rows_where(rounds[rounds[self.metric].notna()], self.where)
        measured = cells.merge(with_value[axes_of_grid].drop_duplicates())
        if len(measured) == len(cells):
            return []
        count_text = words.count_of(count, self.noun)
        facts = {"measured": len(measured), "total": len(cells), "reduced": count_text}
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
        """Return the value over the finding's cells in the frame of a saved baseline, and the verdict on it.

        The value is a ratio saved / now: 0.8 is slower. `rounds` are not used. The verdict is NOT_MEASURED
        without the baseline or a cell of the finding, and UNDECIDED if a cell was measured on another host,
        or if no cell can be compared. If only some cells cannot be compared, UNDECIDED replaces REPRODUCED.
        """
        name = self.finding["compare"]["to"]
        if name not in context.baselines:
            return Evaluation(reasons=[Reason(ReasonCode.NO_BASELINE, {"name": name})])
        pairs = self.select_rows(context.baselines[name])
        if pairs.empty:
            return Evaluation(reasons=[self._why_nothing(pairs, context.grid)])
        is_of_two_hosts = [WithheldCode.HOSTS_DIFFER in codes for codes in pairs["refused"]]
        if any(is_of_two_hosts):
            hosts = chain.from_iterable(pairs["hosts"][is_of_two_hosts])
            return _evaluation_of_several_hosts(hosts)
        # A cell with two codes counts for both.
        counts = Counter(chain.from_iterable(pairs["refused"]))
        not_compared = []
        for code in WithheldCode:
            if counts[code]:
                numbers = {"withheld": code, "excluded": counts[code], "total": len(pairs)}
                not_compared.append(Reason(ReasonCode.NOT_COMPARED, numbers))
        compared = pairs[pairs["withheld"] == ""]
        if compared.empty:
            return Evaluation(verdict=Verdict.UNDECIDED, reasons=not_compared)
        # These columns have the order of the fields of Estimate.
        columns = compared[["ratio", "low", "high", "n", "error", "degrees"]]
        ratios = [Estimate(*row) for row in columns.itertuples(index=False)]
        value = self.reduce(ratios)
        has_duplicates = bool(compared["duplicate_sd"].notna().all())
        verdict, reasons = judge_value(self.finding, value, context.limits, has_duplicates)
        # The cells that are not compared may be the slower ones, so the others do not prove the statement.
        if not_compared and verdict == Verdict.REPRODUCED:
            verdict = Verdict.UNDECIDED
        over = self.describe_reduction(len(compared))
        return Evaluation(value, verdict, [*reasons, *not_compared], over)


def _evaluation_of_several_hosts(hosts: Iterable[str]) -> Evaluation:
    reason = Reason(ReasonCode.HOSTS_DIFFER, {"hosts": ", ".join(sorted(set(hosts)))})
    return Evaluation(verdict=Verdict.UNDECIDED, reasons=[reason])

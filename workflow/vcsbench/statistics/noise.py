"""Noise: how much cells with the same settings differ, in a metric and over all cells of a study.

Three variances make the error of every comparison:

- of each cell: the scatter of its rounds beyond the drift that its block shares; moderated over all
  cells;
- of averages over several pairs of cells: the ratio of their scatter to their cells' own, because what
  moves together in a round does not average out;
- of duplicates (A/A): the difference of their means beyond the scatter of rounds. No round reduces it.

Cells that were not measured in turns share no drift: each of them counts with its drift, as in Welch's test.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from vcsbench.metrics import DEFAULT_METRIC, METRICS
from vcsbench.statistics import moderation, variances
from vcsbench.statistics.aggregation import MEAN, by_round, duplicates_by_round, valid_runs
from vcsbench.statistics.duplicates import DuplicatePairs, duplicate_variance
from vcsbench.statistics.estimates import Estimate
from vcsbench.statistics.moderation import EXACT
from vcsbench.statistics.variances import Variance, sum_variances

UNKNOWN = Variance(math.nan)
# A cell by its values of axes: ("log", "svn", "ruby", "f6", "nopack", "slow", "cold").
CellKey = tuple[str, ...]
CellPair = tuple[CellKey, CellKey]


class CellNoise(NamedTuple):
    """A cell's block, as axis values, and the variance of one of its rounds.

    Drift makes all cells of a block slower in a round. `variance` is without drift, `drifting` with it.
    """

    block: CellKey
    variance: Variance
    drifting: Variance = UNKNOWN


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of a study in a metric; all variances are of natural logarithms.

    `duplicates` is the variance of the ratio of two cells with the same settings (NaN if none was measured).
    `averages` is the factor by which an average over pairs varies more than its cells suggest; None if it is
    unknown. `are_in_turns` returns False for a pair if, in most rounds, its two cells did not run one
    directly after the other.
    """

    cells: Mapping[CellKey, CellNoise] = field(default_factory=dict)
    duplicates: Variance = UNKNOWN
    averages: Variance | None = None
    are_in_turns: Callable[[CellPair], bool] = lambda _pair: True

    @property
    def has_duplicates(self) -> bool:
        return not math.isnan(self.duplicates.variance)

    def with_error(self, estimate: Estimate, pairs: Sequence[CellPair] = ()) -> Estimate:
        """Return the estimate with an error that includes the noise of the study, and a new interval.

        The squared error is the sum of two variances:

        - The variance by rounds shrinks with more rounds. For a ratio, this variance comes from the noise of
          the cells in `pairs`, whose ratios the estimate averages. For a value that is no ratio, and without
          pairs, it is the squared error that the estimate already has.
        - The variance by duplicates does not shrink, because duplicates differ alike in every round.

        Example: rounds scatter by 3 % in each of two cells, and duplicates differ by 1 %. After 5 rounds, the
        error of the ratio is sqrt(2 x 0.03^2 / 5 + 0.01^2) = 0.021. An estimate of fewer than two rounds
        stays as it is.
        """
        if estimate.n < 2:
            return estimate
        by_duplicates = Variance(0.0)
        if self.has_duplicates:
            by_duplicates = self.duplicates.scaled(1 / estimate.averaged)
        if estimate.is_ratio:
            by_rounds = self._variance_of_round(estimate, pairs).scaled(1 / estimate.n)
        else:
            by_rounds = Variance(estimate.error**2, estimate.degrees)
            # Each of the two cells in ln(duplicate / original) has half of the variance.
            by_duplicates = by_duplicates.scaled(1 / 2)
            # The error of a value is the value times the error of its logarithm (1 % of 20 % CPU is 0.2 %).
            if not estimate.is_log:
                by_duplicates = by_duplicates.scaled(estimate.value**2)
            # Without duplicates, the estimate's own error is all that is known.
            if not by_duplicates.variance:
                return estimate
        total = sum_variances([by_rounds, by_duplicates])
        # Without any scatter, the sum has infinite degrees of freedom, so the estimate keeps its own.
        degrees = total.degrees if total.variance else estimate.degrees
        return estimate.with_error(math.sqrt(total.variance), degrees)

    def _variance_of_round(self, estimate: Estimate, pairs: Sequence[CellPair]) -> Variance:
        """Return the variance of one round of a ratio that is averaged over pairs of cells.

        The first case that applies decides:

        1. Some pair was not measured in turns (f6, f7, f6, f7): the variances of the cells with their drift.
        2. No variance follows from the cells (_expected_by_cells), or the ratio is equal in all rounds: the
           ratio's own scatter.
        3. One pair: the variances of its two cells, without drift. These variances are estimated from all
           cells of the study, so they are known better than the ratio's own scatter over its few rounds.
        4. Several pairs: the variances of their cells times a factor, because cells may move together. If
           this factor is unknown: the ratio's own scatter.
        """
        observed = Variance(estimate.error**2 * estimate.n, estimate.degrees)
        if not all(self.are_in_turns(pair) for pair in pairs):
            # The variance of a pair's ratio is the sum over its two cells. An average of k independent ratios
            # would have 1 / k of the mean variance. But a session in which the machine was slower moves all
            # ratios together, so the average has the whole mean: the sum over all cells, divided by k.
            with_drift = [self.cells[key].drifting for pair in pairs for key in pair]
            return sum_variances(with_drift).scaled(1 / len(pairs))
        expected = self._expected_by_cells(pairs)
        # A ratio that is the same in every round has a reason, such as a rounded time. Other cells do not
        # share the reason.
        if expected is None or observed.variance < EXACT:
            return observed
        if len(pairs) == 1:
            return expected
        if self.averages is None:
            return observed
        return _variance_of_average(expected, observed, self.averages)

    def _expected_by_cells(self, pairs: Sequence[CellPair]) -> Variance | None:
        """Return the variance of a mean ratio of pairs in one round, if their cells scatter independently.

        Example: two pairs, whose four cells scatter by 3 %, have 4 x 0.03^2 / 2^2 = 0.0009, which is (3 %)^2.
        Return None without pairs, if the variance of a cell is unknown, if no cell scatters, or if the cells
        of a pair are in two blocks.
        """
        terms = []
        for first, second in pairs:
            if first not in self.cells or second not in self.cells:
                return None
            # The variances of cells exclude the drift of their block. Two blocks have different drifts, which
            # stay in the ratio.
            if self.cells[first].block != self.cells[second].block:
                return None
            terms += [self.cells[first].variance, self.cells[second].variance]
        # A variance with 0 degrees of freedom is unknown.
        if not terms or not all(variance.degrees for variance in terms):
            return None
        # A mean of k ratios is their sum / k, so its variance is the sum of their variances / k^2.
        total = sum_variances(terms).scaled(1 / len(pairs) ** 2)
        return total if total.variance else None


def _variance_of_average(
    expected: Variance, observed: Variance, study_factor: Variance
) -> Variance:
    """Return the variance of one round of an average over pairs, whose cells may move together.

    The result is `expected` (above 0), the variance by independent cells, times a factor. The factor is
    averaged from two sources, weighted by their degrees of freedom: the usual factor of the study, in the
    field `variance` of `study_factor`, and the factor of this average itself (`observed` / `expected`).
    Example: 1.8 with 12 degrees for the study, and 1.0 with 4 degrees for this average, give 1.6.
    """
    degrees_of_factor = study_factor.degrees + observed.degrees
    if math.isinf(degrees_of_factor):
        # The factor of the study is known exactly, and counts alone.
        study_share = 1.0
    else:
        study_share = study_factor.degrees / degrees_of_factor
    own_part = (1 - study_share) * observed.variance / expected.variance
    factor = study_share * study_factor.variance + own_part
    # The result is a product of two estimates, so their squared relative errors add up. The squared relative
    # error of a variance is 2 / degrees (Satterthwaite). The 2 cancels.
    degrees = 1 / (1 / degrees_of_factor + 1 / expected.degrees)
    return Variance(expected.variance * factor, degrees)


NO_NOISE = Noise(duplicates=Variance(0.0))


@dataclass(frozen=True, eq=False)
class LogTable:
    """Logarithms of a metric: a row per cell and host, a column per round (NaN if missing).

    `keys`, `hosts` and `is_duplicate` have an entry per row. `block_positions` are the indexes of the block's
    axes in a key: with [0, 2], the block of ("log", "f6", "cold") is ("log", "cold").
    """

    keys: Sequence[CellKey]
    hosts: Sequence[str]
    is_duplicate: Sequence[bool]
    logs: np.ndarray
    block_positions: Sequence[int]

    def block(self, row: int) -> CellKey:
        return tuple(self.keys[row][position] for position in self.block_positions)

    @property
    def originals(self) -> list[int]:
        """Return the numbers of the rows whose cells are no duplicates."""
        return [row for row, is_duplicate in enumerate(self.is_duplicate) if not is_duplicate]


def noise_by_metric(
    frame: pd.DataFrame,
    axes: Sequence[str],
    block: Sequence[str],
    rounds: pd.DataFrame | None = None,
    statistic: str = MEAN,
) -> Callable[[str], Noise]:
    """Return a function from the name of a metric, such as elapsed_s, to the noise of measurements in it.

    `frame` has a row per run. `rounds` are the rows of by_round(frame, axes, statistic), if the caller has
    them already. Counts and amounts, such as bytes (Metric.exact), have NO_NOISE.
    """
    if rounds is None:
        rounds = by_round(frame, axes, statistic)
    # Only the column `cell` distinguishes a duplicate from its original.
    duplicates = duplicates_by_round(frame, axes, statistic)
    all_rounds = pd.concat([rounds.assign(cell=""), duplicates])
    block_positions = [list(axes).index(axis) for axis in block if axis in axes]
    are_in_turns = _Turns(rounds, axes).are_in_turns

    # The noise of a metric is estimated when the metric is first used.
    @cache
    def noise(metric: str) -> Noise:
        if METRICS[metric].exact:
            return NO_NOISE
        noise_of_table = estimate_noise(_log_table(all_rounds, metric, axes, block_positions))
        # The table has no times of starts, so estimate_noise() cannot find out which cells are in turns.
        return replace(noise_of_table, are_in_turns=are_in_turns)

    return noise


def _log_table(
    rounds: pd.DataFrame, metric: str, axes: Sequence[str], block_positions: Sequence[int]
) -> LogTable:
    """Return the logarithms of a metric, with a row per cell and host and a column per round.

    A logarithm is NaN if its value is missing or 0. In `rounds`, the column `cell` is the path of a
    duplicate, and "" for all other cells.
    """
    # A study that does not measure the metric lacks its column. reindex() adds the column.
    values = rounds.reindex(columns=[metric])[metric].astype(float)
    # A rounded time of 0 has no logarithm.
    with np.errstate(divide="ignore", invalid="ignore"):
        log = pd.Series(np.log(values))
    # unstack() removes the round from the keys of the rows. But the round may be an axis, which must stay, so
    # a copy, `number`, is unstacked.
    rounds_with_logs = rounds.assign(log=log.where(np.isfinite(log)), number=rounds["round"])
    # The host may be an axis, too, and an index must not have a column twice.
    row_keys = list(dict.fromkeys([*axes, "cell", "host"]))
    logs = rounds_with_logs.set_index([*row_keys, "number"])["log"].unstack("number")
    axis_values = logs.index.to_frame()[[*axes]].to_numpy()
    keys = [tuple(map(str, values_of_cell)) for values_of_cell in axis_values]
    hosts = list(logs.index.get_level_values("host"))
    is_duplicate = [bool(path) for path in logs.index.get_level_values("cell")]
    return LogTable(keys, hosts, is_duplicate, logs.to_numpy(float), block_positions)


class _Turns:
    """The starts of all rounds, by which pairs of cells were measured in turns or not.

    In turns are f6, f7, f6, f7, ...: round 1 of both, round 2 of both. After a change of f7 alone, Snakemake
    measures only f7 again: f6, f6, f6, f7, f7, f7. Then a machine that became slower in the meantime would
    look like a difference of f7.
    """

    def __init__(self, rounds: pd.DataFrame, axes: Sequence[str]) -> None:
        # By cell: the start of each round (text that sorts by time), by host and number.
        self._starts: dict[CellKey, dict[tuple[str, float], str]] = defaultdict(dict)
        columns = [*axes, "host", "round", "started_at"]
        for *key, host, number, start in zip(*(rounds[name] for name in columns), strict=True):
            self._starts[tuple(map(str, key))][host, number] = start
        # The same pairs are in many tables and findings, so each result is stored.
        self.are_in_turns = cache(self._are_in_turns)

    def _are_in_turns(self, pair: CellPair) -> bool:
        """Return True if in at least half of the common rounds, one cell directly followed the other.

        A common round has the same host and number for both cells. "Directly" means that no other round of
        these two cells ran in between. The result is also True if the two cells have fewer than two rounds in
        common, or if one of them has no start.
        """
        first, second = pair
        if first not in self._starts or second not in self._starts:
            return True
        common = self._starts[first].keys() & self._starts[second].keys()
        if len(common) < 2:
            return True
        # An event is a round of one of the two cells. Several hosts may measure at the same time, so events
        # are sorted by host first, then by start.
        events = []
        for cell in pair:
            for host, number in common:
                events.append((host, self._starts[cell][host, number], number))
        events.sort()
        rounds_in_turn = 0
        for (host, _, number), (next_host, _, next_number) in pairwise(events):
            if (host, number) == (next_host, next_number):
                rounds_in_turn += 1
        return 2 * rounds_in_turn >= len(common)


def estimate_noise(table: LogTable) -> Noise:
    """Return the noise of a table of logarithms: of each cell, of duplicates, and of averages over pairs.

    The table has no times of starts, so `are_in_turns` of the result is always True.
    """
    cell_variances = _cell_variances(table)
    drifting = _variances_with_drift(table)
    cells = {}
    # All rows of a cell, one for each host, have the same variances and block.
    for row in table.originals:
        key = table.keys[row]
        cells[key] = CellNoise(table.block(row), cell_variances[row], drifting[key])
    duplicates = _variance_of_duplicates(table, cell_variances)
    return Noise(cells, duplicates, _averages_factor(table, cell_variances))


def _variances_with_drift(table: LogTable) -> dict[CellKey, Variance]:
    """Return the variance of the rounds of each cell, from which the drift of the machine is not subtracted.

    Drift does not cancel between cells that were measured at different times. Example: the logarithms [1.0,
    1.2] on one host and [3.0, 3.2] on another give the squares 0.02 + 0.02 with 1 + 1 degrees of freedom, so
    the variance is 0.02. A cell with one round on each host is UNKNOWN. Duplicates are left out.
    """
    # The sum of squared differences to the mean of the host: a difference between hosts is no scatter.
    squares: dict[CellKey, float] = defaultdict(float)
    degrees: dict[CellKey, int] = defaultdict(int)
    for row in table.originals:
        key = table.keys[row]
        logs = table.logs[row][np.isfinite(table.logs[row])]
        if len(logs):
            # numpy's var() divides the sum of squares by the number of values.
            squares[key] += float(logs.var() * len(logs))
        # A row without a value has 0 degrees, not -1.
        degrees[key] += max(len(logs) - 1, 0)
    drifting = {}
    for key, degrees_of_cell in degrees.items():
        if degrees_of_cell:
            drifting[key] = Variance(squares[key] / degrees_of_cell, degrees_of_cell)
        else:
            drifting[key] = UNKNOWN
    return drifting


def _cell_variances(table: LogTable) -> list[Variance]:
    """Return the variance of a round without drift, for each row of the table, moderated over all cells.

    Drift cancels in the ratios of cells of a block, so drift is subtracted here. All rows of a cell, one for
    each host, get the same variance.
    """
    # Two hosts drift independently, so each has its own blocks: (("log", "cold"), "host#1a2b").
    blocks_of_rows = [(table.block(row), host) for row, host in enumerate(table.hosts)]
    block_numbers = _number_by_value(blocks_of_rows)
    squares_of_rows, degrees_of_rows = variances.residual_squares(table.logs, block_numbers)
    # A duplicate is a cell of its own.
    cells_of_rows = list(zip(table.keys, table.is_duplicate, strict=True))
    # bincount() adds up the rows of a cell, which have the same number.
    cell_numbers = _number_by_value(cells_of_rows)
    squares = np.bincount(cell_numbers, squares_of_rows)
    degrees = np.bincount(cell_numbers, degrees_of_rows)
    # A cell with one round, or alone in its block, has 0 / 0: unknown.
    with np.errstate(invalid="ignore", divide="ignore"):
        moderated, moderated_degrees = moderation.moderate(squares / degrees, degrees)
    return [Variance(float(moderated[i]), float(moderated_degrees[i])) for i in cell_numbers]


def _number_by_value(values: Sequence[Hashable]) -> np.ndarray:
    """Return a number for each value, the same for equal ones: [0, 1, 0] for ["a", "b", "a"]."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=int)


def _variance_of_duplicates(table: LogTable, cell_variances: Sequence[Variance]) -> Variance:
    """Return the variance of ln(duplicate / original) that the scatter of rounds does not explain.

    Only a pair with two or more common rounds on one host counts. Without such a pair, the variance is
    UNKNOWN. `cell_variances` has an entry per row of the table.
    """
    original_rows = {(table.keys[row], table.hosts[row]): row for row in table.originals}
    squares = []
    explained = []
    degrees = []
    for row, is_duplicate in enumerate(table.is_duplicate):
        original = original_rows.get((table.keys[row], table.hosts[row]))
        if not is_duplicate or original is None:
            continue
        differences = table.logs[row] - table.logs[original]
        differences = differences[np.isfinite(differences)]
        # The difference in a single round is scatter plus a lasting difference. Only more rounds separate
        # the two.
        if len(differences) < 2:
            continue
        variance_of_round = sum_variances([cell_variances[row], cell_variances[original]])
        variance_of_mean = variance_of_round.scaled(1 / len(differences))
        squares.append(differences.mean() ** 2)
        explained.append(variance_of_mean.variance)
        degrees.append(variance_of_mean.degrees)
    if not squares:
        return UNKNOWN
    pairs = DuplicatePairs(
        squares=np.array(squares),
        by_rounds=np.array(explained),
        degrees=np.array(degrees, float),
    )
    return duplicate_variance(pairs)


def _averages_factor(table: LogTable, cell_variances: Sequence[Variance]) -> Variance | None:
    """Return the factor by which averages over pairs vary more than their cells suggest; None if unknown.

    The factor is 1 if cells scatter independently. It is larger if the cells of one value of an axis move
    together: if f7 is slow with svn in a round, it may be slow with http as well. Example: the mean of f6 /
    f7 over svn and http scatters by 4 %. By its four cells of 3 %, it should scatter by sqrt(4 x 0.03^2 /
    2^2) = 3 %. The factor is (4 / 3)^2 = 1.8. `cell_variances` has an entry per row of the table. With few
    averages, the factor is unknown (fit_prior).
    """
    rows_by_block: dict[tuple[CellKey, str], dict[CellKey, int]] = defaultdict(dict)
    for row in table.originals:
        block_on_host = (table.block(row), table.hosts[row])
        rows_by_block[block_on_host][table.keys[row]] = row
    factors, degrees = [], []
    for rows in rows_by_block.values():
        # An average compares two values of an axis, over pairs such as (svn f6, svn f7), (http f6, http f7).
        for pairs in _contrasts(rows, table.block_positions):
            log_ratios = [table.logs[first] - table.logs[second] for first, second in pairs]
            # The average of each round. It is NaN for a round that one of the cells lacks.
            averages = np.mean(log_ratios, axis=0)
            averages = averages[np.isfinite(averages)]
            # The variance of the mean of k independent pairs: the sum over their cells, divided by k^2.
            total = sum(cell_variances[row].variance for pair in pairs for row in pair)
            expected = total / len(pairs) ** 2
            # One round has no scatter. `expected` may be unknown (NaN) or 0.
            if len(averages) > 1 and expected > EXACT:
                factors.append(averages.var(ddof=1) / expected)
                degrees.append(len(averages) - 1)
    # A factor is a quotient of variances, and scatters by chance as variances do. So fit_prior() finds the
    # usual factor of all averages, without outliers.
    fit = moderation.fit_prior(np.array(factors), np.array(degrees, float))
    return fit.prior


def _contrasts(
    rows: Mapping[CellKey, int], block_positions: Sequence[int]
) -> Iterator[list[tuple[int, int]]]:
    """Yield lists of pairs of cells of a block: each list compares two values of one axis.

    `rows` has the numbers of rows in the LogTable of one or more cells of a block. A yielded pair has the
    numbers of two rows. Example: for cells of svn and http with f6 and f7, one list has (svn f6, svn f7) and
    (http f6, http f7). Another list has (svn f6, http f6) and (svn f7, http f7). Lists with one pair average
    nothing, and are left out.
    """
    number_of_axes = len(next(iter(rows)))
    for position in range(number_of_axes):
        # All cells of a block have the same values on the block's axes, so nothing differs there.
        if position in block_positions:
            continue
        # For the second axis: {("svn",): {"f6": 0, "f7": 1}, ("http",): {"f6": 2, "f7": 3}}.
        rows_by_other_values: dict[CellKey, dict[str, int]] = defaultdict(dict)
        for key, row in rows.items():
            other_values = key[:position] + key[position + 1 :]
            rows_by_other_values[other_values][key[position]] = row
        values = dict.fromkeys(key[position] for key in rows)
        for first, second in combinations(values, 2):
            # A cell without a counterpart, such as (svn f6) without (svn f7), is in no pair.
            pairs = []
            for row_by_value in rows_by_other_values.values():
                if first in row_by_value and second in row_by_value:
                    pairs.append((row_by_value[first], row_by_value[second]))
            if len(pairs) > 1:
                yield pairs


def run_scatter(frame: pd.DataFrame, block: Sequence[str]) -> float:
    """Return how much the time of a single run scatters: the standard deviation of ln(time), 0.03 for 3 %.

    The result is the median over all cells, NaN if no block has two cells in two rounds. `frame` has a row
    per run. Two variances of a cell are added: that of the runs within a round, and that of the rounds. The
    variance of the rounds excludes the drift, which cancels in ratios.
    """
    runs = valid_runs(frame)
    runs = runs.assign(log=np.log(runs[DEFAULT_METRIC].astype(float)))
    cell_keys = [*block, "host", "cell"]
    rounds = runs.groupby([*cell_keys, "round"])["log"].agg(["mean", "var", "count"])
    # A row per cell and a column per round.
    logs = rounds["mean"].unstack("round")
    block_values = logs.index.to_frame()[[*block, "host"]].to_numpy()
    blocks = _number_by_value([tuple(values) for values in block_values])
    squares, degrees = variances.residual_squares(logs.to_numpy(), blocks)
    # The cells of a block scatter alike, so each gets the variance of its block.
    squares_of_block, degrees_of_block = np.bincount(blocks, squares), np.bincount(blocks, degrees)
    known_degrees = np.where(degrees_of_block > 0, degrees_of_block, math.nan)
    variance_of_blocks: np.ndarray = squares_of_block / known_degrees
    variance_of_rounds: np.ndarray = variance_of_blocks[blocks]
    # groupby() and unstack() both sort by the keys of cells, so the entries of `cells` and
    # `variance_of_rounds` match.
    cells = rounds.groupby(cell_keys)[["var", "count"]].mean()
    # A round is the mean of n runs, so `variance_of_rounds` includes 1 / n of the variance of the runs. The
    # other 1 - 1 / n is added. With one run per round, the variance of the runs is NaN.
    rest_of_runs = cells["var"].fillna(0) * (1 - 1 / cells["count"])
    variance_of_cells = (rest_of_runs + variance_of_rounds).dropna()
    if variance_of_cells.empty:
        return math.nan
    return math.sqrt(float(variance_of_cells.median()))

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

    Drift makes all cells of a block slower in a round. `variance` excludes drift.
    """

    block: CellKey
    variance: Variance
    variance_with_drift: Variance = UNKNOWN


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of a study in a metric; all variances are of natural logarithms.

    `duplicates` is the variance of the ratio of two cells with the same settings (NaN if none was measured).
    `averages_factor` is the factor by which an average over pairs varies more than its cells suggest; None if
    it is unknown. `are_in_turns` returns False for a pair if, in most rounds, its two cells did not run one
    directly after the other.
    """

    cells: Mapping[CellKey, CellNoise] = field(default_factory=dict)
    duplicates: Variance = UNKNOWN
    averages_factor: Variance | None = None
    are_in_turns: Callable[[CellPair], bool] = lambda _pair: True

    @property
    def has_duplicates(self) -> bool:
        return not math.isnan(self.duplicates.variance)

    def with_error(self, estimate: Estimate, pairs: Sequence[CellPair] = ()) -> Estimate:
        """Return the estimate with an error that includes the noise of the study, and a new interval.

        Example: rounds scatter by 3 % in each of two cells, and duplicates (two cells with the same settings)
        differ by 1 %. After 5 rounds, the ratio of the two cells has the error sqrt(2 x 0.03^2 / 5 + 0.01^2)
        = 0.021. More rounds make the first term smaller. The second one stays, because two duplicates differ
        by the same amount in every round.

        `pairs` are the cells whose ratios the estimate averages. An estimate of fewer than two rounds stays
        as it is. So does a value that is no ratio if duplicates add nothing to its error.
        """
        if estimate.n < 2:
            return estimate
        by_duplicates = self._variance_by_duplicates(estimate)
        # A value that is no ratio has the error of its rounds already.
        keeps_own_error = not estimate.is_ratio and not by_duplicates.variance
        if keeps_own_error:
            return estimate
        if estimate.is_ratio:
            by_rounds = self._variance_of_round(estimate, pairs).scaled(1 / estimate.n)
        else:
            by_rounds = Variance(estimate.error**2, estimate.degrees)
        total = sum_variances([by_rounds, by_duplicates])
        # Without any scatter, the sum has infinite degrees of freedom, so the estimate keeps its own.
        degrees = total.degrees if total.variance else estimate.degrees
        return estimate.with_error(math.sqrt(total.variance), degrees)

    def _variance_by_duplicates(self, estimate: Estimate) -> Variance:
        """Return the part of an estimate's squared error that duplicates show; 0 if there are none.

        Example: ln(duplicate / original) has the variance 0.01^2. Then a ratio gets 0.01^2, and the time of a
        single cell half of it, because two cells make the difference. An average over k pairs gets 1 / k.
        """
        of_ratio = Variance(0.0)
        if self.has_duplicates:
            of_ratio = self.duplicates.scaled(1 / estimate.averaged)
        if estimate.is_ratio:
            return of_ratio
        of_logarithm = of_ratio.scaled(1 / 2)
        if estimate.is_log:
            return of_logarithm
        # The error of a value is the value times the error of its logarithm: 1 % of 20 % CPU is 0.2 %.
        return of_logarithm.scaled(estimate.value**2)

    def _variance_of_round(self, estimate: Estimate, pairs: Sequence[CellPair]) -> Variance:
        """Return the variance, in one round, of a ratio that is averaged over pairs of cells.

        Example: the average of f6 / f7 over svn and http. Its own few rounds show its scatter, but badly. The
        variances of its four cells are better known, because they are estimated from all cells of the study.
        With 3 % for each cell, the average scatters by sqrt(4 x 0.03^2 / 2^2) = 3 %. So these variances are
        used where they apply.
        """
        # The squared error of a mean of n rounds is the variance of a round, divided by n.
        own_scatter = Variance(estimate.error**2 * estimate.n, estimate.degrees)
        # Drift cancels in the ratio only if the two cells took turns: f6, f7, f6, f7.
        are_all_in_turns = all(self.are_in_turns(pair) for pair in pairs)
        if not are_all_in_turns:
            return self._variance_without_turns(pairs)
        by_cells = self._variance_of_independent_cells(pairs)
        if by_cells is None:
            return own_scatter
        # A ratio that is the same in every round has a reason, such as a rounded time. Other cells do not
        # share the reason.
        if own_scatter.variance < EXACT:
            return own_scatter
        if len(pairs) == 1:
            return by_cells
        # Cells of several pairs may move together: if f7 is slow with svn in a round, it may be slow with
        # http as well. The factor (None: unknown) is how much more averages vary because of that.
        if self.averages_factor is None:
            return own_scatter
        return _variance_of_average(by_cells, own_scatter, self.averages_factor)

    def _variance_without_turns(self, pairs: Sequence[CellPair]) -> Variance:
        """Return the variance, in one round, of an average over pairs that were not measured in turns.

        Example: the four cells of two pairs scatter by 5 %, drift included. If the machine was slower when it
        measured f7, both ratios f6 / f7 are smaller. So their average scatters like a single ratio. It has
        the sum over the cells, divided by the number of pairs: 4 x 0.05^2 / 2 = 0.005, which is 2 x 0.05^2.
        """
        terms = [self.cells[key].variance_with_drift for pair in pairs for key in pair]
        return sum_variances(terms).scaled(1 / len(pairs))

    def _variance_of_independent_cells(self, pairs: Sequence[CellPair]) -> Variance | None:
        """Return the variance, in one round, of an average over pairs whose cells scatter independently.

        Example: two pairs, whose four cells scatter by 3 %, have 4 x 0.03^2 / 2^2 = 0.0009, which is (3 %)^2.
        Return None if the variance is unknown: without pairs, without the variance of a cell, if no cell
        scatters, or if the cells of a pair are in two blocks (groups of cells measured next to each other).
        """
        terms = []
        for first, second in pairs:
            if first not in self.cells or second not in self.cells:
                return None
            # `variance` excludes the drift that a cell shares with its block. Two blocks drift differently,
            # and this difference would be missing in the sum of the two variances.
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
    by_cells: Variance, own_scatter: Variance, study_factor: Variance
) -> Variance:
    """Return the variance, in one round, of an average over pairs whose cells may move together.

    The result is `by_cells` (the variance of independent cells, above 0) times a factor, which is above 1 if
    several cells are slow in the same rounds. The factor is averaged from two, weighted by their degrees of
    freedom: the usual factor of the study's averages, and own_scatter / by_cells, where `own_scatter` is the
    variance by the few rounds of this average. Example: a `study_factor` of 1.8 with 12 degrees, and 1.0 with
    4 degrees for this average, give the factor 1.6.
    """
    degrees_of_factor = study_factor.degrees + own_scatter.degrees
    if math.isinf(degrees_of_factor):
        # The factor of the study is known exactly, and counts alone.
        study_share = 1.0
    else:
        study_share = study_factor.degrees / degrees_of_factor
    own_part = (1 - study_share) * own_scatter.variance / by_cells.variance
    factor = study_share * study_factor.variance + own_part
    # The result is a product of two estimates, so their squared relative errors add up. The squared relative
    # error of a variance is 2 / degrees (Satterthwaite). The 2 cancels.
    degrees = 1 / (1 / degrees_of_factor + 1 / by_cells.degrees)
    return Variance(by_cells.variance * factor, degrees)


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

    Noise is how much a cell scatters over its rounds, and differs from its duplicate (the same cell, measured
    a second time). It excludes drift of the machine, which cancels between the cells of a block: cells with
    equal values on the axes `block`, which each round measures one after the other.

    `frame` has a row per run. `rounds` are the rows of by_round(frame, axes, statistic), if the caller has
    them already. Counts and amounts, such as bytes (Metric.exact), have NO_NOISE.
    """
    if rounds is None:
        rounds = by_round(frame, axes, statistic)
    # The column `cell` is the path of a duplicate, and "" for all other cells.
    duplicates = duplicates_by_round(frame, axes, statistic)
    all_rounds = pd.concat([rounds.assign(cell=""), duplicates])
    # With [0, 2], the cell ("log", "f6", "cold") is in the block ("log", "cold").
    block_positions = [list(axes).index(axis) for axis in block if axis in axes]
    are_in_turns = _RoundStarts(rounds, axes).are_in_turns

    # The noise of a metric is estimated when the metric is first used.
    @cache
    def noise(metric: str) -> Noise:
        if METRICS[metric].exact:
            return NO_NOISE
        noise_of_table = estimate_noise(_log_table(all_rounds, metric, axes, block_positions))
        # Drift does not cancel between cells of two days. The starts of rounds show it, not the logarithms.
        return replace(noise_of_table, are_in_turns=are_in_turns)

    return noise


def _log_table(
    rounds: pd.DataFrame, metric: str, axes: Sequence[str], block_positions: Sequence[int]
) -> LogTable:
    """Return the logarithms of a metric, with a row per cell and host and a column per round.

    `rounds` has a row per cell, host and round. Its column `cell` is the path of a duplicate, and "" for all
    other cells. A logarithm is NaN if its value is missing or 0. `block_positions` are stored in the table.
    """
    # A study that does not measure the metric lacks its column. reindex() adds the column.
    values = rounds.reindex(columns=[metric])[metric].astype(float)
    # A rounded time of 0 has no logarithm.
    with np.errstate(divide="ignore", invalid="ignore"):
        log = pd.Series(np.log(values))
    # A study that groups its tables by `round` or `host` has this column in `axes`, too. The column `number`,
    # a copy of `round`, becomes the columns of the table, so that `round` can stay among the keys.
    rounds_with_logs = rounds.assign(log=log.where(np.isfinite(log)), number=rounds["round"])
    # An index must not have the same column twice.
    row_keys = list(dict.fromkeys([*axes, "cell", "host"]))
    logs = rounds_with_logs.set_index([*row_keys, "number"])["log"].unstack("number")
    axis_values = logs.index.to_frame()[[*axes]].to_numpy()
    keys = [tuple(map(str, values_of_cell)) for values_of_cell in axis_values]
    hosts = list(logs.index.get_level_values("host"))
    is_duplicate = [bool(path) for path in logs.index.get_level_values("cell")]
    return LogTable(keys, hosts, is_duplicate, logs.to_numpy(float), block_positions)


class _RoundStarts:
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
    variances_with_drift = _variances_with_drift(table)
    cells = {}
    # All rows of a cell, one for each host, have the same variances and block.
    for row in table.originals:
        key = table.keys[row]
        cells[key] = CellNoise(table.block(row), cell_variances[row], variances_with_drift[key])
    duplicates = _variance_of_duplicates(table, cell_variances)
    return Noise(cells, duplicates, _averages_factor(table, cell_variances))


def _variances_with_drift(table: LogTable) -> dict[CellKey, Variance]:
    """Return the variance of the rounds of each cell, from which the drift of the machine is not subtracted.

    Drift does not cancel between cells that were measured at different times. Example: the logarithms [1.0,
    1.2] on one host and [3.0, 3.2] on another give the squares 0.02 + 0.02 with 1 + 1 degrees of freedom, so
    the variance is 0.02. A cell with one round on each host is UNKNOWN.
    """
    squares: dict[CellKey, float] = defaultdict(float)
    degrees: dict[CellKey, int] = defaultdict(int)
    # A cell has a row for each host. Its squared differences are to the mean of the host, because a
    # difference between hosts is no scatter. `originals` leaves out duplicates, which have equal keys.
    for row in table.originals:
        key = table.keys[row]
        logs = table.logs[row][np.isfinite(table.logs[row])]
        if len(logs):
            # numpy's var() divides the sum of squares by the number of values.
            squares[key] += float(logs.var() * len(logs))
        # A row without a value has 0 degrees, not -1.
        degrees[key] += max(len(logs) - 1, 0)
    variance_by_cell = {}
    for key, degrees_of_cell in degrees.items():
        if degrees_of_cell:
            variance_by_cell[key] = Variance(squares[key] / degrees_of_cell, degrees_of_cell)
        else:
            variance_by_cell[key] = UNKNOWN
    return variance_by_cell


def _cell_variances(table: LogTable) -> list[Variance]:
    """Return the variance of a round without drift, for each row of the table.

    Drift moves all cells of a block (cells that are measured next to each other) in a round. It is subtracted
    here, because it cancels in their ratios. A few rounds show the variance of a cell badly, so it is
    moderated: moved towards the usual variance of all cells. The rows of a cell (its hosts) share a variance.
    """
    # Two hosts drift independently, so each has its own blocks: (("log", "cold"), "host#1a2b").
    blocks_of_rows = [(table.block(row), host) for row, host in enumerate(table.hosts)]
    block_numbers = _number_by_value(blocks_of_rows)
    squares_of_rows, degrees_of_rows = variances.residual_squares(table.logs, block_numbers)
    # A duplicate has the key of its original, but is a cell of its own.
    cells_of_rows = list(zip(table.keys, table.is_duplicate, strict=True))
    # bincount() adds up the rows of a cell, which have the same number.
    cell_numbers = _number_by_value(cells_of_rows)
    squares = np.bincount(cell_numbers, squares_of_rows)
    degrees = np.bincount(cell_numbers, degrees_of_rows)
    # A single round, or a single cell in a block, shows no scatter apart from drift: 0 / 0, unknown (NaN).
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
    """Return the usual quotient (observed / expected variance) of averages over pairs; None if unknown.

    Example of an average: the mean of f6 / f7 over svn and http. It scatters by 4 % over the rounds. By its
    four cells of 3 %, it should scatter by sqrt(4 x 0.03^2 / 2^2) = 3 %. The quotient is (4 / 3)^2 = 1.8. It
    is above 1 if cells do not scatter independently: if f7 is slow with svn in a round, it may be slow with
    http as well. `cell_variances` has an entry per row of the table.
    """
    quotients, degrees = [], []
    for pairs in _averaged_pairs(table):
        log_ratios = [table.logs[first] - table.logs[second] for first, second in pairs]
        # The average of each round. It is NaN for a round that one of the cells lacks.
        averages = np.mean(log_ratios, axis=0)
        averages = averages[np.isfinite(averages)]
        # The variance of the mean of k independent pairs: the sum over their cells, divided by k^2.
        total = sum(cell_variances[row].variance for pair in pairs for row in pair)
        expected = total / len(pairs) ** 2
        # One round has no scatter. `expected` may be unknown (NaN) or 0.
        if len(averages) > 1 and expected > EXACT:
            quotients.append(averages.var(ddof=1) / expected)
            degrees.append(len(averages) - 1)
    # Quotients of variances scatter by chance as variances do. So fit_prior() can find the usual quotient of
    # all averages (`prior`), without outliers. With few averages, it is None.
    fit = moderation.fit_prior(np.array(quotients), np.array(degrees, float))
    return fit.prior


def _averaged_pairs(table: LogTable) -> Iterator[list[tuple[int, int]]]:
    """Yield a list of pairs of rows for each average: in each block of each host, by _contrasts()."""
    rows_by_block: dict[tuple[CellKey, str], dict[CellKey, int]] = defaultdict(dict)
    for row in table.originals:
        block_on_host = (table.block(row), table.hosts[row])
        rows_by_block[block_on_host][table.keys[row]] = row
    for row_of_cell in rows_by_block.values():
        yield from _contrasts(row_of_cell, table.block_positions)


def _contrasts(
    row_of_cell: Mapping[CellKey, int], block_positions: Sequence[int]
) -> Iterator[list[tuple[int, int]]]:
    """Yield lists of pairs of rows, whose ratios can be averaged: each list compares two values of one axis.

    Example: a block has cells of svn and http, each with f6 and f7. One list compares f6 with f7: (svn f6,
    svn f7) and (http f6, http f7). Another one compares svn with http: (svn f6, http f6) and (svn f7, http
    f7). A single pair is no average, so its list is left out. `row_of_cell` has the numbers of the rows of a
    block's cells in the LogTable, and the yielded pairs have the same numbers.
    """
    number_of_axes = len(next(iter(row_of_cell)))
    for position in range(number_of_axes):
        # All cells of a block have the same values on the block's axes, so nothing differs there.
        if position in block_positions:
            continue
        # A case is the values of all other axes. For the second axis, the rows are {("svn",): {"f6": 0,
        # "f7": 1}, ("http",): {"f6": 2, "f7": 3}}.
        rows_by_case: dict[CellKey, dict[str, int]] = defaultdict(dict)
        for key, row in row_of_cell.items():
            case = key[:position] + key[position + 1 :]
            rows_by_case[case][key[position]] = row
        values = dict.fromkeys(key[position] for key in row_of_cell)
        for first, second in combinations(values, 2):
            pairs = []
            for row_of_value in rows_by_case.values():
                # A case with only one of the two values, such as svn with f6 but without f7, has no pair.
                if first in row_of_value and second in row_of_value:
                    pairs.append((row_of_value[first], row_of_value[second]))
            if len(pairs) > 1:
                yield pairs


def run_scatter(frame: pd.DataFrame, block: Sequence[str]) -> float:
    """Return how much the time of a single run scatters: the standard deviation of ln(time), 0.03 for 3 %.

    The variance of a cell is that of its runs within a round, plus that of its rounds without drift. The
    result is the median over all cells, NaN if no block has two cells in two rounds. `frame` has a row per
    run. Cells with equal values on the axes `block` are measured next to each other.
    """
    runs = valid_runs(frame)
    runs = runs.assign(log=np.log(runs[DEFAULT_METRIC].astype(float)))
    cell_keys = [*block, "host", "cell"]
    rounds = runs.groupby([*cell_keys, "round"])["log"].agg(["mean", "var", "count"])
    variance_of_means = _variances_of_round_means(rounds["mean"], block)
    # The means over the rounds of a cell. The cells are in the order of `variance_of_means`, because
    # groupby() and unstack() both sort by the keys of cells.
    cells = rounds.groupby(cell_keys)[["var", "count"]].mean()
    # Example with 4 runs per round: the variance of the mean of a round includes 1 / 4 of the variance of a
    # run. The other 3 / 4 are added. With one run per round, the variance of the runs is NaN, and nothing is
    # missing.
    missing_part = cells["var"].fillna(0) * (1 - 1 / cells["count"])
    variance_of_runs = (missing_part + variance_of_means).dropna()
    if variance_of_runs.empty:
        return math.nan
    return math.sqrt(float(variance_of_runs.median()))


def _variances_of_round_means(means: pd.Series, block: Sequence[str]) -> np.ndarray:
    """Return how much the rounds of each cell scatter without drift: the variance of its block; NaN: unknown.

    `means` has the mean logarithm of each round, with the index columns of `block`, host, cell and round. The
    cells of a block drift together. Drift is left out, because it cancels in their ratios.
    """
    # A row per cell and a column per round.
    logs = means.unstack("round")
    block_values = logs.index.to_frame()[[*block, "host"]].to_numpy()
    block_numbers = _number_by_value([tuple(values) for values in block_values])
    squares, degrees = variances.residual_squares(logs.to_numpy(), block_numbers)
    # The cells of a block scatter alike. So the variance of the block is the sum of their squares, divided by
    # the sum of their degrees. bincount() makes these sums.
    squares_of_block = np.bincount(block_numbers, squares)
    degrees_of_block = np.bincount(block_numbers, degrees)
    known_degrees = np.where(degrees_of_block > 0, degrees_of_block, math.nan)
    variance_of_block: np.ndarray = squares_of_block / known_degrees
    # An index array: each cell gets the entry of its block.
    variance_of_cell: np.ndarray = variance_of_block[block_numbers]
    return variance_of_cell

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

from vcsbench.metrics import DEFAULT, METRICS
from vcsbench.statistics.aggregation import MEAN, by_round, duplicates_by_round, valid_runs
from vcsbench.statistics.estimates import (
    EXACT,
    Estimate,
    Variance,
    duplicate_variance,
    moderated,
    prior_of,
    residual_squares,
    sum_variances,
)

UNKNOWN = Variance(math.nan)
Key = tuple[str, ...]
CellPair = tuple[Key, Key]


class CellNoise(NamedTuple):
    """A cell's block, as axis values, and the variance of one of its rounds, without and with drift."""

    block: Key
    variance: Variance
    drifting: Variance = UNKNOWN


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of a study in a metric; all variances are of natural logarithms.

    `duplicates` is the variance of the ratio of two cells with the same settings (NaN if none was measured).
    `averages` is the factor between the variance of an average and that by its cells. `are_in_turns`
    returns False for a pair if, in most rounds, other rounds ran between its two cells.
    """

    cells: Mapping[Key, CellNoise] = field(default_factory=dict)
    duplicates: Variance = UNKNOWN
    averages: Variance | None = None
    are_in_turns: Callable[[CellPair], bool] = lambda _pair: True

    @property
    def has_duplicates(self) -> bool:
        return not math.isnan(self.duplicates.variance)

    def with_error(self, estimate: Estimate, pairs: Sequence[CellPair] = ()) -> Estimate:
        """Add the error of the call, and the interval.

        A ratio is an average over `pairs`, which count as `estimate.averaged` independent ones.
        """
        if not estimate.n > 1:
            return estimate
        of_duplicates = Variance(0.0)
        if self.has_duplicates:
            of_duplicates = self.duplicates.scaled(1 / estimate.averaged)
        if estimate.is_ratio:
            of_rounds = self._of_round(estimate, pairs).scaled(1 / estimate.n)
        else:
            of_rounds = Variance(estimate.error**2, estimate.degrees)
            # One cell has half of the variance of a difference of two.
            of_duplicates = of_duplicates.scaled(estimate.value**2 / 2)
            if not of_duplicates.variance:
                return estimate
        error = sum_variances([of_rounds, of_duplicates])
        degrees = error.degrees if error.variance else estimate.degrees
        return estimate.with_error(math.sqrt(error.variance), degrees)

    def _of_round(self, estimate: Estimate, pairs: Sequence[CellPair]) -> Variance:
        observed = Variance(estimate.error**2 * estimate.n, estimate.degrees)
        if not all(map(self.are_in_turns, pairs)):
            # What moves between two sessions moves all pairs: an average over them does not reduce it.
            drifting = [self.cells[key].drifting for pair in pairs for key in pair]
            return sum_variances(drifting).scaled(1 / len(pairs))
        expected = self._by_cells(pairs)
        if expected is None or observed.variance < EXACT:
            return observed
        if len(pairs) == 1:
            return expected
        if self.averages is None:
            return observed
        expected = expected.scaled(len(pairs) / estimate.averaged)
        weight = self.averages.degrees + observed.degrees
        share = 1.0 if math.isinf(weight) else self.averages.degrees / weight
        factor = share * self.averages.variance
        factor += (1 - share) * observed.variance / expected.variance
        return Variance(expected.variance * factor, 1 / (1 / weight + 1 / expected.degrees))

    def _by_cells(self, pairs: Sequence[CellPair]) -> Variance | None:
        """Return the variance of one round of an average over pairs, from their cells.

        None if a cell has no variance, or a pair is of two blocks, which share no round.
        """
        if not (pairs and all(key in self.cells for pair in pairs for key in pair)):
            return None
        cells = [(self.cells[first], self.cells[second]) for first, second in pairs]
        variances = [cell.variance for pair in cells for cell in pair]
        is_of_two_blocks = any(first.block != second.block for first, second in cells)
        if is_of_two_blocks or not all(variance.degrees for variance in variances):
            return None
        total = sum_variances(variances).scaled(1 / len(pairs) ** 2)
        return total if total.variance else None


NO_NOISE = Noise(duplicates=Variance(0.0))


@dataclass(frozen=True, eq=False)
class LogTable:
    """Logarithms of a metric: a row per cell and host, a column per round (NaN if missing).

    `block_places` are the places of the block's axes in a key.
    """

    keys: Sequence[Key]
    hosts: Sequence[str]
    is_duplicate: Sequence[bool]
    logs: np.ndarray
    block_places: Sequence[int]

    def block(self, row: int) -> Key:
        return tuple(self.keys[row][place] for place in self.block_places)


def noise_by_metric(
    frame: pd.DataFrame,
    axes: Sequence[str],
    block: Sequence[str],
    rounds: pd.DataFrame | None = None,
    statistic: str = MEAN,
) -> Callable[[str], Noise]:
    """Return a function from the name of a metric to the noise of measurements in it.

    `axes` identify cells; cells that agree on `block` run next to each other. `statistic` summarizes the
    runs of a round. `rounds` saves by_round(frame, axes, statistic) if the caller has it. Counts have no
    noise: most of them are exact.
    """
    axes = list(axes)
    rounds = by_round(frame, axes, statistic) if rounds is None else rounds
    both = pd.concat([rounds.assign(cell=""), duplicates_by_round(frame, axes, statistic)])
    places = [axes.index(axis) for axis in block if axis in axes]
    are_in_turns = _turns_of(rounds, axes)

    @cache
    def noise(name: str) -> Noise:
        if METRICS[name].exact:
            return NO_NOISE
        with np.errstate(divide="ignore", invalid="ignore"):
            log = pd.Series(np.log(both.reindex(columns=[name])[name].astype(float)))
        # An axis may be the host or the round.
        named = both.assign(log=log.where(np.isfinite(log)), number=both["round"])
        index = dict.fromkeys([*axes, "cell", "host", "number"])
        logs = named.set_index([*index])["log"].unstack("number")
        keys = [tuple(map(str, row)) for row in logs.index.to_frame()[axes].to_numpy()]
        hosts, paths = (list(logs.index.get_level_values(level)) for level in ("host", "cell"))
        table = LogTable(keys, hosts, [bool(path) for path in paths], logs.to_numpy(float), places)
        return replace(estimate_noise(table), are_in_turns=are_in_turns)

    return noise


def _turns_of(rounds: pd.DataFrame, axes: Sequence[str]) -> Callable[[CellPair], bool]:
    started: dict[Key, dict[tuple[str, float], str]] = {}
    columns = [*axes, "host", "round", "started_at"]
    for *key, host, number, at in zip(*(rounds[name] for name in columns), strict=True):
        started.setdefault(tuple(map(str, key)), {})[host, number] = at

    @cache
    def are_in_turns(pair: CellPair) -> bool:
        starts = [started[key] for key in pair if key in started]
        numbers = set.intersection(*map(set, starts)) if len(starts) == 2 else set()
        # In the order of each host: several may measure at the same time.
        events = sorted((of[0], times[of], of) for times in starts for of in numbers)
        together = sum(first == second for (*_, first), (*_, second) in pairwise(events))
        return len(numbers) < 2 or 2 * together >= len(numbers)

    return are_in_turns


def estimate_noise(table: LogTable) -> Noise:
    variances = _cell_variances(table)
    rows = [row for row, is_duplicate in enumerate(table.is_duplicate) if not is_duplicate]
    # Within each host: a difference between hosts is no scatter of rounds.
    squares, degrees = defaultdict[Key, float](float), defaultdict[Key, int](int)
    for row in rows:
        logs = table.logs[row][np.isfinite(table.logs[row])]
        squares[table.keys[row]] += float(logs.var() * len(logs)) if len(logs) else 0.0
        degrees[table.keys[row]] += max(len(logs) - 1, 0)
    cells = {}
    for row in rows:
        key, n = table.keys[row], degrees[table.keys[row]]
        drifting = Variance(squares[key] / n, n) if n else UNKNOWN
        cells[key] = CellNoise(table.block(row), variances[row], drifting)
    return Noise(cells, _duplicates(table, variances), _averages(table, variances, rows))


def _cell_variances(table: LogTable) -> list[Variance]:
    blocks = [(table.block(row), host) for row, host in enumerate(table.hosts)]
    squares, degrees = residual_squares(table.logs, _numbered(blocks))
    numbers = _numbered(list(zip(table.keys, table.is_duplicate, strict=True)))
    squares, degrees = (np.bincount(numbers, column) for column in (squares, degrees))
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = moderated(squares / degrees, degrees)
    variances = [Variance(*map(float, both)) for both in zip(*columns, strict=True)]
    return [variances[number] for number in numbers]


def _numbered(things: Sequence[Hashable]) -> np.ndarray:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(thing, len(numbers)) for thing in things], dtype=int)


def _duplicates(table: LogTable, variances: Sequence[Variance]) -> Variance:
    ends = list(zip(table.keys, table.hosts, strict=True))
    originals = {end: row for row, end in enumerate(ends) if not table.is_duplicate[row]}
    pairs = []
    for row, end in enumerate(ends):
        if not (table.is_duplicate[row] and end in originals):
            continue
        d = table.logs[originals[end]] - table.logs[row]
        d = d[np.isfinite(d)]
        if len(d) > 1:
            both = [variances[row], variances[originals[end]]]
            pairs.append((d.mean() ** 2, *sum_variances(both).scaled(1 / len(d))))
    return duplicate_variance(*np.array(pairs, float).T) if pairs else UNKNOWN


def _averages(
    table: LogTable, variances: Sequence[Variance], rows: Sequence[int]
) -> Variance | None:
    """Return the factor between the variance of averages and the variance by their cells.

    Every average over the cells of a block that differ in one axis contributes.
    """
    blocks: dict[tuple[Key, str], dict[Key, int]] = {}
    for row in rows:
        blocks.setdefault((table.block(row), table.hosts[row]), {})[table.keys[row]] = row
    factors, degrees = [], []
    for cells in blocks.values():
        for pairs in _contrasts(cells, table.block_places):
            d = np.mean([table.logs[first] - table.logs[second] for first, second in pairs], axis=0)
            d = d[np.isfinite(d)]
            expected = sum(variances[row].variance for pair in pairs for row in pair)
            expected /= len(pairs) ** 2
            if len(d) > 1 and expected > EXACT:
                factors.append(d.var(ddof=1) / expected)
                degrees.append(len(d) - 1)
    return prior_of(np.array(factors), np.array(degrees, float))[0]


def _contrasts(
    cells: Mapping[Key, int], block_places: Sequence[int]
) -> Iterator[list[tuple[int, int]]]:
    for place in set(range(len(next(iter(cells))))).difference(block_places):
        by_rest: dict[Key, dict[str, int]] = {}
        for key, row in cells.items():
            by_rest.setdefault(key[:place] + key[place + 1 :], {})[key[place]] = row
        for first, second in combinations(dict.fromkeys(key[place] for key in cells), 2):
            pairs = [
                (at[first], at[second]) for at in by_rest.values() if {first, second} <= at.keys()
            ]
            if len(pairs) > 1:
                yield pairs


def run_scatter(frame: pd.DataFrame, block: Sequence[str]) -> float:
    """Return the standard deviation of ln(time) of a single run, in the median of all cells.

    It adds the scatter of runs within a cell-round and of cell-rounds, without the drift that a block
    shares in a round. NaN with too few rounds.
    """
    runs = valid_runs(frame)
    runs = runs.assign(log=np.log(runs[DEFAULT].astype(float)))
    rounds = runs.groupby([*block, "host", "cell", "round"])["log"].agg(["mean", "var", "count"])
    logs = rounds["mean"].unstack("round")
    hosts = logs.index.to_frame()[[*block, "host"]].to_numpy()
    blocks = _numbered([*map(tuple, hosts)])
    squares, degrees = (
        np.bincount(blocks, column)[blocks] for column in residual_squares(logs.to_numpy(), blocks)
    )
    cells = rounds.groupby([*block, "host", "cell"])[["var", "count"]].mean()
    within = cells["var"].fillna(0) * (1 - 1 / cells["count"])
    known = (within + squares / np.where(degrees > 0, degrees, math.nan)).dropna()
    return math.sqrt(float(known.median())) if len(known) else math.nan

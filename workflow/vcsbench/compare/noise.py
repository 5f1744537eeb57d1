"""Noise: how much runs that are the same thing differ, over all cells of a study in a metric.

Three variances, each with its degrees of freedom, make the error of every comparison:

- of each cell, how its rounds scatter beyond what all cells of its block share in a round; those of all
  cells make one another steadier (variances);
- of averages over several pairs of cells, how much more or less they scatter than their cells by themselves
  would make them: what moves together in a round does not average out;
- of twins, two cells that are the same thing: what their means differ by beyond what their rounds make it,
  over all twins (duplicate_variance). No round reduces that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from vcsbench.compare.duplicate_variance import duplicate_variance
from vcsbench.compare.intervals import Estimate, mean, ratio
from vcsbench.compare.reduction import MEAN, by_round, twins_by_round
from vcsbench.compare.variances import EXACT, Part, common_of, residual, squeezed, summed
from vcsbench.metrics import DEFAULT, Metric, metric_of

NOT_KNOWN = Part(math.nan)
Key = tuple[str, ...]  # a cell's axis values
Pairs = Sequence[tuple[Key, Key]]


class Cell(NamedTuple):
    """A cell's block, by the values of its axes, and the variance of one of its rounds."""

    block: Key
    part: Part


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of a study in a metric; all variances are of natural logarithms.

    `twins` is that of the ratio of two cells that are the same thing: 0 where they show none, NaN where it
    is not known. `averages` is how many times the variance of an average is what its cells make it.
    """

    cells: Mapping[Key, Cell] = field(default_factory=dict)
    twins: Part = NOT_KNOWN
    averages: Part | None = None

    @property
    def twins_known(self) -> bool:
        """Whether any cell was measured twice."""
        return not math.isnan(self.twins.variance)

    def judged(self, own: Estimate, pairs: Pairs) -> Estimate:
        """A ratio with the error that it is judged by, and its interval: of its own rounds, the average over
        `own.pairs` of these pairs of cells (or the least or greatest of them, where that is 1)."""
        if not own.n > 1:
            return own
        of_rounds = self._of_round(own, pairs).times(1 / own.n)
        error = summed([of_rounds, self._of_twins(own.pairs)])
        degrees = error.degrees if error.variance else own.degrees
        return ratio(math.log(own.value), math.sqrt(error.variance), degrees, own.n, own.pairs)

    def judged_level(self, own: Estimate) -> Estimate:
        """The same of a level, by its own rounds: an average over `own.pairs` cells, each with half of the
        variance of what two of them differ by."""
        of_twins = self._of_twins(own.pairs).times(own.value**2 / 2)
        if not (own.n > 1 and of_twins.variance):
            return own
        error = summed([Part(own.error**2, own.degrees), of_twins])
        return mean(own.value, math.sqrt(error.variance), error.degrees, own.n, own.pairs)

    def _of_twins(self, pairs: float) -> Part:
        return self.twins.times(1 / pairs) if self.twins_known else Part(0.0)

    def _of_round(self, own: Estimate, pairs: Pairs) -> Part:
        """The variance of one round of a ratio."""
        seen = Part(own.error**2 * own.n, own.degrees)
        made = self._made(pairs)
        if made is None or seen.variance < EXACT:
            return seen
        if len(pairs) == 1:
            return made
        if own.pairs == 1 or self.averages is None:
            return seen
        made = made.times(len(pairs) / own.pairs)
        usual = self.averages
        weight = usual.degrees + seen.degrees
        share = 1.0 if math.isinf(weight) else usual.degrees / weight
        times = share * usual.variance + (1 - share) * seen.variance / made.variance
        return Part(made.variance * times, 1 / (1 / weight + 1 / made.degrees))

    def _made(self, pairs: Pairs) -> Part | None:
        """What the cells make the variance of one round of the average over pairs; None where pairs are of
        several blocks, which share no round."""
        if not all(key in self.cells for pair in pairs for key in pair):
            return None
        cells = [(self.cells[one], self.cells[other]) for one, other in pairs]
        parts = [cell.part for pair in cells for cell in pair]
        if any(one.block != other.block for one, other in cells) or not all(
            p.degrees for p in parts
        ):
            return None
        made = summed(parts).times(1 / len(pairs) ** 2) if pairs else Part(0.0)
        return made if made.variance else None


# Where nothing is said of noise, twins do not differ.
SILENT = Noise(twins=Part(0.0))


def noise_of(
    frame: pd.DataFrame,
    axes: Sequence[str],
    block: Sequence[str],
    metric: Metric | None = None,
    rounds: pd.DataFrame | None = None,
) -> Noise:
    """The noise of a frame of the measurements in a metric; `axes` tell its cells apart, those of `block`
    which of them are measured side by side. `rounds` are those of the frame as they are compared
    (reduction.by_round), where somebody has them. Counts are judged by their own rounds: what one cell's
    scatter by says nothing of another's, where most are exact."""
    if metric and metric.exact:
        return SILENT
    names = list(axes)
    rounds = by_round(frame, names, MEAN) if rounds is None else rounds
    logs = _logs(frame, rounds, names, (metric or metric_of(DEFAULT)).name)
    keys = [tuple(map(str, row)) for row in logs.index.to_frame()[names].to_numpy()]
    places = [names.index(axis) for axis in block if axis in names]
    hosts, twin = (list(logs.index.get_level_values(name)) for name in ("host", "cell"))
    return learned(Measured(keys, hosts, list(map(bool, twin)), logs.to_numpy(float), places))


@dataclass(frozen=True, eq=False)
class Measured:
    """Logarithms of a metric, a row per cell and host and a column per round (NaN where there is none): whose
    they are, whether they are a twin's, and which places in a key tell the block."""

    keys: Sequence[Key]
    hosts: Sequence[str]
    twin: Sequence[bool]
    logs: np.ndarray
    places: Sequence[int]

    def block(self, row: int) -> Key:
        """The block of a row's cell."""
        return tuple(self.keys[row][place] for place in self.places)


def _logs(
    frame: pd.DataFrame, rounds: pd.DataFrame, axes: Sequence[str], name: str
) -> pd.DataFrame:
    """What Measured is made of; a twin has its path as `cell`."""
    both = pd.concat([rounds.assign(cell=""), twins_by_round(frame, axes)])
    with np.errstate(divide="ignore", invalid="ignore"):
        both = both.assign(log=np.log(both[name].astype(float)) if name in both else math.nan)
    both = both.assign(log=both["log"].where(np.isfinite(both["log"])))
    return both.set_index([*axes, "cell", "host", "round"])["log"].unstack("round")


def learned(measured: Measured) -> Noise:
    """The noise of what was measured."""
    parts = _cells(measured)
    rows = [row for row, twin in enumerate(measured.twin) if not twin]
    cells = {measured.keys[row]: Cell(measured.block(row), parts[row]) for row in rows}
    return Noise(cells, _twins(measured, parts), _averages(measured, parts, rows))


def _cells(measured: Measured) -> list[Part]:
    """For each row the variance of its cell's rounds, on all hosts."""
    sides = [(measured.block(row), host) for row, host in enumerate(measured.hosts)]
    squares, degrees = residual(measured.logs, _numbered(sides))
    numbers = _numbered(list(zip(measured.keys, measured.twin, strict=True)))
    squares, degrees = (np.bincount(numbers, column) for column in (squares, degrees))
    with np.errstate(invalid="ignore"):
        variances = squares / degrees
    found = [Part(*map(float, both)) for both in zip(*squeezed(variances, degrees), strict=True)]
    return [found[number] for number in numbers]


def _numbered(things: Sequence[Any]) -> np.ndarray:
    """The number of each thing, the same for what is equal."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(thing, len(numbers)) for thing in things], dtype=int)


def _twins(measured: Measured, parts: Sequence[Part]) -> Part:
    """What twins differ by beyond what their rounds make of it."""
    ends = list(zip(measured.keys, measured.hosts, strict=True))
    originals = {end: row for row, end in enumerate(ends) if not measured.twin[row]}
    found = []
    for row, end in enumerate(ends):
        if not (measured.twin[row] and end in originals):
            continue
        d = measured.logs[originals[end]] - measured.logs[row]
        d = d[np.isfinite(d)]
        if len(d) > 1:
            by_rounds = summed([parts[row], parts[originals[end]]]).times(1 / len(d))
            found.append((d.mean() ** 2, *by_rounds))
    if not found:
        return NOT_KNOWN
    return duplicate_variance(*np.array(found, float).T)


def _averages(measured: Measured, parts: Sequence[Part], rows: Sequence[int]) -> Part | None:
    """How many times the variance of an average is what its cells make it: learned from all averages
    over what differs in one axis, in each block."""
    blocks: dict[Any, dict[Key, int]] = {}
    for row in rows:
        blocks.setdefault((measured.block(row), measured.hosts[row]), {})[measured.keys[row]] = row
    times, degrees = [], []
    for cells in blocks.values():
        for pairs in _contrasts(cells, measured.places):
            d = np.mean([measured.logs[one] - measured.logs[other] for one, other in pairs], axis=0)
            d = d[np.isfinite(d)]
            made = sum(parts[row].variance for pair in pairs for row in pair) / len(pairs) ** 2
            if len(d) > 1 and made > EXACT:
                times.append(d.var(ddof=1) / made)
                degrees.append(len(d) - 1)
    return common_of(np.array(times), np.array(degrees, float))[0]


def _contrasts(cells: Mapping[Key, int], places: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """For each axis that tells no block, and each two of its values: all rows of cells that differ in these
    alone, if there are several."""
    for place in set(range(len(next(iter(cells))))).difference(places):
        by_rest: dict[Key, dict[str, int]] = {}
        for key, row in cells.items():
            by_rest.setdefault(key[:place] + key[place + 1 :], {})[key[place]] = row
        for one, other in combinations(dict.fromkeys(key[place] for key in cells), 2):
            pairs = [(at[one], at[other]) for at in by_rest.values() if one in at and other in at]
            if len(pairs) > 1:
                yield pairs

"""The noise floor: how far two cells that are the same thing differ here.

For each twin and round d = ln(metric of the original / metric of the twin), paired as any comparison.
Of the twins of a class (cells that agree on the study's `noise_class`):

- they *differed* by the root mean square of their means of d;
- the *spread* is the standard deviation of d over rounds, pooled over the twins;
- the *noise floor* is the upper 97.5 % limit of the former: differed + t x spread / sqrt(rounds);
- *detectable* is the smallest difference that would have been called in 9 of 10 such experiments, were
  it a table's only comparison.

All four are written as ratios of at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare.family import EACH
from vcsbench.compare.intervals import detectable, t_quantile
from vcsbench.compare.reduction import by_round, twins_by_round
from vcsbench.evidence.frames import grouped
from vcsbench.metrics import DEFAULT, metric_of
from vcsbench.metrics.metric import Metric
from vcsbench.plan import twins

COLUMNS = ["twins", "rounds", "differed", "spread", "noise_floor", "detectable", "cells"]


@dataclass(frozen=True)
class Floors:
    """The noise floors of a study's classes, as ratios >= 1; NaN for a class that has none. A class is named
    by the values of the axes of `noise_class`, "" where an axis does not apply."""

    noise_class: Sequence[str]
    by_class: Mapping[tuple[str, ...], float]

    def of(self, cell: Mapping[str, Any]) -> float:
        """The noise floor of a cell, by its axes."""
        return self.by_class.get(twins.class_of(cell, self.noise_class), math.nan)

    def over(self, cells: Iterable[Mapping[str, Any]]) -> float:
        """The noise floor of what several cells are in: the largest; NaN if one of them has none."""
        return largest(map(self.of, cells))


def floors(
    frame: pd.DataFrame,
    axes: Sequence[str],
    noise_class: Sequence[str],
    metric: Metric | None = None,
) -> Floors:
    """The noise floors of a frame of the measurements, in a metric."""
    table = noise_table(frame, axes, noise_class, metric)
    named = [axis for axis in noise_class if axis in axes]
    keys = map(tuple, table[named].to_numpy())
    return Floors(named, dict(zip(keys, table["noise_floor"].astype(float), strict=True)))


def largest(known: Iterable[float]) -> float:
    """The largest of noise floors; NaN where one is not known."""
    found = list(known)
    return math.nan if any(map(math.isnan, found)) else max(found, default=1.0)


def noise_table(
    frame: pd.DataFrame,
    axes: Sequence[str],
    noise_class: Sequence[str],
    metric: Metric | None = None,
) -> pd.DataFrame:
    """A row per class of the measurements, in their order.

    Columns: those of `noise_class` that are axes of the study; twins (how many cells were
    measured twice), rounds (the fewest that one of these pairs has), differed, spread, noise_floor,
    detectable (ratios >= 1, as above; NaN with fewer than two rounds), cells (the twins' paths,
    separated by spaces).
    """
    named = [axis for axis in noise_class if axis in axes]
    rounds = by_round(frame, axes)
    doubles = twins_by_round(frame, axes)
    noise = _by_class(_differences(rounds, doubles, axes, metric or metric_of(DEFAULT)), named)
    table = rounds[named].drop_duplicates().merge(noise, how="left", on=named) if named else noise
    return table.assign(
        twins=table["twins"].fillna(0).astype(int),
        rounds=table["rounds"].fillna(0).astype(int),
        cells=table["cells"].fillna(""),
    )[[*named, *COLUMNS]]


def _differences(
    originals: pd.DataFrame, doubles: pd.DataFrame, axes: Sequence[str], metric: Metric
) -> pd.DataFrame:
    """A row per twin: its axes, cell, n (paired rounds), mean and square (the sum of squared deviations
    from it) of d."""
    keys = [*axes, "host", "round"]
    both = doubles.merge(originals, on=keys, suffixes=("_twin", ""))
    both = both.assign(d=np.log(both[metric.name].astype(float) / both[f"{metric.name}_twin"]))
    both = both[np.isfinite(both["d"])]
    by_twin = grouped(both, [*axes, "cell"])["d"]
    found = by_twin.agg(n="size", mean="mean", square="var").reset_index()
    return found.assign(square=found["square"] * (found["n"] - 1))


def _by_class(pairs: pd.DataFrame, named: Sequence[str]) -> pd.DataFrame:
    rows = []
    pairs = pairs[pairs["n"] > 1]
    for _, of_class in grouped(pairs, named):
        n = int(of_class["n"].min())
        degrees = int(of_class["n"].sum()) - len(of_class)
        spread = math.sqrt(of_class["square"].sum() / degrees)
        differed = math.sqrt((of_class["mean"] ** 2).mean())
        floor = differed + t_quantile(degrees) * spread / math.sqrt(n)
        smallest = detectable(spread / math.sqrt(n), degrees, floor, EACH)
        ratios = [math.exp(x) for x in (differed, spread, floor, smallest)]
        key = of_class[list(named)].iloc[0]
        rows.append([*key, len(of_class), n, *ratios, " ".join(of_class["cell"])])
    return pd.DataFrame(rows, columns=[*named, *COLUMNS])

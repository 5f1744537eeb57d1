"""The noise floor: how far two cells that are the same thing differ here.

For each twin and round d = ln(elapsed of the original / elapsed of the twin), paired as any comparison.
Of the twins of a class (command, cache, ra):

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

from vcsbench.compare.decisions import EACH
from vcsbench.compare.intervals import detectable, t_quantile
from vcsbench.compare.reduction import by_round, twins_by_round
from vcsbench.plan import twins

COLUMNS = ["twins", "rounds", "differed", "spread", "noise_floor", "detectable", "cells"]


@dataclass(frozen=True)
class Floors:
    """The noise floors of a study's classes, as ratios >= 1; NaN for a class that has none."""

    by_class: Mapping[tuple[str, ...], float]

    def of(self, cell: Mapping[str, str]) -> float:
        """The noise floor of a cell, by its axes."""
        return self.by_class.get(twins.class_of(cell), math.nan)

    def over(self, cells: Iterable[Mapping[str, str]]) -> float:
        """The noise floor of what several cells are in: the largest; NaN if one of them has none."""
        found = [self.of(cell) for cell in cells]
        return math.nan if not found or any(map(math.isnan, found)) else max(found)


def floors(frame: pd.DataFrame, axes: Sequence[str]) -> Floors:
    """The noise floors of a frame of the measurements."""
    table = noise_table(frame, axes)
    named = [axis for axis in twins.CLASS_AXES if axis in axes]
    keys = [dict(zip(named, values, strict=True)) for values in table[named].to_numpy()]
    pairs = zip(keys, table["noise_floor"], strict=True)
    return Floors({twins.class_of(key): float(floor) for key, floor in pairs})


def noise_table(frame: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """A row per class of the measurements, in their order.

    Columns: those of command, cache and ra that are axes of the study; twins (how many cells were
    measured twice), rounds (the fewest that one of these pairs has), differed, spread, noise_floor,
    detectable (ratios >= 1, as above; NaN with fewer than two rounds), cells (the twins' paths,
    separated by spaces).
    """
    named = [axis for axis in twins.CLASS_AXES if axis in axes]
    classes = by_round(frame, axes)[named].drop_duplicates()
    noise = _by_class(_differences(frame, axes), named)
    table = classes.merge(noise, how="left", on=named) if named else noise
    return table.assign(
        twins=table["twins"].fillna(0).astype(int),
        rounds=table["rounds"].fillna(0).astype(int),
        cells=table["cells"].fillna(""),
    )[[*named, *COLUMNS]]


def _differences(frame: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """A row per twin: the class axes, cell, n (paired rounds), mean and square (the sum of squared
    deviations from it) of d."""
    keys = [*axes, "host", "round"]
    originals = by_round(frame, axes)[[*keys, "elapsed_s"]]
    both = twins_by_round(frame, axes).merge(originals, on=keys, suffixes=("_twin", ""))
    both = both.assign(d=np.log(both["elapsed_s"].astype(float) / both["elapsed_s_twin"]))
    both = both[np.isfinite(both["d"])]
    named = [axis for axis in twins.CLASS_AXES if axis in axes]
    grouped = both.groupby([*named, "cell"], sort=False)["d"]
    return pd.DataFrame(
        {
            "n": grouped.size(),
            "mean": grouped.mean(),
            "square": grouped.var() * (grouped.size() - 1),
        }
    ).reset_index()


def _by_class(pairs: pd.DataFrame, named: Sequence[str]) -> pd.DataFrame:
    rows = []
    pairs = pairs[pairs["n"] > 1]
    one: list[Any] = [((), pairs)] if len(pairs) else []
    for key, of_class in pairs.groupby(list(named), sort=False) if named else one:
        n = int(of_class["n"].min())
        degrees = int(of_class["n"].sum()) - len(of_class)
        spread = math.sqrt(of_class["square"].sum() / degrees)
        differed = math.sqrt((of_class["mean"] ** 2).mean())
        floor = differed + t_quantile(degrees) * spread / math.sqrt(n)
        smallest = detectable(spread / math.sqrt(n), degrees, floor, EACH)
        ratios = [math.exp(x) for x in (differed, spread, floor, smallest)]
        rows.append([*key, len(of_class), n, *ratios, " ".join(of_class["cell"])])
    return pd.DataFrame(rows, columns=[*named, *COLUMNS])

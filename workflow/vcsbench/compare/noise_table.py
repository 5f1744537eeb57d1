"""What cells and runs that are the same thing differ by, class by class: for people to read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare.noise import Noise
from vcsbench.compare.reduction import MEAN, by_round, that_count, twins_by_round
from vcsbench.evidence.frames import grouped
from vcsbench.metrics import DEFAULT, Metric, metric_of

COLUMNS = ["twins", "rounds", "differed", "chance", "spread", "runs", "within", "twin_sd", "cells"]


def noise_table(
    frame: pd.DataFrame,
    axes: Sequence[str],
    variance_group: Sequence[str],
    noise: Noise,
    metric: Metric | None = None,
) -> pd.DataFrame:
    """A row per class of the measurements (cells that agree on `variance_group`), in their order; `noise` is
    what noise_of says of them.

    For each twin and round d = ln(metric of the original / metric of the twin), paired as any comparison.
    Columns: those of `variance_group` that are axes of the study; twins (how many cells were measured twice),
    rounds (the fewest that one of these pairs has); as ratios of at least 1 `differed` (the root mean square
    of the twins' means of d), `chance` (of what their rounds' scatter alone makes of that), `spread` (the
    standard deviation of d over rounds), `within` (of runs in a cell-round, NaN where there is one), and
    `twin_sd` (what twins differ by beyond chance, over the whole study); `runs` (the most in a
    cell-round), cells (the twins' paths, separated by spaces).
    """
    named, metric = [axis for axis in variance_group if axis in axes], metric or metric_of(DEFAULT)
    rounds = by_round(frame, axes, MEAN)
    pairs = _pairs(rounds, frame, axes, metric)
    table = _within(frame, axes, named, metric)
    how: dict[str, Any] = {"how": "left", "on": named} if named else {"how": "cross"}
    table = table.merge(_by_class(pairs, named), **how)
    return table.assign(
        twins=table["twins"].fillna(0).astype(int),
        rounds=table["rounds"].fillna(0).astype(int),
        cells=table["cells"].fillna(""),
        twin_sd=math.exp(math.sqrt(noise.twins.variance)),
    )[[*named, *COLUMNS]]


def _pairs(
    originals: pd.DataFrame, frame: pd.DataFrame, axes: Sequence[str], metric: Metric
) -> pd.DataFrame:
    """A row per twin: its axes, cell, n (paired rounds), mean and square (the sum of squared deviations
    from it) of d."""
    keys = [*axes, "host", "round"]
    both = twins_by_round(frame, axes).merge(originals, on=keys, suffixes=("_twin", ""))
    both = both.assign(d=np.log(both[metric.name].astype(float) / both[f"{metric.name}_twin"]))
    both = both[np.isfinite(both["d"])]
    by_twin = grouped(both, [*axes, "cell"])["d"]
    found = by_twin.agg(n="size", mean="mean", square="var").reset_index()
    return found.assign(square=found["square"] * (found["n"] - 1))


def _by_class(pairs: pd.DataFrame, named: Sequence[str]) -> pd.DataFrame:
    rows = []
    for _, of_class in grouped(pairs[pairs["n"] > 1], named):
        n, squares = of_class["n"], of_class["square"]
        differed = (of_class["mean"] ** 2).mean()
        chance = (squares / (n - 1) / n).mean()
        spread = squares.sum() / (n - 1).sum()
        ratios = [math.exp(math.sqrt(x)) for x in (differed, chance, spread)]
        key = of_class[list(named)].iloc[0]
        rows.append([*key, len(of_class), int(n.min()), *ratios, " ".join(of_class["cell"])])
    said = ["twins", "rounds", "differed", "chance", "spread", "cells"]
    return pd.DataFrame(rows, columns=[*named, *said])


def _within(
    frame: pd.DataFrame, axes: Sequence[str], named: Sequence[str], metric: Metric
) -> pd.DataFrame:
    """A row per class: how many runs a cell-round has, and what these scatter by."""
    runs = that_count(frame)
    runs = runs.assign(log=np.log(runs[metric.name].astype(float)))
    keys = [name for name in ("cell", *axes, "host", "round") if name in runs]
    rounds = grouped(runs, keys)["log"].agg(runs="count", variance="var").reset_index()
    rows = []
    for _, of_class in grouped(rounds, named):
        several = of_class[of_class["runs"] > 1]
        degrees = several["runs"] - 1
        known = len(several) > 0
        variance = (several["variance"] * degrees).sum() / degrees.sum() if known else math.nan
        key = of_class[list(named)].iloc[0]
        rows.append([*key, int(of_class["runs"].max()), math.exp(math.sqrt(variance))])
    return pd.DataFrame(rows, columns=[*named, "runs", "within"])

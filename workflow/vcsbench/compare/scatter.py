"""The machine's own noise: by how much single runs of one cell scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from vcsbench.compare.decisions import Limits
from vcsbench.compare.reduction import that_count
from vcsbench.metrics import DEFAULT


def of_runs(frame: pd.DataFrame, block: Sequence[str]) -> float:
    """The standard deviation of the logarithm of a single run's time, of runs of one cell, in the middle of
    all cells of the measurements: what runs within a cell-round scatter by and what cell-rounds scatter by
    beyond that, whatever all cells of a block share in a round apart. NaN where too few rounds tell."""
    runs = that_count(frame)
    runs = runs.assign(log=np.log(runs[DEFAULT].astype(float)))
    rounds = runs.groupby([*block, "host", "cell", "round"])["log"].agg(["mean", "var", "count"])
    rounds = rounds.reset_index()
    by_block = rounds.groupby([*block, "host"])
    rounds["off"] = rounds["mean"] - rounds.groupby(["cell", "host"])["mean"].transform("mean")
    rounds["off"] -= rounds.groupby([*block, "host", "round"])["off"].transform("mean")
    degrees = (by_block["cell"].nunique() - 1) * (by_block["round"].nunique() - 1)
    means = by_block["off"].agg(lambda off: float((off**2).sum())) / degrees.where(degrees > 0)
    cells = rounds.groupby([*block, "host", "cell"], as_index=False)[["var", "count"]].mean()
    cells = cells.merge(means.rename("means").reset_index(), on=[*block, "host"])
    # The mean of `count` runs has that part of their variance within a round in it already.
    within = cells["var"].fillna(0) * (1 - 1 / cells["count"])
    known = (within + cells["means"]).dropna()
    return math.sqrt(float(known.median())) if len(known) else math.nan


def limits_here(limits: Limits, frame: pd.DataFrame, block: Sequence[str]) -> Limits:
    """From where on something is concluded of the measurements in a frame: on a noisy machine a larger
    difference is worth noting."""
    return limits.on_machine(of_runs(frame, block))

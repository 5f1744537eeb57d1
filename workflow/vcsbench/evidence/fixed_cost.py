"""Relate each run to the fixed cost of its command: start-up, connection and waits of the network."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from vcsbench.config.configuration import EMPTY
from vcsbench.plan.fixed_cost import NOT_FIXED, REPOSITORY_AXIS

# Linux delays an acknowledgement by 40 ms, and svnserve waits for it (Nagle's algorithm). The wait does not
# depend on the work, and no network card of a real server adds it.
DELAYED_ACK_S = 0.04
# Shares of fixed cost in a cell's time: above the first it is flagged, above the second it decides nothing.
FLAG = "mostly-fixed-cost"
FLAGGED_SHARE, DECIDING_SHARE = 0.25, 0.5
COLUMNS = ("fixed_cost_s", "fixed_share")


def split(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of cells on repositories, and those on the empty repository."""
    if REPOSITORY_AXIS not in frame:
        return frame, frame.iloc[:0]
    frame = frame.copy()  # One block: appending columns to a fragmented frame is slow.
    is_fixed = frame[REPOSITORY_AXIS] == EMPTY
    return frame[~is_fixed].reset_index(drop=True), frame[is_fixed].reset_index(drop=True)


def with_fixed_cost(runs: pd.DataFrame, fixed: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Add `fixed_cost_s` (the median of the fixed-cost runs of the command, on the same host, plus delayed
    acknowledgements) and `fixed_share` (of the median time of the cell). Unknown ones are empty."""
    keys = [axis for axis in axes if axis not in NOT_FIXED]
    own = fixed.assign(fixed_cost_s=fixed["elapsed_s"] - _waits(fixed))
    known = own.groupby([*keys, "host"], as_index=False)["fixed_cost_s"].median()
    known["fixed_cost_s"] = known["fixed_cost_s"].astype(float)
    merged = runs.merge(known, on=[*keys, "host"], how="left")
    cell = [merged["cell"], merged["host"]]
    waits = _waits(merged).groupby(cell).transform("median")
    cost = (merged["fixed_cost_s"] + waits).astype(float)
    median = merged["elapsed_s"].groupby(cell).transform("median")
    merged = merged.assign(fixed_cost_s=cost, fixed_share=(cost / median).clip(upper=1.0))
    return merged[[*(name for name in merged if name != "flags"), "flags"]]


def _waits(frame: pd.DataFrame) -> pd.Series:
    """Return the seconds of delayed acknowledgements in each run."""
    if "delayed_acks" not in frame:
        return pd.Series(0.0, index=frame.index)
    return pd.to_numeric(frame["delayed_acks"], errors="coerce").fillna(0.0) * DELAYED_ACK_S

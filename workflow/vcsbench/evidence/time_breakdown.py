"""Compute the time of a run from its results: preparation, measuring by block, and waiting in between.

An interrupted and continued run has the time of both parts. Results that were replaced have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pandas as pd

from vcsbench.files import read_json
from vcsbench.plan.result_state import block_name

# Cell-rounds with a longer gap belong to different sessions, unless one waited for another measurement.
PAUSE_S = 60.0
EPOCH = pd.Timestamp(0, tz="UTC")


@dataclass(frozen=True)
class BlockTime:
    """The rounds of a block, the seconds of its cell-rounds, and the seconds of waiting per round."""

    rounds: int
    seconds: float
    waiting_s: float

    @property
    def round_s(self) -> float:
        """Return the seconds of a round, waiting included."""
        return self.seconds / self.rounds + self.waiting_s


@dataclass(frozen=True)
class TimeBreakdown:
    """The seconds of a run. `waiting_s` lies between cell-rounds: Snakemake, process starts, decisions.
    `timed_s` is the time of the timed commands, a part of the measuring."""

    preparation_s: float = 0.0
    waiting_s: float = 0.0
    blocks: Mapping[str, BlockTime] = field(default_factory=dict)
    timed_s: float = 0.0

    @property
    def round_s(self) -> dict[str, float]:
        """Return the seconds of a round of each block."""
        return {name: block.round_s for name, block in self.blocks.items()}

    @property
    def measuring_s(self) -> float:
        """Return the seconds of all cell-rounds."""
        return sum(block.seconds for block in self.blocks.values())

    @property
    def total_s(self) -> float:
        """Return the seconds of preparation, measuring and waiting."""
        return self.preparation_s + self.measuring_s + self.waiting_s


def time_breakdown(
    frame: pd.DataFrame, block: Sequence[str], records: Iterable[str | Path]
) -> TimeBreakdown:
    """Return the time of the measurements in a frame.

    `block` has the axes of a block, `records` are the records of prepared repositories.
    """
    preparation_s = sum(float(read_json(path).get("seconds") or 0) for path in records)
    runs = frame.dropna(subset=["cell_round_s"])
    cell_rounds = runs.drop_duplicates(["cell", "round"])
    if cell_rounds.empty:
        return TimeBreakdown(preparation_s)
    cells = cast("list[dict[str, object]]", cell_rounds[list(block)].to_dict("records"))
    started = pd.to_datetime(cell_rounds["started_at"], utc=True) - EPOCH
    cell_rounds = cell_rounds.assign(
        block=[block_name(block, axes) for axes in cells],
        began=started / pd.Timedelta(seconds=1),
    ).sort_values("began")
    waits = _waits(cell_rounds)
    wait_s = float(waits.median()) if len(waits) else 0.0
    blocks = {}
    for name, rows in cell_rounds.groupby("block", sort=False):
        rounds = rows["round"].nunique()
        seconds = float(rows["cell_round_s"].sum())
        blocks[str(name)] = BlockTime(rounds, seconds, wait_s * len(rows) / rounds)
    timed_s = float(runs["elapsed_s"].sum())
    return TimeBreakdown(preparation_s, float(waits.sum()), blocks, timed_s)


def _waits(cell_rounds: pd.DataFrame) -> pd.Series:
    """Return the seconds between the end of each cell-round and the start of the next one in a session.

    Waiting for the lock of another measurement does not count.
    """
    began = cell_rounds["began"]
    gaps = (began.shift(-1) - began - cell_rounds["cell_round_s"]).clip(lower=0)
    waits = (gaps - cell_rounds["waited_s"].shift(-1)).clip(lower=0)
    return waits[waits <= PAUSE_S]

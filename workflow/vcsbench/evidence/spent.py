"""What the results that there are have cost: preparation, measuring by block, and waiting in between.

It is told by the results alone, not by any process's clock: a run that is stopped and goes on has spent what
both of its parts took. Results that were made stale, and are no more, cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from vcsbench.files import read_json
from vcsbench.plan.results import block_name

# What lies further apart was not measured in one go, unless it waited for other measurements on the machine.
PAUSE_S = 60.0
EPOCH = pd.Timestamp(0, tz="UTC")


@dataclass(frozen=True)
class OfBlock:
    """A block's rounds, and the seconds that their cell-rounds took; `waiting_s` is what a round waits for
    its cell-rounds to be started."""

    rounds: int
    seconds: float
    waiting_s: float

    @property
    def round_s(self) -> float:
        """What a round takes, all in all."""
        return self.seconds / self.rounds + self.waiting_s


@dataclass(frozen=True)
class Spent:
    """Seconds. `waiting_s` is the time between cell-rounds: Snakemake's part, process starts, decisions.
    `timed_s` is the part of the measuring in which commands were timed."""

    preparation_s: float = 0.0
    waiting_s: float = 0.0
    blocks: Mapping[str, OfBlock] = field(default_factory=dict)
    timed_s: float = 0.0

    @property
    def round_s(self) -> dict[str, float]:
        """What a round of each block takes."""
        return {name: block.round_s for name, block in self.blocks.items()}

    @property
    def measuring_s(self) -> float:
        """All cell-rounds together."""
        return sum(block.seconds for block in self.blocks.values())

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.preparation_s + self.measuring_s + self.waiting_s


def spent(frame: pd.DataFrame, block: Sequence[str], records: Iterable[str | Path]) -> Spent:
    """What the measurements in a frame have cost; `block` has the axes of a block, `records` the records of
    what was prepared for them."""
    preparation_s = sum(float(read_json(path).get("seconds") or 0) for path in records)
    runs = frame.dropna(subset=["cell_round_s"])
    told = runs.drop_duplicates(["cell", "round"])
    if told.empty:
        return Spent(preparation_s)
    cells: list[dict[Any, Any]] = told[list(block)].to_dict("records")
    told = told.assign(
        block=[block_name(block, axes) for axes in cells],
        began=(pd.to_datetime(told["started_at"], utc=True) - EPOCH) / pd.Timedelta(seconds=1),
    ).sort_values("began")
    waited = _waited(told)
    each = float(waited.median()) if len(waited) else 0.0
    blocks = {}
    for name, rows in told.groupby("block", sort=False):
        rounds = rows["round"].nunique()
        waiting_s = each * len(rows) / rounds
        blocks[str(name)] = OfBlock(rounds, float(rows["cell_round_s"].sum()), waiting_s)
    return Spent(preparation_s, float(waited.sum()), blocks, float(runs["elapsed_s"].sum()))


def _waited(told: pd.DataFrame) -> pd.Series:
    """Return the seconds between the end of each cell-round and the begin of the next one, in one session.

    The time in which another measurement held the machine's lock is no part of them.
    """
    between = (told["began"].shift(-1) - told["began"] - told["cell_round_s"]).clip(lower=0)
    waited = (between - told["waited_s"].shift(-1)).clip(lower=0)
    return waited[waited <= PAUSE_S]

"""Account for the time that measurements took: preparation, measuring, and waiting between cell-rounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import pandas as pd

from vcsbench.files import read_json
from vcsbench.plan.result_state import block_name

# Cell-rounds with a longer gap belong to different sessions, unless one waited for another measurement.
PAUSE_S = 60.0
EPOCH = pd.Timestamp(0, tz="UTC")


class BlockTime(NamedTuple):
    """The rounds of a block, and the seconds that they took.

    `seconds` is the time of all cell-rounds. `round_s` is the mean time of a round, with the waits after
    cell-rounds.
    """

    rounds: int
    seconds: float
    round_s: float


class TimeBreakdown(NamedTuple):
    """The seconds of all sessions. `blocks` has the time of each block by its name, such as "log/ruby".

    In `preparation_s`, preparations that ran at the same time count once. `waiting_s` lies between
    cell-rounds: Snakemake, process starts, decisions. `timed_s` is the time of the timed commands, which
    `measuring_s` includes.
    """

    preparation_s: float
    measuring_s: float
    waiting_s: float
    timed_s: float
    blocks: Mapping[str, BlockTime]

    @property
    def round_s(self) -> dict[str, float]:
        return {name: block.round_s for name, block in self.blocks.items()}

    @property
    def total_s(self) -> float:
        return self.preparation_s + self.measuring_s + self.waiting_s


def break_down_time(
    frame: pd.DataFrame, block_axes: Sequence[str], records: Iterable[str | Path]
) -> TimeBreakdown:
    """Return the time that the measurements in `frame` took, by stage and by block.

    The cells of a block have equal values on `block_axes`, for example ["command", "repo"]. `frame` has a row
    per run. `records` are the files about prepared repositories and traces, with the time of each
    (time_spans.TimeSpan). The time of replaced results, and pauses between sessions, do not count.
    """
    preparation_s = _time_of_preparations(records)
    runs = frame.dropna(subset=["cell_round_s"])
    if runs.empty:
        return TimeBreakdown(preparation_s, measuring_s=0.0, waiting_s=0.0, timed_s=0.0, blocks={})

    cell_rounds = _list_cell_rounds(runs, block_axes)
    waits_s = _waits_after(cell_rounds)
    blocks = _times_of_blocks(cell_rounds, waits_s)

    elapsed_s = runs["elapsed_s"]
    # `elapsed_s` of traffic is NaN. `window_s`, the time between the hooks of a run, takes its place.
    if "window_s" in runs:
        elapsed_s = elapsed_s.fillna(pd.to_numeric(runs["window_s"], errors="coerce"))
    return TimeBreakdown(
        preparation_s=preparation_s,
        measuring_s=sum(block_time.seconds for block_time in blocks.values()),
        waiting_s=float(waits_s.sum()),
        timed_s=float(elapsed_s.sum()),
        blocks=blocks,
    )


def _times_of_blocks(cell_rounds: pd.DataFrame, waits_s: pd.Series) -> dict[str, BlockTime]:
    """Return the time of each block by its name, such as "log/ruby".

    `cell_rounds` has a row for each measured round of a cell, and `waits_s` has the seconds after each of
    them until the next one.
    """
    # A block with more cells has more waits in a round, because there is a wait after each cell-round.
    usual_wait_s = float(waits_s.median()) if len(waits_s) else 0.0
    blocks = {}
    for name, rows in cell_rounds.groupby("block_name", sort=False):
        rounds = rows["round"].nunique()
        seconds = float(rows["cell_round_s"].sum())
        waits_of_block_s = usual_wait_s * len(rows)
        round_s = seconds / rounds + waits_of_block_s / rounds
        blocks[str(name)] = BlockTime(rounds, seconds, round_s)
    return blocks


def _time_of_preparations(records: Iterable[str | Path]) -> float:
    """Return the seconds in which at least one preparation ran, such as the load of a repository.

    Two loads from 0 s to 40 s and from 10 s to 60 s take 60 s. A missing file of `records` counts as 0 s.
    """
    total_s = 0.0
    # The start and the end of each preparation, in seconds since 1970.
    spans: list[tuple[float, float]] = []
    for path in records:
        record = read_json(path)
        seconds = float(record.get("seconds") or 0)
        if "began" in record:
            spans.append((record["began"], record["began"] + seconds))
        else:
            # An earlier version of vcsbench stored no start.
            total_s += seconds
    counted_until = -math.inf
    for began, ended in sorted(spans):
        # The part before `counted_until` was counted with an earlier preparation.
        total_s += max(0.0, ended - max(began, counted_until))
        counted_until = max(counted_until, ended)
    return total_s


def _list_cell_rounds(runs: pd.DataFrame, block_axes: Sequence[str]) -> pd.DataFrame:
    """Return a row for each cell-round, by start. `runs` has a row for each run of a cell-round.

    The columns of the result are those of `runs`, `block_name` (such as "log/ruby"), and `began_s` (the start
    of the cell-round in seconds since 1970).
    """
    # The time of a cell-round is in each of its runs, so one of them is enough.
    cell_rounds = runs.drop_duplicates(["cell", "round"])
    cells = cast("list[dict[str, object]]", cell_rounds[list(block_axes)].to_dict("records"))
    began = pd.to_datetime(cell_rounds["cell_round_started_at"], utc=True) - EPOCH
    cell_rounds = cell_rounds.assign(
        block_name=[block_name(block_axes, axes) for axes in cells],
        began_s=began / pd.Timedelta(seconds=1),
    )
    return cell_rounds.sort_values("began_s")


def _waits_after(cell_rounds: pd.DataFrame) -> pd.Series:
    """Return the seconds between each cell-round and the next one of the same session.

    `cell_rounds` are sorted by their start. Before it, a cell-round waited `waited_s` for another measurement
    on the machine. Gaps longer than PAUSE_S are left out, because another session began after them.
    """
    began_s = cell_rounds["began_s"]
    # A gap can be below 0, because the clock can be set back, and the end of a cell-round is rounded.
    gaps_s = (began_s.shift(-1) - began_s - cell_rounds["cell_round_s"]).clip(lower=0)
    # A wait for another measurement on the machine is no part of this run.
    waits_s = (gaps_s - cell_rounds["waited_s"].shift(-1)).clip(lower=0)
    # The gap after the last cell-round is NaN, and is dropped.
    return waits_s[waits_s <= PAUSE_S]

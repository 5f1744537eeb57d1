"""Reduces runs to one value per round, and rounds to one value per cell: medians, as published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from vcsbench.evidence import flags, samework
from vcsbench.plan import twins

# Where numbers have no rounds, as published ones: one round, on a machine without a name; that all
# did the same is taken as said.
NO_ROUNDS: dict[str, Any] = {"host": "", "round": 1.0, "flags": "", "work": "published"}


def is_measured(frame: pd.DataFrame) -> bool:
    """Whether the frame has single rounds: published numbers have been reduced already."""
    return "round" in frame.columns


def by_round(frame: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """A row per cell, host and round: the medians of its runs, and all of their flags; of originals
    only, not of their twins (here is the one place where the two are told apart).

    The frame is that of the measurements, or of published numbers with the axes and a column per
    metric. Runs with a false label are left out. Columns: the axes, host, round, the metrics
    (elapsed_s and client_cpu_pct; measured also cpu_s, user and system; published all that there
    are), flags, and work: what the runs of the cell did in all rounds (samework.several).
    """
    if not is_measured(frame):
        return frame.assign(**NO_ROUNDS)
    return _rounds(frame[~_of_twins(frame)], [*axes, "host", "round"])


def twins_by_round(frame: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """The same of the twins, with their `cell` as well."""
    if "cell" not in frame:
        frame = frame.assign(cell="")
    return _rounds(frame[_of_twins(frame)], ["cell", *axes, "host", "round"])


def _of_twins(frame: pd.DataFrame) -> pd.Series:
    if "cell" not in frame:
        return pd.Series(False, index=frame.index)
    return frame["cell"].map(twins.is_twin).astype(bool)


def _rounds(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    false = frame["flags"].map(flags.has_false_label).astype(bool)
    usable = frame[~false]
    works = usable.get("work", "")  # without the column nothing tells what they did
    usable = usable.assign(cpu_s=usable["user_s"] + usable["system_s"], work=works)
    grouped = usable.groupby(keys, sort=False, dropna=False)
    rounds = grouped[["elapsed_s", "cpu_s"]].median()
    rounds["client_cpu_pct"] = 100 * rounds["cpu_s"] / rounds["elapsed_s"]
    rounds["flags"] = grouped["flags"].agg(" ".join)
    rounds["work"] = grouped["work"].agg(samework.several)
    rounds = rounds.reset_index()
    cell = [key for key in keys if key not in ("host", "round")]
    of_cells = rounds.groupby(cell, sort=False, dropna=False)["work"]
    return rounds.assign(work=of_cells.transform(samework.several))


def by_cell(rounds: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """A row per cell: the medians of its rounds.

    client_cpu_pct is 100 x median(user + system) / median(elapsed), not the median of the rounds'.
    Columns: the axes, the metrics, n (rounds), hosts, flags (words separated by spaces) and work.
    """
    metrics = [name for name in rounds.columns if name not in (*axes, *NO_ROUNDS)]
    grouped = rounds.groupby(list(axes), sort=False, dropna=False)
    cells = grouped[metrics].median()
    if "cpu_s" in metrics:
        cells["client_cpu_pct"] = 100 * cells["cpu_s"] / cells["elapsed_s"]
    cells["n"] = grouped.size()
    cells["hosts"] = grouped["host"].agg(lambda hosts: " ".join(sorted(set(hosts))))
    cells["flags"] = grouped["flags"].agg(" ".join)
    cells["work"] = grouped["work"].first()
    return cells.reset_index()

"""What is measured now against a saved baseline: one more table, and what expectations are judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare import baselines
from vcsbench.compare.decisions import NOTABLE_PCT, with_calls, with_unknown_noise
from vcsbench.compare.intervals import CONFIDENCE, Estimate, unpaired_ratio
from vcsbench.compare.noise import floors
from vcsbench.compare.reduction import by_cell, by_round
from vcsbench.compare.tables import JUDGED, STATISTICS
from vcsbench.evidence import flags, samework
from vcsbench.evidence.frames import in_order
from vcsbench.evidence.measurements import read_measurements
from vcsbench.plan import twins

# Stands for the compared axis in the definition of a baseline's table; no axis of a study has it.
SINCE = "(when)"
# Flags for which a cell is not compared with the saved one of its name.
NOT_SAVED, SAME_RUNS, HOSTS = "not-saved", "same-runs", "hosts-differ"


@dataclass(frozen=True)
class Side:
    """Measurements (the frame of their file) and what they were measured on and of (baselines.about)."""

    frame: pd.DataFrame
    about: Mapping[str, Any]


@dataclass(frozen=True)
class Pair:
    """A cell of now and the saved one of its name: logarithms of their rounds' times, the medians of
    both, their flags; `withheld` are the flags for which they are not compared, `reason` says why.
    `floor` is the larger of their noise floors.
    """

    axes: Mapping[str, str]
    logs: tuple[list[float], list[float]] = ([], [])
    medians: tuple[float, float] = (math.nan, math.nan)
    flags: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    reason: str = ""
    floor: float = math.nan

    def ratio(self, confidence: float = CONFIDENCE) -> Estimate:
        """elapsed(saved) / elapsed(now), above 1 it has become faster; rounds are not paired."""
        return unpaired_ratio(*self.logs, confidence)


def side_saved(baseline: str, study: str) -> Side:
    """A saved study; a UserError where it cannot be read, or lacks a column."""
    path = baselines.csv_of(baseline, study)
    return Side(read_measurements(path), baselines.read_about(baseline, study))


def side_now(study: str, results: Path) -> Side:
    """What is measured of a study below the folder `results`."""
    frame = read_measurements(results / "measurements" / f"{study}.csv")
    rows: list[dict[Any, Any]] = frame[["cell", "round", "started_at"]].to_dict("records")
    return Side(frame, baselines.about(study, rows, results))


def pairs(before: Side, now: Side, axes: Sequence[str]) -> list[Pair]:
    """A pair for each cell that counts now, of what was measured since: runs that are in the saved
    baseline themselves would only be compared with themselves."""
    counted = by_cell(by_round(now.frame, axes), axes).to_dict("records")
    frames = before.frame, _since(before.frame, now.frame)
    rounds = [by_round(frame, axes) for frame in frames]
    saved, new = (
        {_key(row, axes): row for row in by_cell(frame, axes).to_dict("records")}
        for frame in rounds
    )
    paths = [_paths(side.frame, axes) for side in (before, now)]
    noise = [floors(side.frame, axes) for side in (before, now)]
    times = [_times(frame, axes) for frame in rounds]
    found = []
    for key, flagged in ((_key(row, axes), tuple(row["flags"].split())) for row in counted):
        where = dict(zip(axes, key, strict=True))
        if key not in saved or key not in new:
            why = SAME_RUNS if key in saved else NOT_SAVED
            found.append(Pair(where, flags=flagged, withheld=(why,), reason=_says(why)))
            continue
        row = new[key]
        hosts = tuple(sorted({*saved[key]["hosts"].split(), *row["hosts"].split()}))
        withheld = _withheld(
            [
                side.about["cells"].get(of[key], {})
                for side, of in zip((before, now), paths, strict=True)
            ],
            {"saved": saved[key]["work"], baselines.NOW: row["work"]},
            where.get("command", ""),
            hosts,
        )
        found.append(
            Pair(
                where,
                logs=(times[0][key], times[1][key]),
                medians=(saved[key]["elapsed_s"], row["elapsed_s"]),
                flags=(*saved[key]["flags"].split(), *row["flags"].split()),
                withheld=tuple(withheld),
                hosts=hosts,
                reason="; ".join(withheld.values()),
                # The saved one's where only that is known, and the other way round.
                floor=float(np.fmax(noise[0].of(where), noise[1].of(where))),
            )
        )
    return found


def _withheld(
    meanings: Sequence[Mapping[str, Any]],
    works: Mapping[str, str],
    command: str,
    hosts: Sequence[str],
) -> dict[str, str]:
    """The flags for which two cells of one name are not compared, each with why."""
    found = {}
    if len(hosts) > 1:
        found[HOSTS] = f"{_says(HOSTS)} ({', '.join(hosts)})"
    found |= {flag: _says(flag) for flag in baselines.differences(*meanings)}
    if refused := samework.refusal(command, works):
        found[refused.flag] = refused.reason
    return found


def _says(flag: str) -> str:
    return flags.FLAGS[flag].says.rstrip(".")


def _since(saved: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """The runs of now that are not among the saved ones."""
    keys = ["host", "cell", "round", "run", "started_at"]
    known = {tuple(run) for run in saved[keys].to_numpy()}
    return now[[tuple(run) not in known for run in now[keys].to_numpy()]]


def _key(row: Mapping[Any, Any], axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(row[axis] for axis in axes)


def _paths(frame: pd.DataFrame, axes: Sequence[str]) -> dict[tuple[str, ...], str]:
    """The path of each cell, its own and not that of a twin."""
    rows: list[dict[Any, Any]] = frame[["cell", *axes]].drop_duplicates().to_dict("records")
    return {_key(row, axes): row["cell"] for row in twins.originals(rows)}


def _times(rounds: pd.DataFrame, axes: Sequence[str]) -> dict[tuple[str, ...], list[float]]:
    times: dict[tuple[str, ...], list[float]] = {}
    for row in rounds.to_dict("records"):
        times.setdefault(_key(row, axes), []).append(float(np.log(row["elapsed_s"])))
    return times


def make_table(
    baseline: str,
    found: Sequence[Pair],
    order: Mapping[str, list[str]],
    notable_pct: float = NOTABLE_PCT,
) -> pd.DataFrame:
    """The table of a baseline, with the columns of every other: value = 100 x (elapsed(saved) /
    elapsed(now) - 1) of the medians, and the unpaired ratio with its interval."""
    axes = list(order)
    rows = [_row(pair) for pair in found]
    table = pd.DataFrame(rows, columns=[*axes, "value", *STATISTICS, "noise_floor"])
    # Its degrees of freedom are taken to be the least that Welch's can be: calls err towards none.
    table = in_order(with_calls(with_unknown_noise(table), notable_pct), order, axes)
    table = table.assign(
        table=baselines.table_name(baseline), baseline=baseline, candidate=baselines.NOW
    )
    columns = ["table", *axes, "baseline", "candidate", "value", *STATISTICS, *JUDGED]
    return table[columns].reset_index(drop=True)


def _row(pair: Pair) -> dict[str, Any]:
    # What a run did against most others says nothing of these two.
    words = [*(word for word in pair.flags if word not in samework.REFUSED), *pair.withheld]
    if pair.withheld:
        return {**pair.axes, "n": 0, "flags": flags.joined(words), "withheld": pair.reason}
    ratio = pair.ratio()
    return {
        **pair.axes,
        "value": 100 * (pair.medians[0] / pair.medians[1] - 1),
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        "n": ratio.n,
        "flags": flags.joined([*words, *["low-n"] * ratio.low_n]),
        "withheld": "",
        "noise_floor": pair.floor,
    }


def notes(baseline: str, before: Side, now: Side, found: Sequence[Pair]) -> list[str]:
    """What a reader of the table must know, in sentences."""
    said = [
        f"{baseline} was measured from {_day(before.about['first'])} to {_day(before.about['last'])} "
        f"on {', '.join(before.about['hosts'])} with vcsbench {before.about['vcsbench']}.",
        "Its rounds are not paired with those of now: the intervals are Welch's, which are wider, and "
        "what differs between two days (load, what lies below the caches) is in the ratio. The noise "
        "floor is the larger of the two days' own.",
    ]
    changed = baselines.changes(before.about, now.about)
    if changed:
        said.append(f"What has changed since: {'; '.join(changed)}.")
    else:
        said.append("Of kernel, programs, storage and server configurations nothing has changed.")
    if withheld := sum(bool(pair.withheld) for pair in found):
        said.append(
            f"{withheld} of {len(found)} cells are not compared, for the reasons given below."
        )
    return said


def _day(stamp: str) -> str:
    return stamp[:16].replace("T", " ")


def definition(tables: Mapping[str, Mapping[str, Any]], baseline: str) -> dict[str, Any]:
    """The table of a baseline as a study's file would define it, laid out as its elapsed times are."""
    alike = [t for t in tables.values() if t.get("metric") == "elapsed_s"] or [{}]
    return {
        "compare": {"axis": SINCE, "baseline": baseline, "candidates": [baselines.NOW]},
        "rows": alike[0].get("rows", []),
        "columns": alike[0].get("columns", []),
        "published": False,
    }

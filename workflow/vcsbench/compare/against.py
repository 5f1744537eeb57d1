"""What is measured now against a saved baseline: one more table, and what expectations are judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare import baselines, tables
from vcsbench.compare.decisions import USUAL, Limits
from vcsbench.compare.intervals import Estimate, unpaired_ratio
from vcsbench.compare.noise import Noise, noise_of
from vcsbench.compare.reduction import MEAN, by_cell, by_round
from vcsbench.compare.variances import squeezed
from vcsbench.evidence import flags, samework
from vcsbench.evidence.frames import grouped, in_order
from vcsbench.evidence.measurements import read_measurements
from vcsbench.metrics import DEFAULT, metric_of

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
class ThenAndNow:
    """A cell of now and the saved one of its name: logarithms of their rounds' times, the medians of
    both, their flags; `withheld` are the flags for which they are not compared, each with why.
    `ratio` is saved / now, of rounds that are not paired; `noise` what the twins of both days tell.
    """

    axes: Mapping[str, str]
    logs: tuple[list[float], list[float]] = ([], [])
    medians: tuple[float, float] = (math.nan, math.nan)
    flags: str = ""
    withheld: Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    ratio: Estimate = tables.NOTHING
    noise: Noise = field(default_factory=Noise)


def side_saved(baseline: str, study: str) -> Side:
    """A saved study; a UserError where it cannot be read, or lacks a column."""
    path = baselines.csv_of(baseline, study)
    return Side(read_measurements(path), baselines.read_about(baseline, study))


def side_now(study: str, results: Path) -> Side:
    """What is measured of a study below the folder `results`."""
    frame = read_measurements(results / "measurements" / f"{study}.csv")
    rows: list[dict[Any, Any]] = frame[["cell", "round", "started_at"]].to_dict("records")
    return Side(frame, baselines.about(study, rows, results))


def cells_of_both(before: Side, now: Side, axes: Sequence[str]) -> list[ThenAndNow]:
    """Each cell that counts now beside the saved one, of what was measured since: runs that are in the saved
    baseline themselves would only be compared with themselves."""
    frames = before.frame, runs_since(before.frame, now.frame), now.frame
    then, since, counted = (_cells(frame, axes) for frame in frames)
    noise = _noise(before, now, axes)
    found = []
    for key, cell in counted.items():
        where = dict(zip(axes, key, strict=True))
        if not (key in then and key in since):
            why = SAME_RUNS if key in then else NOT_SAVED
            found.append(ThenAndNow(where, flags=cell["flags"], withheld={why: flags.says(why)}))
            continue
        sides = then[key], since[key]
        path = "/".join(value or "-" for value in key)
        meanings = [side.about["cells"].get(path, {}) for side in (before, now)]
        found.append(
            ThenAndNow(
                where,
                logs=(sides[0]["logs"], sides[1]["logs"]),
                medians=(sides[0][DEFAULT], sides[1][DEFAULT]),
                flags=f"{sides[0]['flags']} {sides[1]['flags']}",
                withheld=_withheld(meanings, sides, samework.name_of(where, axes)),
                hosts=_hosts(sides),
                noise=noise,
            )
        )
    return _judged(found, noise)


def _judged(found: Sequence[ThenAndNow], noise: Noise) -> list[ThenAndNow]:
    """With the ratios, whose errors are learned from one another's: their rounds are not paired."""
    own = [unpaired_ratio(*both.logs) for both in found]
    columns = np.array([(one.error**2 * one.n, one.degrees) for one in own], float)
    learned = zip(*squeezed(*columns.reshape(-1, 2).T), strict=True)
    ratios = [
        noise.judged(replace(one, error=math.sqrt(variance / max(one.n, 1)), degrees=degrees), [])
        for one, (variance, degrees) in zip(own, learned, strict=True)
    ]
    return [replace(both, ratio=one) for both, one in zip(found, ratios, strict=True)]


def _noise(before: Side, now: Side, axes: Sequence[str]) -> Noise:
    """What twins differ by: on the day on which it was more, or the only one of which it is known."""
    days = [noise_of(side.frame, axes, []).twins for side in (before, now)]
    return Noise(twins=max(days, key=lambda day: np.nan_to_num(day.variance, nan=-1.0)))


def runs_since(saved: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """The runs of now that are not among the saved ones."""
    keys = ["host", "cell", "round", "run", "started_at"]
    return now[~pd.MultiIndex.from_frame(now[keys]).isin(pd.MultiIndex.from_frame(saved[keys]))]


def _cells(frame: pd.DataFrame, axes: Sequence[str]) -> dict[tuple[str, ...], dict[Any, Any]]:
    """By its axes' values, each cell of measurements as reduction.by_cell has it, with the logarithms of its
    rounds' times."""
    rounds = by_round(frame, axes, MEAN)
    logs = grouped(rounds.assign(logs=np.log(rounds[DEFAULT])), axes)["logs"].agg(list)
    cells = by_cell(by_round(frame, axes), axes).assign(logs=logs.to_numpy()).to_dict("records")
    return {tuple(cell[axis] for axis in axes): cell for cell in cells}


def _hosts(sides: Sequence[Mapping[Any, Any]]) -> tuple[str, ...]:
    return tuple(sorted({host for side in sides for host in side["hosts"].split()}))


def _withheld(
    meanings: Sequence[Mapping[str, Any]], sides: Sequence[Mapping[Any, Any]], command: str
) -> dict[str, str]:
    """The flags for which two cells of one name, the saved one and that of now, are not compared, each
    with why."""
    found = {}
    if len(hosts := _hosts(sides)) > 1:
        found[HOSTS] = f"{flags.says(HOSTS)} ({', '.join(hosts)})"
    found |= {flag: flags.says(flag) for flag in baselines.differences(*meanings)}
    works = {"saved": sides[0]["work"], baselines.NOW: sides[1]["work"]}
    if refused := samework.refusal(command, works):
        found[refused.flag] = refused.reason
    return found


def make_table(
    baseline: str,
    found: Sequence[ThenAndNow],
    order: Mapping[str, list[str]],
    limits: Limits = USUAL,
) -> pd.DataFrame:
    """The table of a baseline, with the columns of every other: value = 100 x (elapsed(saved) /
    elapsed(now) - 1) of the medians, and the unpaired ratio with its interval."""
    axes = list(order)
    table = tables.frame_of([_row(both, limits) for both in found], axes)
    noise = found[0].noise if found else Noise()
    table = tables.called(table, noise, metric_of(DEFAULT), limits)
    table = in_order(table.assign(baseline=baseline, candidate=baselines.NOW), order, axes)
    return tables.finished(table, baselines.table_name(baseline), axes)


def _row(both: ThenAndNow, limits: Limits) -> dict[str, Any]:
    words = [*tables.own_words([both.flags]), *both.withheld]
    said: dict[str, Any] = {**both.axes, "withheld": "; ".join(both.withheld.values())}
    if both.withheld:
        return said | {"n": 0, "flags": flags.joined(words)}
    ratio = both.ratio
    words += tables.low_n(ratio.n, limits)
    value = 100 * (both.medians[0] / both.medians[1] - 1)
    said |= {"value": value, "flags": flags.joined(words)}
    return said | ratio.statistics()


def notes(baseline: str, before: Side, now: Side, found: Sequence[ThenAndNow]) -> list[str]:
    """What a reader of the table must know, in sentences."""
    said = [
        f"{baseline} was measured from {_day(before.about['first'])} to {_day(before.about['last'])} "
        f"on {', '.join(before.about['hosts'])} with vcsbench {before.about['vcsbench']}.",
        "Its rounds are not paired with those of now: the intervals are Welch's, which are wider, and "
        "what differs between two days (load, what lies below the caches) is in the ratio. What twins "
        "differ by is that of the day on which it was more.",
    ]
    changed = baselines.changes(before.about, now.about)
    if changed:
        said.append(f"What has changed since: {'; '.join(changed)}.")
    else:
        said.append("Of kernel, programs, storage and server configurations nothing has changed.")
    if withheld := sum(bool(both.withheld) for both in found):
        said.append(
            f"{withheld} of {len(found)} cells are not compared, for the reasons given below."
        )
    return said


def _day(stamp: str) -> str:
    return stamp[:16].replace("T", " ")


def definition(tables: Mapping[str, Mapping[str, Any]], baseline: str) -> dict[str, Any]:
    """The table of a baseline as a study's file would define it, laid out as its elapsed times are."""
    alike = [t for t in tables.values() if t.get("metric") == DEFAULT] or [{}]
    return {
        "compare": {"axis": SINCE, "baseline": baseline, "candidates": [baselines.NOW]},
        "rows": alike[0].get("rows", []),
        "columns": alike[0].get("columns", []),
        "published": False,
    }

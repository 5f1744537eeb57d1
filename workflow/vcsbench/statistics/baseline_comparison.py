"""Compare current measurements with saved baselines: a table, and the history of all baselines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.errors import UserError
from vcsbench.evidence import flags, same_work
from vcsbench.evidence.frames import grouped, in_order
from vcsbench.evidence.measurements import read_measurements
from vcsbench.metrics import DEFAULT, metric_of
from vcsbench.statistics import baselines, tables
from vcsbench.statistics.aggregation import MEAN, by_cell, by_round
from vcsbench.statistics.contract import (
    DEFAULT_LIMITS,
    NOT_SHOWN,
    TOO_NOISY,
    Limits,
    is_difference,
)
from vcsbench.statistics.intervals import NO_ESTIMATE, Estimate, ratio_interval, unpaired_ratio
from vcsbench.statistics.multiple_testing import call_table
from vcsbench.statistics.noise import Noise, limits_on_machine, noise_of
from vcsbench.statistics.variance import moderated

# Compared axis of a baseline's table; no study has an axis of this name.
SINCE = "(when)"
# Flags of cells that are not compared.
NOT_SAVED, SAME_RUNS, HOSTS = "not-saved", "same-runs", "hosts-differ"
Key = tuple[str, ...]  # a cell's axis values


@dataclass(frozen=True)
class MeasurementSet:
    """Measurements of a study at a time, with their description (baselines.describe)."""

    name: str
    frame: pd.DataFrame
    description: Mapping[str, Any]


@dataclass(frozen=True)
class CellPair:
    """A current cell and the saved cell of its name.

    `logs` are logarithms of both cells' times by round, `medians` their times. `withheld` maps each flag for
    which they are not compared to its reason. `ratio` is saved / now of unpaired rounds.
    """

    axes: Mapping[str, str]
    logs: tuple[list[float], list[float]] = ([], [])
    medians: tuple[float, float] = (math.nan, math.nan)
    flags: str = ""
    withheld: Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    ratio: Estimate = NO_ESTIMATE
    noise: Noise = field(default_factory=Noise)


def load_baseline(name: str, study: str) -> MeasurementSet:
    """Return a saved study; UserError if it cannot be read or lacks a column."""
    frame = read_measurements(baselines.csv_path(name, study))
    return MeasurementSet(name, frame, baselines.read_description(name, study))


def load_current(study: str, results: Path) -> MeasurementSet:
    """Return the current measurements of a study."""
    frame = read_measurements(results / "measurements" / f"{study}.csv")
    rows: list[dict[Any, Any]] = frame[["cell", "round", "started_at"]].to_dict("records")
    return MeasurementSet(baselines.NOW, frame, baselines.describe(study, rows, results))


def pair_cells(before: MeasurementSet, now: MeasurementSet, axes: Sequence[str]) -> list[CellPair]:
    """Return each current cell with the saved one, from runs after the baseline.

    Runs that the baseline contains would be compared with themselves.
    """
    frames = before.frame, runs_since(before.frame, now.frame), now.frame
    saved, since, current = (_cells(frame, axes) for frame in frames)
    noise = _larger_noise(before, now, axes)
    pairs = []
    for key, cell in current.items():
        where = dict(zip(axes, key, strict=True))
        if not (key in saved and key in since):
            flag = SAME_RUNS if key in saved else NOT_SAVED
            pairs.append(CellPair(where, flags=cell["flags"], withheld={flag: flags.message(flag)}))
            continue
        sides = saved[key], since[key]
        path = "/".join(value or "-" for value in key)
        settings = [side.description["cells"].get(path, {}) for side in (before, now)]
        pairs.append(
            CellPair(
                where,
                logs=(sides[0]["logs"], sides[1]["logs"]),
                medians=(sides[0][DEFAULT], sides[1][DEFAULT]),
                flags=f"{sides[0]['flags']} {sides[1]['flags']}",
                withheld=_withheld(settings, sides, same_work.name_of(where, axes)),
                hosts=_hosts(sides),
                noise=noise,
            )
        )
    return _with_ratios(pairs, noise)


def _with_ratios(pairs: Sequence[CellPair], noise: Noise) -> list[CellPair]:
    """Add the ratios, with errors that are moderated over all of them."""
    own = [unpaired_ratio(*pair.logs) for pair in pairs]
    columns = np.array([(one.error**2 * one.n, one.degrees) for one in own], float)
    variances = zip(*moderated(*columns.reshape(-1, 2).T), strict=True)
    ratios = [
        noise.with_error(
            replace(one, error=math.sqrt(variance / max(one.n, 1)), degrees=degrees), []
        )
        for one, (variance, degrees) in zip(own, variances, strict=True)
    ]
    return [replace(pair, ratio=one) for pair, one in zip(pairs, ratios, strict=True)]


def _larger_noise(before: MeasurementSet, now: MeasurementSet, axes: Sequence[str]) -> Noise:
    """Return the larger variance of duplicates of both days."""
    days = [noise_of(side.frame, axes, []).duplicates for side in (before, now)]
    return Noise(duplicates=max(days, key=lambda day: np.nan_to_num(day.variance, nan=-1.0)))


def runs_since(saved: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """Return the current runs that are not among the saved ones."""
    keys = ["host", "cell", "round", "run", "started_at"]
    return now[~pd.MultiIndex.from_frame(now[keys]).isin(pd.MultiIndex.from_frame(saved[keys]))]


def _cells(frame: pd.DataFrame, axes: Sequence[str]) -> dict[Key, dict[Any, Any]]:
    """Return the rows of by_cell by axis values, with the logarithms of times by round."""
    rounds = by_round(frame, axes, MEAN)
    logs = grouped(rounds.assign(logs=np.log(rounds[DEFAULT])), axes)["logs"].agg(list)
    cells = by_cell(by_round(frame, axes), axes).assign(logs=logs.to_numpy()).to_dict("records")
    return {tuple(cell[axis] for axis in axes): cell for cell in cells}


def _hosts(sides: Sequence[Mapping[Any, Any]]) -> tuple[str, ...]:
    return tuple(sorted({host for side in sides for host in side["hosts"].split()}))


def _withheld(
    settings: Sequence[Mapping[str, Any]], sides: Sequence[Mapping[Any, Any]], command: str
) -> dict[str, str]:
    """Return the flags that exclude a pair of cells, with reasons."""
    withheld = {}
    if len(hosts := _hosts(sides)) > 1:
        withheld[HOSTS] = f"{flags.message(HOSTS)} ({', '.join(hosts)})"
    withheld |= {flag: flags.message(flag) for flag in baselines.differences(*settings)}
    works = {"saved": sides[0]["work"], baselines.NOW: sides[1]["work"]}
    if refused := same_work.refusal(command, works):
        withheld[refused.flag] = refused.reason
    return withheld


def baseline_table(
    baseline: str,
    pairs: Sequence[CellPair],
    order: Mapping[str, list[str]],
    limits: Limits = DEFAULT_LIMITS,
) -> pd.DataFrame:
    """Return the table of a baseline, with the columns of every table.

    value = 100 x (elapsed(saved) / elapsed(now) - 1) of medians; the ratio is unpaired.
    """
    axes = list(order)
    table = tables.rows_frame([_row(pair, limits) for pair in pairs], axes)
    noise = pairs[0].noise if pairs else Noise()
    table = call_table(table, noise, metric_of(DEFAULT), limits)
    table = in_order(table.assign(baseline=baseline, candidate=baselines.NOW), order, axes)
    return tables.finish_table(table, baselines.table_name(baseline), axes)


def _row(pair: CellPair, limits: Limits) -> dict[str, Any]:
    words = [*tables.own_flags([pair.flags]), *pair.withheld]
    row: dict[str, Any] = {**pair.axes, "withheld": "; ".join(pair.withheld.values())}
    if pair.withheld:
        return row | {"n": 0, "flags": flags.joined(words)}
    words += tables.low_n(pair.ratio.n, limits)
    value = 100 * (pair.medians[0] / pair.medians[1] - 1)
    return row | {"value": value, "flags": flags.joined(words)} | pair.ratio.statistics()


def baseline_notes(
    before: MeasurementSet, now: MeasurementSet, pairs: Sequence[CellPair]
) -> list[str]:
    """Return sentences for readers of a baseline's table."""
    then = before.description
    notes = [
        f"{before.name} was measured from {_day(then['first'])} to {_day(then['last'])} "
        f"on {', '.join(then['hosts'])} with vcsbench {then['vcsbench']}.",
        "Its rounds are not paired with the current ones: the intervals are Welch's, which are wider, and "
        "contain what changed between two days (load, storage). The duplicates of the noisier day count.",
    ]
    if changed := baselines.changes(then, now.description):
        notes.append(f"Changed since: {'; '.join(changed)}.")
    else:
        notes.append("Kernel, programs, storage and server configurations are unchanged.")
    if withheld := sum(bool(pair.withheld) for pair in pairs):
        notes.append(f"{withheld} of {len(pairs)} cells are not compared, for the reasons below.")
    return notes


def _day(stamp: str) -> str:
    return stamp[:16].replace("T", " ")


def table_definition(definitions: Mapping[str, Mapping[str, Any]], baseline: str) -> dict[str, Any]:
    """Return the definition of a baseline's table, with the layout of the study's elapsed times."""
    elapsed = [t for t in definitions.values() if t.get("metric") == DEFAULT] or [{}]
    return {
        "compare": {"axis": SINCE, "baseline": baseline, "candidates": [baselines.NOW]},
        "rows": elapsed[0].get("rows", []),
        "columns": elapsed[0].get("columns", []),
        "published": False,
    }


def history(
    names: Sequence[str],
    study: str,
    results: Path,
    order: Mapping[str, list[str]],
    block: Sequence[str],
    limits: Limits,
) -> dict[str, Any]:
    """Return the history of a study: `times`, `points`, and `unread` (a sentence per unreadable baseline).

    `times` has the baselines by date, and `now` if runs were added: name, first and last run, hosts,
    vcsbench, before (the time it is compared with), compared (cells), calls (counts) and changed. `points`
    has a record per cell and time: time, host, axes, value, low and high in seconds, call, ratio with its
    interval, and line (numbers of one line are comparable). A call compares with the time before on the
    same host.
    """
    snapshots, unread = _read(names, study, results)
    axes = list(order)
    times: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    lines: dict[Key, int] = {}
    for number, snapshot in enumerate(snapshots):
        before = _before(snapshot, snapshots[:number])
        pairs = pair_cells(before, snapshot, axes) if before else []
        rows: dict[Key, dict[Any, Any]] = {}
        if before:
            here = limits_on_machine(limits, snapshot.frame, block)
            table = baseline_table(before.name, pairs, order, here)
            records = table[table["call"] != ""].to_dict("records")
            rows = {tuple(row[axis] for axis in axes): row for row in records}
        for pair in pairs:
            # A cell on another host, or with other settings or work, starts a new line.
            if pair.withheld.keys() - {SAME_RUNS}:
                key = tuple(pair.axes[axis] for axis in axes)
                lines[key] = lines.get(key, 0) + 1
        points += _points(snapshot, axes, rows, lines)
        times.append(_time(snapshot, before, [row["call"] for row in rows.values()]))
    return {"times": times, "points": points if len(times) > 1 else [], "unread": unread}


def _read(
    names: Sequence[str], study: str, results: Path
) -> tuple[list[MeasurementSet], list[str]]:
    """Return the baselines by date, then the current results if they are newer; and errors."""
    snapshots, unread = [], []
    for name in names:
        try:
            snapshots.append(load_baseline(name, study))
        except UserError as error:
            unread.append(str(error))
    snapshots.sort(key=lambda snapshot: (snapshot.description["first"], snapshot.name))
    now = load_current(study, results)
    if not snapshots or not runs_since(snapshots[-1].frame, now.frame).empty:
        snapshots.append(now)
    return snapshots, unread


def _before(snapshot: MeasurementSet, earlier: Sequence[MeasurementSet]) -> MeasurementSet | None:
    """Return the latest earlier snapshot of the same host."""
    hosts = snapshot.description["hosts"].keys()
    return next((s for s in reversed(earlier) if hosts & s.description["hosts"].keys()), None)


def _points(
    snapshot: MeasurementSet,
    axes: Sequence[str],
    rows: Mapping[Key, Mapping[Any, Any]],
    lines: Mapping[Key, int],
) -> list[dict[str, Any]]:
    """Return a record per cell and host: geometric means over rounds."""
    rounds = by_round(snapshot.frame, axes, MEAN)
    rounds = rounds.assign(log=np.log(rounds[DEFAULT]))
    points = []
    for (*key, host), logs in grouped(rounds, [*axes, "host"])["log"]:
        mean, row = ratio_interval(logs), rows.get(tuple(key), {})
        points.append(
            {
                "time": snapshot.name,
                "host": host,
                "line": lines.get(tuple(key), 0),
                **dict(zip(axes, key, strict=True)),
                "value": mean.value,
                **{bound: _number(getattr(mean, bound)) for bound in ("low", "high")},
                "call": row.get("call", ""),
                "ratio": {n: _number(row[n]) for n in ("ratio", "low", "high")} if row else {},
            }
        )
    return points


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _time(
    snapshot: MeasurementSet, before: MeasurementSet | None, calls: Sequence[str]
) -> dict[str, Any]:
    description = snapshot.description
    words = [call for call in dict.fromkeys(calls) if is_difference(call)]
    return {
        "name": snapshot.name,
        "first": description["first"],
        "last": description["last"],
        "vcsbench": description["vcsbench"],
        "hosts": list(description["hosts"]),
        "before": before.name if before else "",
        "compared": len(calls),
        "calls": {word: calls.count(word) for word in [*sorted(words), NOT_SHOWN, TOO_NOISY]},
        "changed": baselines.changes(before.description, description) if before else [],
    }

"""Compare current measurements with saved baselines: a table, and the history of all baselines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from vcsbench.errors import UserError
from vcsbench.evidence import flags, same_work
from vcsbench.evidence.measurements import group_rows, in_order, read_measurements
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
from vcsbench.statistics.estimates import (
    NO_ESTIMATE,
    Estimate,
    moderated,
    ratio_interval,
    unpaired_ratio,
)
from vcsbench.statistics.multiple_testing import call_table
from vcsbench.statistics.noise import Noise, noise_of, run_scatter

if TYPE_CHECKING:
    from vcsbench.config.study import TableDefinition
    from vcsbench.statistics.baselines import CellSettings, Description

SINCE = "(when)"
NOT_SAVED, SAME_RUNS, HOSTS = "not-saved", "same-runs", "hosts-differ"
SETTINGS = {"other-command": "command", "other-repository": "repository", "other-method": "method"}
Key = tuple[str, ...]


@dataclass(frozen=True)
class MeasurementSet:
    """Measurements of a study at a time."""

    name: str
    frame: pd.DataFrame
    description: Description


class CellResult(NamedTuple):
    """A measured cell: its time, the logarithms of its times by round, hosts, flags and work."""

    elapsed_s: float
    logs: list[float]
    hosts: str
    flags: str
    work: str


@dataclass(frozen=True)
class CellPair:
    """A current cell and the saved cell of its name.

    `logs` are logarithms of both cells' times by round, `medians` their times. `withheld` maps each
    flag for which they are not compared to its reason. `ratio` is saved / now of unpaired rounds.
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
    frame = read_measurements(baselines.csv_path(name, study))
    return MeasurementSet(name, frame, baselines.read_description(name, study))


def load_current(study: str, results: Path) -> MeasurementSet:
    frame = read_measurements(results / "measurements" / f"{study}.csv")
    rounds = zip(frame["cell"], frame["round"].astype(int), frame["started_at"], strict=True)
    return MeasurementSet(baselines.NOW, frame, baselines.describe_baseline(study, rounds, results))


def pair_cells(before: MeasurementSet, now: MeasurementSet, axes: Sequence[str]) -> list[CellPair]:
    """Leave out runs that the baseline contains: they would be compared with themselves."""
    frames = before.frame, runs_since(before.frame, now.frame), now.frame
    saved, since, current = (_cells(frame, axes) for frame in frames)
    days = [noise_of(side.frame, axes, []).duplicates for side in (before, now)]
    noise = Noise(duplicates=max(days, key=lambda day: np.nan_to_num(day.variance, nan=-1.0)))
    pairs = []
    for key, cell in current.items():
        where = dict(zip(axes, key, strict=True))
        if not (key in saved and key in since):
            flag = SAME_RUNS if key in saved else NOT_SAVED
            pairs.append(
                CellPair(where, flags=cell.flags, withheld={flag: flags.flag_message(flag)})
            )
            continue
        old, new = saved[key], since[key]
        path = "/".join(value or "-" for value in key)
        settings = [side.description["cells"].get(path) for side in (before, now)]
        pairs.append(
            CellPair(
                where,
                logs=(old.logs, new.logs),
                medians=(old.elapsed_s, new.elapsed_s),
                flags=f"{old.flags} {new.flags}",
                withheld=_withheld(settings, (old, new), same_work.name_of(where, axes)),
                hosts=_hosts(old, new),
                noise=noise,
            )
        )
    ratios = [unpaired_ratio(*pair.logs) for pair in pairs]
    columns = np.array([(ratio.error**2 * ratio.n, ratio.degrees) for ratio in ratios], float)
    variances = zip(*moderated(*columns.reshape(-1, 2).T), strict=True)
    compared = []
    for pair, ratio, (variance, degrees) in zip(pairs, ratios, variances, strict=True):
        error = math.sqrt(variance / max(ratio.n, 1))
        ratio = noise.with_error(replace(ratio, error=error, degrees=degrees), [])
        compared.append(replace(pair, ratio=ratio))
    return compared


def runs_since(saved: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    keys = ["host", "cell", "round", "run", "started_at"]
    return now[~pd.MultiIndex.from_frame(now[keys]).isin(pd.MultiIndex.from_frame(saved[keys]))]


def _cells(frame: pd.DataFrame, axes: Sequence[str]) -> dict[Key, CellResult]:
    rounds = by_round(frame, axes, MEAN)
    logs = group_rows(rounds.assign(logs=np.log(rounds[DEFAULT])), axes)["logs"].agg(list)
    cells = by_cell(by_round(frame, axes), axes)
    results = map(CellResult, cells[DEFAULT], logs, cells["hosts"], cells["flags"], cells["work"])
    return dict(zip(map(tuple, cells[[*axes]].to_numpy()), results, strict=True))


def _hosts(*sides: CellResult) -> tuple[str, ...]:
    return tuple(sorted({host for side in sides for host in side.hosts.split()}))


def _withheld(
    settings: Sequence[CellSettings | None], sides: Sequence[CellResult], command: str
) -> dict[str, str]:
    withheld = {}
    if len(hosts := _hosts(*sides)) > 1:
        withheld[HOSTS] = f"{flags.flag_message(HOSTS)} ({', '.join(hosts)})"
    before, now = (dict(side or {}) for side in settings)
    for flag, key in SETTINGS.items():
        if before.get(key) != now.get(key):
            withheld[flag] = flags.flag_message(flag)
    works = {"saved": sides[0].work, baselines.NOW: sides[1].work}
    if refused := same_work.refusal(command, works):
        withheld[refused.flag] = refused.reason
    return withheld


def baseline_table(
    baseline: str,
    pairs: Sequence[CellPair],
    order: Mapping[str, list[str]],
    limits: Limits = DEFAULT_LIMITS,
) -> pd.DataFrame:
    """Return the value 100 x (elapsed(saved) / elapsed(now) - 1) of medians; the ratio is unpaired."""
    axes = list(order)
    table = tables.rows_frame([_row(pair, limits) for pair in pairs], axes)
    noise = pairs[0].noise if pairs else Noise()
    table = call_table(table, noise, metric_of(DEFAULT), limits)
    table = in_order(table.assign(baseline=baseline, candidate=baselines.NOW), order, axes)
    return tables.finish_table(table, baselines.table_name(baseline), axes)


def _row(pair: CellPair, limits: Limits) -> dict[str, object]:
    words = [*tables.own_flags([pair.flags]), *pair.withheld]
    row: dict[str, object] = {**pair.axes, "withheld": "; ".join(pair.withheld.values())}
    if pair.withheld:
        return row | {"n": 0, "flags": flags.joined(words)}
    words += tables.low_n(pair.ratio.n, limits)
    value = 100 * (pair.medians[0] / pair.medians[1] - 1)
    return row | {"value": value, "flags": flags.joined(words)} | tables.ratio_columns(pair.ratio)


def baseline_notes(
    before: MeasurementSet, now: MeasurementSet, pairs: Sequence[CellPair]
) -> list[str]:
    then = before.description
    first, last = (then[key][:16].replace("T", " ") for key in ("first", "last"))
    notes = [
        f"{before.name} was measured from {first} to {last} "
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


def table_definition(definitions: Mapping[str, TableDefinition], baseline: str) -> TableDefinition:
    no_table: TableDefinition = {}
    elapsed = [t for t in definitions.values() if t.get("metric") == DEFAULT] or [no_table]
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
) -> dict[str, list[Any]]:
    """Return the history of a study: baselines by date, and the current results if runs were added.

    `times` has a record per baseline: `before` is the latest earlier one of the same host, `compared` the
    number of cells with a call, `calls` counts them, `changed` has the changed conditions. `points` has a
    record per cell and time: value, low and high in seconds, the call against the time before, its ratio, and
    line (numbers of one line are comparable). `unread` has a sentence per unreadable baseline.
    """
    snapshots: list[MeasurementSet] = []
    unread = []
    for name in names:
        try:
            snapshots.append(load_baseline(name, study))
        except UserError as error:
            unread.append(str(error))
    snapshots.sort(key=lambda snapshot: (snapshot.description["first"], snapshot.name))
    current = load_current(study, results)
    if not snapshots or not runs_since(snapshots[-1].frame, current.frame).empty:
        snapshots.append(current)
    axes = list(order)
    times, points = [], []
    lines: Counter[Key] = Counter()
    for number, snapshot in enumerate(snapshots):
        hosts = snapshot.description["hosts"].keys()
        earlier = reversed(snapshots[:number])
        before = next((s for s in earlier if hosts & s.description["hosts"].keys()), None)
        pairs = pair_cells(before, snapshot, axes) if before else []
        calls: dict[Key, Mapping[Any, Any]] = {}
        if before:
            here = limits.on_machine(run_scatter(snapshot.frame, block))
            table = baseline_table(before.name, pairs, order, here)
            called = table[table["call"] != ""].to_dict("records")
            calls = {tuple(row[axis] for axis in axes): row for row in called}
        for pair in pairs:
            if pair.withheld.keys() - {SAME_RUNS}:
                lines[tuple(pair.axes[axis] for axis in axes)] += 1
        points += _points(snapshot, axes, calls, lines)
        description, words = snapshot.description, [row["call"] for row in calls.values()]
        different = sorted(filter(is_difference, {*words}))
        times.append(
            {
                **{key: description[key] for key in ("first", "last", "vcsbench")},
                "name": snapshot.name,
                "hosts": list(description["hosts"]),
                "before": before.name if before else "",
                "compared": len(words),
                "calls": {word: words.count(word) for word in [*different, NOT_SHOWN, TOO_NOISY]},
                "changed": baselines.changes(before.description, description) if before else [],
            }
        )
    return {"times": times, "points": points if len(times) > 1 else [], "unread": unread}


def _points(
    snapshot: MeasurementSet,
    axes: Sequence[str],
    calls: Mapping[Key, Mapping[Any, Any]],
    lines: Counter[Key],
) -> list[dict[str, object]]:
    rounds = by_round(snapshot.frame, axes, MEAN)
    rounds = rounds.assign(log=np.log(rounds[DEFAULT]))
    points = []
    for (*key, host), logs in group_rows(rounds, [*axes, "host"])["log"]:
        mean, call = ratio_interval(logs), calls.get(tuple(key), {})
        points.append(
            {
                "time": snapshot.name,
                "host": host,
                "line": lines[tuple(key)],
                **dict(zip(axes, key, strict=True)),
                "value": mean.value,
                "low": _number(mean.low),
                "high": _number(mean.high),
                "call": call.get("call", ""),
                "ratio": {k: _number(call[k]) for k in ("ratio", "low", "high") if k in call},
            }
        )
    return points


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

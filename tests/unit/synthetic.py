"""Synthetic results of a study with known ratios, in the files of a run."""

import csv
import json
import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from vcsbench.axes.cache_states import STATES
from vcsbench.evidence.collection import Collected, collect
from vcsbench.evidence.measurements import read_grid, read_measurements, write_frame
from vcsbench.result_paths import CellRound

AXES: dict[str, list[str]] = {
    "command": ["log", "export"],
    "access": ["http", "svn", "file"],
    "repo": ["ruby"],
    "format": ["f6", "f7"],
    "packing": ["nopack", "pack"],
    "config": ["slow", "fast"],
    "cache": ["cold", "hot-os", "hot-server"],
}

# Seconds of a command whose factors are all 1; `dump` has no ra.
SECONDS = {"log": 1.0, "null-log": 0.8, "export": 2.0, "null-export": 1.5, "dump": 3.0}
# The work of each cell by default.
SAME_WORK: dict[str, Any] = {"revisions": 6000, "digest": "0123456789abcdef"}
WORK = json.dumps(SAME_WORK)
WITHOUT: dict[str, tuple[str, ...]] = {"dump": ("access",)}

# Factors of axis values on the time, so that all ratios are known.
FACTORS: dict[str, dict[str, float]] = {
    "access": {"svn": 0.8, "file": 0.6},
    "format": {"f7": 0.5},
    "packing": {"pack": 0.8},
    "config": {"fast": 0.9},
    "cache": {"cold": 3.0, "hot-server": 0.8},
}


@dataclass(frozen=True)
class SyntheticStudy:
    """A synthetic study in the folder `results`, with its cells that are not skipped."""

    name: str
    results: Path
    axes: dict[str, list[str]]
    rounds: int
    cells: list[str]

    @property
    def grid(self) -> Path:
        return self.results / "grid" / f"{self.name}.csv"

    @property
    def exports(self) -> list[str]:
        """Return the expected exports of all cells and rounds, in the order of the grid."""
        numbers = range(1, self.rounds + 1)
        return [str(self.export(cell, number)) for cell in self.cells for number in numbers]

    def export(self, cell: str, number: int) -> Path:
        return self.results / "cells" / self.name / cell / f"round{number}.json"

    def context(self, cell: str, number: int) -> Path:
        return self.export(cell, number).with_name(f"round{number}.context.json")

    def collected(self, rounds: int = 0) -> Collected:
        axes, grid = read_grid(self.grid)
        exports = [path for path in self.exports if Path(path).exists()]
        found = [CellRound.parse(path) for path in exports]
        expected = {cell["cell"]: rounds or self.rounds for cell in grid}
        return collect(self.name, axes, grid, expected, found, folder=str(self.results))

    @property
    def measurements(self) -> Path:
        return self.results / "measurements" / f"{self.name}.csv"

    def frame(self) -> pd.DataFrame:
        """Write the measurements, and return them as they are read again."""
        self.measurements.parent.mkdir(exist_ok=True)
        write_frame(self.collected().measurements, self.measurements)
        return read_measurements(self.measurements)


def rows_frame(rows: Iterable[Mapping[str, Any]], **columns: Any) -> pd.DataFrame:
    """Return measurements of rows with the columns that tables need."""
    usual = {"user_s": 0.1, "system_s": 0.1, "host": "here", "flags": "", "work": WORK}
    return pd.DataFrame(rows).assign(**{**usual, **columns})


def finding(**changes: Any) -> dict[str, Any]:
    """Return a finding: the log takes about half the time with f7."""
    return {
        "id": "f7-log",
        "statement": "Format 7 is about twice as fast for the log.",
        "where": {"command": "log"},
        "compare": {"axis": "format", "baseline": "f6", "candidate": "f7"},
        "expect": {"over": "mean", "at_least": 1.8, "at_most": 2.2},
    } | changes


def level(
    metric: str, over: str, where: Mapping[str, Any] | None = None, **bounds: float
) -> dict[str, Any]:
    """Return a finding on the level of a metric, by default of the log."""
    where = {"command": "log"} if where is None else where
    expect = {"over": over, **bounds}
    return {"id": "level", "statement": "", "level": metric, "where": where, "expect": expect}


def make_study(
    root: Path,
    *,
    name: str = "fsfs-san-2014",
    axes: Mapping[str, list[str]] | None = None,
    factors: Mapping[str, Mapping[str, float]] | None = None,
    seconds: Callable[[dict[str, str]], float] | None = None,
    rounds: int = 5,
    runs: int = 1,
    noise: float = 0.01,
    drift: float = 0.05,
    schema: int = 2,
    host: Callable[[int], str] = lambda number: "workstation",
    skip: Callable[[dict[str, str]], str] = lambda axes: "",
    flags: Callable[[dict[str, str], int], list[str]] = lambda axes, number: [],
    work: Callable[[dict[str, str], int], dict[str, Any]] = lambda axes, number: SAME_WORK,
    counts: Callable[[dict[str, str], int], dict[str, Any]] = lambda axes, number: {},
    failed: Collection[tuple[str, int]] = (),
    seed: int = 1,
    twins: int = 0,
) -> SyntheticStudy:
    """Write `root`/results/{grid,cells,logs}.

    A cell takes SECONDS[command] times the product of `factors`, or `seconds` of its axes. Each run is
    multiplied by exp(N(0, noise)), and each round by exp(-drift * (round - 1)) for all cells, so paired
    ratios have no drift. User and system time are 50 % and 10 % of elapsed. `schema` 1 is the export
    of hyperfine 1.15. Functions of a cell return its reason to `skip`; of a cell and round its `flags`,
    `work` and further `counts`. `failed` cell-rounds have a log only. `twins` cells of each class have a
    duplicate.
    """
    values = {**AXES} if axes is None else dict(axes)
    numbers = random.Random(seed)
    scale = FACTORS if factors is None else factors
    rows = _with_twins([(cell, point, skip(point)) for cell, point in _points(values)], twins)
    measured = [(cell, point) for cell, point, why in rows if not why]
    study = SyntheticStudy(name, root / "results", values, rounds, [cell for cell, _ in measured])
    study.grid.parent.mkdir(parents=True, exist_ok=True)
    with study.grid.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["cell", *values, "skip"])
        writer.writerows([cell, *point.values(), why] for cell, point, why in rows)
    for number in range(1, rounds + 1):
        for cell, point in measured:
            if (cell, number) in failed:
                log = study.results / "logs/cells" / study.name / cell / f"round{number}.log"
                log.parent.mkdir(parents=True, exist_ok=True)
                log.write_text("starting svnserve\nsvnserve did not answer within 10 s.\n")
                continue
            level = (seconds or (lambda axes: known_seconds(axes, scale)))(point)
            level *= math.exp(-drift * (number - 1))
            times = [level * math.exp(numbers.gauss(0, noise)) for _ in range(runs)]
            _write_json(study.export(cell, number), _export(times, schema))
            context = _context(study, cell, point, number, host(number), flags(point, number), runs)
            for run, elapsed in zip(context["runs"], times, strict=True):
                more = {"window_s": elapsed + 0.003, **counts(point, number)}
                run["evidence"] |= more
                run["work"] = work(point, number)
            _write_json(study.context(cell, number), context)
    return study


def _with_twins(
    rows: list[tuple[str, dict[str, str], str]], per_class: int
) -> list[tuple[str, dict[str, str], str]]:
    """Add duplicates (`~2`) of the first cells of each class."""
    seen: dict[tuple[str, ...], int] = {}
    out = []
    for cell, point, why in rows:
        out.append((cell, point, why))
        key = tuple(point.get(axis, "") for axis in ("command", "cache", "access"))
        if not why and seen.setdefault(key, 0) < per_class:
            seen[key] += 1
            out.append((f"{cell}~2", point, why))
    return out


def known_seconds(
    axes: Mapping[str, str], factors: Mapping[str, Mapping[str, float]] = FACTORS
) -> float:
    """Return the time of a cell without noise and drift."""
    factor = math.prod(factors.get(axis, {}).get(value, 1.0) for axis, value in axes.items())
    return SECONDS.get(axes.get("command", ""), 1.0) * factor


def _points(axes: Mapping[str, list[str]]) -> list[tuple[str, dict[str, str]]]:
    points: dict[str, dict[str, str]] = {}
    for combination in product(*axes.values()):
        point = dict(zip(axes, combination, strict=True))
        without = WITHOUT.get(point.get("command", ""), ())
        point = {axis: "" if axis in without else value for axis, value in point.items()}
        points.setdefault("/".join(value or "-" for value in point.values()), point)
    return list(points.items())


def _write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def _export(times: list[float], schema: int) -> dict[str, Any]:
    if schema == 1:
        mean, codes = sum(times) / len(times), [0] * len(times)
        result = {"times": times, "user": 0.5 * mean, "system": 0.1 * mean, "exit_codes": codes}
        return {"results": [result]}
    measured = [
        {
            "time_wall_clock": {"value": elapsed, "unit": "second"},
            "time_user": {"value": 0.5 * elapsed, "unit": "second"},
            "time_system": {"value": 0.1 * elapsed, "unit": "second"},
            "memory_peak_resident": {"value": 12e6, "unit": "byte"},
            "exit_code": 0,
        }
        for elapsed in times
    ]
    return {"schema_version": 2, "results": [{"measurements": measured}]}


HOST = {"kernel": "6.1.0", "cpu": "A processor", "cores": 2, "memory_bytes": 4 << 30}
HOST |= {"virtualized": "", "clock_source": "tsc"}


def _context(
    study: SyntheticStudy,
    cell: str,
    axes: dict[str, str],
    number: int,
    host: str,
    flags: list[str],
    runs: int,
) -> dict[str, Any]:
    order = (number - 1) * len(study.cells) + study.cells.index(cell)
    served, cold = axes.get("access") in ("svn", "http"), axes.get("cache") == "cold"
    is_invalid = "cache-not-cold" in flags
    # An invalid hot run reads from the device.
    read_bytes = 1 << 20 if cold else 1 << 30 if is_invalid else 0
    evidence = {
        "cache_cleared_by": "drop_caches" if cold else "",
        "resident_before": (0.9 if is_invalid else 0.01) if cold else None,
        "resident_after": 0.9,
        "device_read_bytes": 1 << 20 if cold else 0,
        "client_read_bytes": read_bytes,
        "window_s": 1.0,
        "swapped_in_pages": 0,
        "steal_pct": 0.1,
        "server_cpu_s": 0.2 if served else None,
    }
    promises = STATES[axes.get("cache", "")].steps["promises"]
    kind = {"svn": "svnserve", "http": "httpd"}.get(axes.get("access", ""), "")
    return {
        "study": study.name,
        "cell": cell,
        "axes": axes,
        "round": number,
        "copy": (number - 1) % 3 + 1,
        "order": order,
        "seed": 1,
        "started_at": f"2026-11-21T{7 + order // 3600:02}:{order // 60 % 60:02}:{order % 60:02}Z",
        "argv": ["/usr/bin/svn", axes.get("command", ""), "file:///somewhere"],
        "argv_template": "{svn} {url}",
        "hooks": {"setup": [], "prepare": ["clear-caches"], "cleanup": []},
        "warmup": 0,
        "server": {"kind": kind, "argv": [kind], "pid": 123, "port": 4711} if served else None,
        "host": {"name": host, **HOST},
        "storage": {"name": "disk", "path": "/var/tmp", "filesystem": "ext4", "rotational": False},
        "versions": {"svn": "1.14.2", "hyperfine": "2.0.0", "vcsbench": "0.1.0"},
        "repository": {
            "name": axes.get("repo", ""),
            "source": "generated",
            "scale": 0.1304,
            "youngest": 6000,
            "packed_shards": 6 if axes.get("packing") == "pack" else 0,
        },
        "runs": [
            {"run": i + 1, "evidence": {**evidence}, "promises": promises, "flags": flags}
            for i in range(runs)
        ],
        "flags": [],
    }

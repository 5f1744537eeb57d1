"""Timed seconds of the wall seconds of measuring, for cold and for hot cells of the default configuration.

usage: python benchmarks/efficiency.py [ROUNDS]
Makes a small project of its own below /var/tmp with the default's repository, in one copy and two variants,
and measures the default's cells of these, cold ones and hot ones apart. The wall seconds are those of all
cell-rounds and, as often, the median of what lies between two (the start of a job and of Python): so nobody
else's measurement on this machine is counted. The first round discards cold runs, as a whole run does.
"""

from __future__ import annotations

import datetime
import json
import sys
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from rows import ROOT, Row, run, show

sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "workflow")]

from project import Project, make_project, measurements_of  # noqa: E402
from vcsbench.config.validation import read_yaml  # noqa: E402
from vcsbench.evidence import hyperfine_export  # noqa: E402

STUDY = "fsfs-san-2014"
LEAST = 0.5
GRID: list[dict[str, Any]] = read_yaml(ROOT / "config" / "config.yaml")["grid"][STUDY]["include"]
CELLS = {
    "cold": [part for part in GRID if part["cache"] == "cold"],
    "hot": [part for part in GRID if part["cache"] != "cold"],
}
VARIANTS = [{"format": "f6", "packing": "nopack"}, {"format": "f7", "packing": "pack"}]


def measure(project: Project, cells: list[dict[str, Any]], rounds: int) -> tuple[float, float]:
    """Measure cells; timed seconds, and wall seconds."""
    grid = {STUDY: {"include": [cell | variant for cell in cells for variant in VARIANTS]}}
    project.configure(rounds=rounds, copies=1, runs="auto", grid=grid)
    run(project.command("results/repositories/disk.json"), project.path)  # prepares
    before = project.exports()
    run(project.command(measurements_of(STUDY)), project.path)
    folder = project.path / "results" / "cells"
    exports = [folder / name for name in project.exports().keys() - before.keys()]
    timed = sum(one.elapsed_s for path in exports for one in hyperfine_export.read(path))
    spans = sorted((began(path), path.stat().st_mtime) for path in exports)
    between = median(after[0] - one[1] for one, after in pairwise(spans))
    return timed, sum(end - start + between for start, end in spans)


def began(export: Path) -> float:
    """When a cell-round began, in seconds since the epoch."""
    context = json.loads(export.with_suffix(".context.json").read_text())
    return datetime.datetime.fromisoformat(context["started_at"]).timestamp()


def main(rounds: int) -> None:
    """Measure, and print the rows of a table."""
    with contextmanager(make_project)() as project:
        found = {name: measure(project, cells, rounds) for name, cells in CELLS.items()}
    found["all"] = (sum(t for t, _ in found.values()), sum(w for _, w in found.values()))
    show(
        Row(
            f"{name} cells: timed of wall seconds (more is better)",
            timed / wall,
            LEAST,
            "",
            "at least",
        )
        for name, (timed, wall) in found.items()
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)

"""Fake the results of a whole run: each cell-round is derived from one measured cell-round.

A run leaves an export and a context for each cell-round. Only their times are made up.
"""

from __future__ import annotations

import copy
import json
import math
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from rows import ROOT, run

sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "workflow")]


from project import Project, make_project  # noqa: E402
from vcsbench.config.configuration import read_configuration  # noqa: E402
from vcsbench.files import write_json  # noqa: E402
from vcsbench.plan.plan import Plan  # noqa: E402
from vcsbench.run.project import Project as Workflow  # noqa: E402

STUDY = "fsfs-san-2014"
# Just over a shard, so that there is something to pack, and no packed cell is skipped.
SMALL = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.0222, "seed": 1}}
MEASURED = "log/svn/ruby/f7/nopack/slow/hot-server"
# 4 commands x 3 accesses x 3 formats x 2 packings x 7 pairs of configuration and cache: 504 cells.
PART = {"command": ["log", "null-log", "export", "null-export"], "format": ["f6", "f7", "f8"]}
GRID = {
    STUDY: {
        "include": [
            {**PART, "config": ["slow", "medium"]},
            {**PART, "config": "fast", "cache": "hot-server"},
        ]
    }
}
# So that tables, findings and advice have differences to show.
FACTORS = {"f7": 0.5, "f8": 0.6, "pack": 0.8, "fast": 0.9, "cold": 3.0, "file": 0.6, "svn": 0.8}


@contextmanager
def faked_project(rounds: int) -> Iterator[tuple[Project, int]]:
    """Yield a project of GRID on SMALL with results of all cell-rounds, and the number of these."""
    # Loaded in RAM, as by default. On a disk, that takes a minute.
    scratch = tempfile.TemporaryDirectory(prefix="vcsbench-", dir="/dev/shm")
    with contextmanager(make_project)() as project, scratch as folder:
        project.configure(repositories=SMALL, rounds=rounds, copies=1, grid=GRID, scratch=folder)
        yield project, make_results(project)


def make_results(project: Project) -> int:
    """Write the missing results of the project's configuration, and return the number of cell-rounds.

    One is measured. Snakemake has no record of the others.
    """
    cells = project.path / "results" / "cells" / STUDY
    export, context = (cells / MEASURED / f"round1{end}.json" for end in ("", ".context"))
    if not export.exists():
        target = str(export.relative_to(project.path))
        run(project.command(target, f"results/grid/{STUDY}.csv"), project.path)
    with chdir(project.path):
        plan = _plan(project)
        measured = json.loads(export.read_text()), json.loads(context.read_text())
        numbers = random.Random(1)
        for (study, path, number), order in plan.order.items():
            stem = cells / path / f"round{number}"
            if not stem.with_suffix(".json").exists():
                faked = _derive(*measured, plan.by_path[study, path].axes, numbers)
                faked[1].update(cell=path, round=number, order=order)
                faked[1]["recipe_digest"] = plan.digest(study, path)
                stem.parent.mkdir(parents=True, exist_ok=True)
                write(stem, *faked)
    return len(plan.order)


def write(stem: Path, export: dict[str, Any], context: dict[str, Any]) -> None:
    """Write both files of a cell-round."""
    write_json(stem.with_suffix(".json"), export)
    write_json(stem.with_suffix(".context.json"), context)


def _derive(
    export: dict[str, Any], context: dict[str, Any], axes: dict[str, str], numbers: random.Random
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an export and a context like the measured ones, of a cell with these axes."""
    factor = math.prod(FACTORS.get(value, 1.0) for value in axes.values())
    factor *= math.exp(numbers.gauss(0, 0.02))
    export, context = copy.deepcopy(export), copy.deepcopy(context)
    result = export["results"][0]
    for key in ("mean", "median", "min", "max", "user", "system"):
        if isinstance(result.get(key), float):
            result[key] *= factor
    result["times"] = [time * factor for time in result.get("times", [])]
    for timed in result.get("measurements", []):
        for key in ("time_wall_clock", "time_user", "time_system"):
            timed[key]["value"] *= factor
    context["axes"] = axes
    if axes["access"] == "file":
        context["server"] = None
    return export, context


def _plan(project: Project) -> Plan:
    """Return the plan of the project's configuration."""
    files = [project.path / "config" / "config.yaml", project.config]
    config = read_configuration(files, {})
    return Workflow(config, project.path, files).plan

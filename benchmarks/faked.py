"""A whole run's results without the hours that it takes: derived from one cell-round that is measured.

What Snakemake and the rules behind the cells read is what a run leaves: an export and a context for each
cell-round, and Snakemake's own records of them. Only the times are made up.
"""

from __future__ import annotations

import copy
import hashlib
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
from vcsbench.config.configuration import merge  # noqa: E402
from vcsbench.config.validation import read_yaml  # noqa: E402
from vcsbench.plan.plan import Plan  # noqa: E402
from vcsbench.run.project import Project as Workflow  # noqa: E402

STUDY = "fsfs-san-2014"
# Just over a shard, so that there is something to pack, and no packed cell is skipped.
SMALL = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.0222, "seed": 1}}
MEASURED = "log/svn/ruby/f7/nopack/slow/hot-svn"
# 4 commands x 3 accesses x 3 formats x 2 packings x 7 pairs of configuration and cache: 504 cells.
PART = {"command": ["log", "null-log", "export", "null-export"], "format": ["f6", "f7", "f8"]}
GRID = {
    STUDY: {
        "include": [
            {**PART, "config": ["slow", "medium"]},
            {**PART, "config": "fast", "cache": "hot-svn"},
        ]
    }
}
# So that tables, findings and advice have differences to show.
FACTORS = {"f7": 0.5, "f8": 0.6, "pack": 0.8, "fast": 0.9, "cold": 3.0, "file": 0.6, "svn": 0.8}


@contextmanager
def faked_project(rounds: int, record: bool = True) -> Iterator[tuple[Project, int]]:
    """A project of GRID on SMALL with so many rounds, whose cell-rounds have results; and how many they
    are. See make_results()."""
    # Loaded in RAM, as by default: on a disk, that alone takes a minute.
    scratch = tempfile.TemporaryDirectory(prefix="vcsbench-", dir="/dev/shm")
    with contextmanager(make_project)() as project, scratch as folder:
        project.configure(repositories=SMALL, rounds=rounds, copies=1, grid=GRID, scratch=folder)
        yield project, make_results(project, record)


def make_results(project: Project, record: bool = True) -> int:
    """Give each cell-round of the project's configuration a result that Snakemake takes for done; returns
    how many there are. One is measured. Without `record` Snakemake has no records of how they were made."""
    cells = project.path / "results" / "cells" / STUDY
    export, context = (cells / MEASURED / f"round1{end}.json" for end in ("", ".context"))
    if not export.exists():
        wanted = str(export.relative_to(project.path))
        run(project.command(wanted, f"results/grid/{STUDY}.csv"), project.path)
    with chdir(project.path):
        plan = _plan(project)
        measured = json.loads(export.read_text()), json.loads(context.read_text())
        numbers = random.Random(1)
        for (study, path, number), order in plan.order.items():
            folder = cells / path
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / f"round{number}.json").exists():
                made = _derived(*measured, plan.by_path[study, path].axes, numbers)
                made[1].update(cell=path, round=number, order=order)
                made[1]["recipe_digest"] = plan.digest(study, path)
                write(folder / f"round{number}", *made)
    if record:
        # All at once: one after another, the scheduler looks at all that are left for each.
        wide = ["--cores", str(len(plan.order)), "--set-threads", "cell=1"]
        touch = ["--touch", *wide, "--forcerun", "cell", "--until", "cell", "-q", "all"]
        argv = [sys.executable, ROOT / "benchmarks" / "touch.py", *project.command(*touch)[3:]]
        run(argv, project.path)
    return len(plan.order)


def write(stem: Path, export: dict[str, Any], context: dict[str, Any]) -> None:
    """Both files of a cell-round, bound to each other: others are taken for torn and measured anew."""
    content = json.dumps(export).encode()
    stem.with_suffix(".json").write_bytes(content)
    context["export_sha256"] = hashlib.sha256(content).hexdigest()
    stem.with_suffix(".context.json").write_text(json.dumps(context))


def _derived(
    export: dict[str, Any], context: dict[str, Any], axes: dict[str, str], numbers: random.Random
) -> tuple[dict[str, Any], dict[str, Any]]:
    """An export and a context like the measured ones, of a cell with these axes."""
    factor = math.prod(FACTORS.get(value, 1.0) for value in axes.values())
    factor *= math.exp(numbers.gauss(0, 0.02))
    made = copy.deepcopy(export)
    result = made["results"][0]
    for key in ("mean", "median", "min", "max", "user", "system"):
        if isinstance(result.get(key), float):
            result[key] *= factor
    result["times"] = [time * factor for time in result.get("times", [])]
    for one in result.get("measurements", []):
        for key in ("time_wall_clock", "time_user", "time_system"):
            one[key]["value"] *= factor
    described = copy.deepcopy(context)
    described["axes"] = axes
    if axes["ra"] == "file":
        described["server"] = None
    return made, described


def _plan(project: Project) -> Plan:
    """What the project's configuration asks for, as the workflow itself has it."""
    files = [project.path / "config" / "config.yaml", project.config]
    config: dict[str, Any] = {}
    for file in files:
        config = merge(config, read_yaml(file))
    return Workflow(config, project.path, files).plan

"""Derive the results of a whole run from one measured cell-round, within seconds instead of hours.

Each cell-round gets an export, a context, and Snakemake's own record. Only the times are invented.
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
# Just over one shard. A smaller repository cannot be packed, and its packed cells are skipped.
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
# Tables, findings and advice need differences.
FACTORS = {"f7": 0.5, "f8": 0.6, "pack": 0.8, "fast": 0.9, "cold": 3.0, "file": 0.6, "svn": 0.8}


@contextmanager
def faked_project(rounds: int, record: bool = True) -> Iterator[tuple[Project, int]]:
    """Yield a project of GRID on SMALL with results of all cell-rounds, and their number."""
    # A load on disk takes a minute.
    scratch = tempfile.TemporaryDirectory(prefix="vcsbench-", dir="/dev/shm")
    with contextmanager(make_project)() as project, scratch as folder:
        project.configure(repositories=SMALL, rounds=rounds, copies=1, grid=GRID, scratch=folder)
        yield project, make_results(project, record)


def make_results(project: Project, record: bool = True) -> int:
    """Write a result for each configured cell-round, and return their number.

    One is measured, the others are derived. Without `record`, Snakemake has no record of their jobs.
    """
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
        # All jobs at once, because the scheduler's time grows with the jobs that are left.
        wide = ["--cores", str(len(plan.order)), "--set-threads", "cell=1"]
        touch = ["--touch", *wide, "--forcerun", "cell", "--until", "cell", "-q", "all"]
        argv = [sys.executable, ROOT / "benchmarks" / "touch.py", *project.command(*touch)[3:]]
        run(argv, project.path)
    return len(plan.order)


def write(stem: Path, export: dict[str, Any], context: dict[str, Any]) -> None:
    """Write both files of a cell-round; the context has the digest of the export."""
    content = json.dumps(export).encode()
    stem.with_suffix(".json").write_bytes(content)
    context["export_sha256"] = hashlib.sha256(content).hexdigest()
    stem.with_suffix(".context.json").write_text(json.dumps(context))


def _derived(
    export: dict[str, Any], context: dict[str, Any], axes: dict[str, str], numbers: random.Random
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an export and a context for a cell with these axes."""
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
    """Return the plan of the project's configuration."""
    files = [project.path / "config" / "config.yaml", project.config]
    config: dict[str, Any] = {}
    for file in files:
        config = merge(config, read_yaml(file))
    return Workflow(config, project.path, files).plan

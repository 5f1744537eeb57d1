"""Snakemake's own part: what a run of a whole grid takes that has nothing to do, and a dry run of it.

usage: python benchmarks/graph.py
Fakes the results of some 4,000 cell-rounds (faked.py), lets the workflow make tables and reports of them,
and times a run that finds nothing to do, a dry run then, and a dry run without any cell's result. The peer
is a bare Snakefile with as many jobs that have no inputs, params, or logs.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from faked import Project, faked_project
from rows import ROOT, Row, run, seconds, show

ROUNDS = 8
BARE = """
rule all:
    input: expand("out/{{n}}", n=range({jobs}))
rule job:
    output: "out/{{n}}"
    shell: "touch {{output}}"
"""
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "2"]
DRY = ["--dry-run", "--quiet", "rules"]
NOTHING = "Nothing to be done"
FIGURES = ["a run with nothing to do", "a dry run then", "a dry run with all to do"]


def ours(project: Project) -> list[float]:
    """Seconds of each of FIGURES for the workflow."""
    run(project.command(), project.path)
    cells = project.path / "results" / "cells"
    return _figures(project.command(), project.path, cells)


def bare(jobs: int, folder: Path) -> list[float]:
    """Seconds of each of FIGURES for plain jobs."""
    (folder / "Snakefile").write_text(BARE.format(jobs=jobs))
    (folder / "out").mkdir()
    for number in range(jobs):
        (folder / "out" / str(number)).touch()
    touch = [sys.executable, ROOT / "benchmarks" / "touch.py", "--cores", str(jobs), "--touch"]
    run([*touch, "--forcerun", "job", "--until", "job", "--quiet", "all"], folder)
    return _figures(SNAKEMAKE, folder, folder / "out")


def _figures(snakemake: list[str], folder: Path, results: Path) -> list[float]:
    said: list[str] = []
    taken = [seconds(lambda: said.append(run(snakemake, folder)))]
    if NOTHING not in said[0]:
        sys.exit(f"{folder}: there was something to do:\n{said[0]}")
    taken.append(seconds(lambda: run([*snakemake, *DRY], folder)))
    results.rename(folder / "set-aside")
    taken.append(seconds(lambda: run([*snakemake, *DRY], folder)))
    (folder / "set-aside").rename(results)
    return taken


def main() -> None:
    """Measure, and print the rows of a table."""
    with faked_project(ROUNDS) as (project, jobs):
        us = ours(project)
    with tempfile.TemporaryDirectory(prefix="vcsbench-", dir="/var/tmp") as folder:
        them = bare(jobs, Path(folder))
    show(
        Row(f"{jobs:,} cell-rounds: {what}", mine, theirs, "s", "as many bare jobs")
        for what, mine, theirs in zip(FIGURES, us, them, strict=True)
    )


if __name__ == "__main__":
    main()

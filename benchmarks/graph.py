"""Snakemake's own part: what a run of a whole grid takes that has nothing to do, and a dry run of it.

usage: python benchmarks/graph.py
Fakes the results of some 4,000 cell-rounds (faked.py), lets the workflow make tables and reports of them,
and times a run that finds nothing to do, a dry run then, and a dry run without any cell's result. The peer
is a bare Snakefile with as many jobs that have no inputs, params, or logs. Each figure is the best of three,
the two taken in turns.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

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
TURNS = 3


class Side(NamedTuple):
    """What is timed: a command line, where it runs, and the folder of what it makes."""

    snakemake: list[str]
    folder: Path
    results: Path


def prepare_ours(project: Project) -> Side:
    """The workflow, with all of its results there."""
    run(project.command(), project.path)
    return Side(project.command(), project.path, project.path / "results" / "cells")


def prepare_bare(jobs: int, folder: Path) -> Side:
    """Plain jobs, with all of their outputs there."""
    (folder / "Snakefile").write_text(BARE.format(jobs=jobs))
    (folder / "out").mkdir()
    for number in range(jobs):
        (folder / "out" / str(number)).touch()
    touch = [sys.executable, ROOT / "benchmarks" / "touch.py", "--cores", str(jobs), "--touch"]
    run([*touch, "--forcerun", "job", "--until", "job", "--quiet", "all"], folder)
    return Side(SNAKEMAKE, folder, folder / "out")


def nothing_to_do(side: Side) -> float:
    """Seconds of a run that finds all there."""
    said: list[str] = []
    taken = seconds(lambda: said.append(run(side.snakemake, side.folder)))
    if NOTHING not in said[0]:
        sys.exit(f"{side.folder}: there was something to do:\n{said[0]}")
    return taken


def dry(side: Side) -> float:
    """Seconds of a dry run."""
    return seconds(lambda: run([*side.snakemake, *DRY], side.folder))


def dry_without_results(side: Side) -> float:
    """Seconds of a dry run where all is to do."""
    aside = side.results.rename(side.folder / "set-aside")
    taken = dry(side)
    aside.rename(side.results)
    return taken


def best(figure: Callable[[Side], float], sides: Iterable[Side]) -> list[float]:
    """Of each side, in turns: a machine that is slow for a minute is so for all."""
    turns = [[figure(side) for side in sides] for _ in range(TURNS)]
    return [min(taken) for taken in zip(*turns, strict=True)]


FIGURES = {
    "a run with nothing to do": nothing_to_do,
    "a dry run then": dry,
    "a dry run with all to do": dry_without_results,
}


def main() -> None:
    """Measure, and print the rows of a table."""
    with (
        faked_project(ROUNDS) as (project, jobs),
        tempfile.TemporaryDirectory(prefix="vcsbench-", dir="/var/tmp") as folder,
    ):
        sides = prepare_ours(project), prepare_bare(jobs, Path(folder))
        taken = {what: best(figure, sides) for what, figure in FIGURES.items()}
    show(
        Row(f"{jobs:,} cell-rounds: {what}", mine, theirs, "s", "as many bare jobs")
        for what, (mine, theirs) in taken.items()
    )


if __name__ == "__main__":
    main()

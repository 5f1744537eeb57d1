"""Snakemake's own part: what a run of a whole grid takes that has nothing to do, and a dry run of it.

usage: python benchmarks/graph.py
Fakes the results of some 4,000 cell-rounds (faked.py), lets the workflow make tables and reports of them,
and times a run that finds nothing to do, a dry run then, and a dry run without any cell's result. The peer
is a bare Snakefile with as many jobs that have no inputs, params, or logs. Each figure is processor time, for
others may use the machine too: the best of three, the two taken in turns. Beside it stands the memory of the
largest process. A dry run of 12,000 cell-rounds has limits.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from faked import Project, faked_project
from rows import ROOT, Cost, Row, cost, run, show

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
LARGE = 3  # times ROUNDS: 12,096 cell-rounds
LIMIT_S, LIMIT_MIB = 30.0, 1000.0
# A run with nothing to do, in times of as many bare jobs.
LIMIT_TIMES = 2.5


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


def nothing_to_do(side: Side) -> Cost:
    """What a run costs that finds all there."""
    if NOTHING not in (said := run(side.snakemake, side.folder)):
        sys.exit(f"{side.folder}: there was something to do:\n{said}")
    return cost(side.snakemake, side.folder)


def dry(side: Side) -> Cost:
    """What a dry run costs."""
    return cost([*side.snakemake, *DRY], side.folder)


def dry_without_results(side: Side) -> Cost:
    """What a dry run costs where all is to do."""
    aside = side.results.rename(side.folder / "set-aside")
    found = dry(side)
    aside.rename(side.results)
    return found


def best(figure: Callable[[Side], Cost], sides: Iterable[Side]) -> list[Cost]:
    """Of each side, in turns: a machine that is slow for a minute is so for all."""
    turns = [[figure(side) for side in sides] for _ in range(TURNS)]
    return [min(found) for found in zip(*turns, strict=True)]


def large(project: Project) -> list[Row]:
    """The rows of a dry run of three times as many cell-rounds, all to do."""
    text = project.config.read_text()
    many = f"rounds: {LARGE * ROUNDS}"
    project.config.write_text(re.sub(r"^rounds: .*", many, text, flags=re.MULTILINE))
    found = cost([*project.command(), *DRY], project.path)
    what = "12,096 cell-rounds: a dry run with most to do"
    return [
        Row(what, found.seconds, LIMIT_S, "s", "limit"),
        Row(f"{what}, memory", found.peak_mib, LIMIT_MIB, "MiB", "limit"),
    ]


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
        rows = large(project)
    for what, (mine, theirs) in taken.items():
        named = f"{jobs:,} cell-rounds: {what}"
        peer = "as many bare jobs"
        rows.append(Row(named, mine.seconds, theirs.seconds, "s", peer))
        rows.append(Row(f"{named}, memory", mine.peak_mib, theirs.peak_mib, "MiB", peer))
    mine, theirs = taken["a run with nothing to do"]
    what = "a run with nothing to do, in times of the bare jobs"
    rows.append(Row(what, mine.seconds / theirs.seconds, LIMIT_TIMES, "times", "limit"))
    show(rows)


if __name__ == "__main__":
    main()

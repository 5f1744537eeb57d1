"""Time Snakemake's own part of a run: the graph of a whole grid, with nothing to do and as a dry run.

usage: python benchmarks/graph.py
Takes 20 minutes, half of them for `snakemake --touch`, which waits 0.1 s in each job. Each time is processor
time: the fastest of three, measured in turns, because other users may slow the machine. The peer is a bare
Snakefile with as many jobs. A dry run of 12,096 cell-rounds has limits of time and memory.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from faked import Project, faked_project
from rows import Cost, Row, cost, print_table, run

ROUNDS = 8
BARE = """
rule all:
    input: expand("out/{{n}}", n=range({jobs}))
rule job:
    output: "out/{{n}}"
    shell: "touch {{output}}"
"""
SNAKEMAKE = [sys.executable, "-m", "snakemake"]
DRY = ["--dry-run", "--quiet", "rules"]
NOTHING = "Nothing to be done"
TURNS = 3
LARGE = 3  # times ROUNDS: 12,096 cell-rounds
LIMIT_S, LIMIT_MIB = 30.0, 1000.0
# Of a run with nothing to do, relative to as many bare jobs.
LIMIT_RATIO = 3.0


class Side(NamedTuple):
    """A command line of Snakemake, its folder, and the folder of the outputs."""

    snakemake: list[str]
    folder: Path
    results: Path


def prepare_workflow(project: Project, jobs: int) -> Side:
    """Record the faked cell-rounds as done, and make everything that follows from them."""
    command = project.command("--cores", str(jobs), "--set-threads", "cell=1")
    record_as_done(command, "cell", project.path)
    run(project.command(), project.path)
    return Side(project.command(), project.path, project.path / "results" / "cells")


def prepare_bare(jobs: int, folder: Path) -> Side:
    """Write a Snakefile of plain jobs, and record them as done."""
    (folder / "Snakefile").write_text(BARE.format(jobs=jobs))
    (folder / "out").mkdir()
    for number in range(jobs):
        (folder / "out" / str(number)).touch()
    record_as_done([*SNAKEMAKE, "--cores", str(jobs)], "job", folder)
    return Side([*SNAKEMAKE, "--cores", "2"], folder, folder / "out")


def record_as_done(command: Sequence[str], rule: str, folder: Path) -> None:
    """Let Snakemake record the existing outputs of a rule as its own.

    The command has a core for each job, because the scheduler looks at all waiting jobs in each round.
    """
    run([*command, "--touch", "--forcerun", rule, "--until", rule, "--quiet", "all"], folder)


def nothing_to_do(side: Side) -> Cost:
    """Return the cost of a run that finds all outputs up to date."""
    if NOTHING not in (output := run(side.snakemake, side.folder)):
        sys.exit(f"{side.folder}: there was something to do:\n{output}")
    return cost(side.snakemake, side.folder)


def dry_run(side: Side) -> Cost:
    """Return the cost of a dry run."""
    return cost([*side.snakemake, *DRY], side.folder)


def dry_run_without_results(side: Side) -> Cost:
    """Return the cost of a dry run without any output."""
    aside = side.results.rename(side.folder / "set-aside")
    try:
        return dry_run(side)
    finally:
        aside.rename(side.results)


def fastest(figure: Callable[[Side], Cost], sides: Iterable[Side]) -> list[Cost]:
    """Return the smallest cost of each side. The sides take turns, so that a slow minute hits all."""
    turns = [[figure(side) for side in sides] for _ in range(TURNS)]
    return [min(costs) for costs in zip(*turns, strict=True)]


def large_dry_run(project: Project) -> list[Row]:
    """Return the rows of a dry run of three times as many cell-rounds."""
    text = project.config.read_text()
    many = f"rounds: {LARGE * ROUNDS}"
    project.config.write_text(re.sub(r"^rounds: .*", many, text, flags=re.MULTILINE))
    dry = cost([*project.command(), *DRY], project.path)
    what = "12,096 cell-rounds: a dry run with most to do"
    return [
        Row(what, dry.seconds, LIMIT_S, "s", "limit"),
        Row(f"{what}, memory", dry.peak_mib, LIMIT_MIB, "MiB", "limit"),
    ]


FIGURES = {
    "a run with nothing to do": nothing_to_do,
    "a dry run then": dry_run,
    "a dry run with all to do": dry_run_without_results,
}


def main() -> None:
    """Measure, and print a table."""
    with (
        faked_project(ROUNDS) as (project, jobs),
        tempfile.TemporaryDirectory(prefix="vcsbench-", dir="/var/tmp") as folder,
    ):
        with ThreadPoolExecutor() as pool:
            prepared = (
                pool.submit(prepare_workflow, project, jobs),
                pool.submit(prepare_bare, jobs, Path(folder)),
            )
        sides = [side.result() for side in prepared]
        costs = {what: fastest(figure, sides) for what, figure in FIGURES.items()}
        rows = large_dry_run(project)
    for what, (ours, bare) in costs.items():
        what, peer = f"{jobs:,} cell-rounds: {what}", "as many bare jobs"
        rows.append(Row(what, ours.seconds, bare.seconds, "s", peer))
        rows.append(Row(f"{what}, memory", ours.peak_mib, bare.peak_mib, "MiB", peer))
    ours, bare = costs["a run with nothing to do"]
    what = "a run with nothing to do, relative to bare jobs"
    rows.append(Row(what, ours.seconds / bare.seconds, LIMIT_RATIO, "times", "limit"))
    print_table(rows)


if __name__ == "__main__":
    main()

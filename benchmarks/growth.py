"""What grows how: cost against size, the exponent that fits, and what grows worse than linear.

usage: python benchmarks/growth.py [PART ...]
Parts: cells (a dry run of the whole grid and what becomes of its results, in processor time of all processes,
and the peak memory of the largest), revisions (a generated history in RAM: generated, loaded in one format,
verified, and what it takes), files (the digest of a tree). From what cells cost is taken what a Snakemake
costs without any; the exponent is that of the rest.
"""

from __future__ import annotations

import math
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from faked import STUDY, faked_project, make_results
from rows import ROOT, cost, run

sys.path.insert(0, str(ROOT / "workflow"))

from vcsbench import sources
from vcsbench.measure.work import tree
from vcsbench.measure.work.neutral import Neutral
from vcsbench.subjects.repository import svnadmin

ROUNDS = (2, 6, 24)
SCALES = (0.02, 0.04, 0.08)
NEUTRAL = Neutral("svn://127.0.0.1:3690/ruby.f7.nopack.1")
FILES = (2_000, 8_000, 32_000)
DRY = ("--dry-run", "--quiet", "rules")
# From here on it is said that something grows worse than linear: less is what sizes of a machine's caches do.
LINEAR = 1.1
HEAD = "| what | sizes | costs | exponent | said |\n| --- | --- | --- | ---: | --- |"


def exponent(sizes: Sequence[float], costs: Sequence[float], least: float = 0.0) -> float:
    """The slope of the line through the logarithms, by least squares; `least` is what costs anyway."""
    points = [(math.log(n), math.log(c - least)) for n, c in zip(sizes, costs, strict=True)]
    x, y = (sum(one) / len(points) for one in zip(*points, strict=True))
    squares = sum((one - x) ** 2 for one, _ in points)
    return sum((one - x) * (other - y) for one, other in points) / squares


def row(
    what: str, sizes: Sequence[float], costs: Sequence[float], unit: str, least: float = 0.0
) -> str:
    """A row of the table."""
    fitted = exponent(sizes, costs, least)
    said = "worse than linear" if fitted > LINEAR else "linear or less"
    numbers = ", ".join(f"{size:,.0f}" for size in sizes)
    told = ", ".join(f"{one:,.1f}" for one in costs)
    return f"| {what} | {numbers} | {told} {unit} | {fitted:.2f} | {said} |"


def cells() -> Iterator[str]:
    """Snakemake's start and what is behind the cells, by cell-rounds."""
    sizes, dry, behind = [], [], []
    names = ("measurements", "findings", "noise")
    targets = [f"results/{name}/{STUDY}.csv" for name in names]
    targets.append(f"results/tables/{STUDY}/elapsed.csv")
    with faked_project(min(ROUNDS), record=False) as (project, _):
        least = cost(project.command("published", *DRY), project.path)
        for rounds in ROUNDS:
            text = project.config.read_text()
            project.config.write_text(re.sub(r"^rounds: .*", f"rounds: {rounds}", text, flags=re.M))
            sizes.append(make_results(project, record=False))
            dry.append(cost(project.command(*DRY), project.path))
            behind.append(cost(project.command(*targets), project.path))
    for what, found in (("a dry run", dry), ("to tables and verdicts, start included", behind)):
        yield row(f"cell-rounds: {what}", sizes, [c.seconds for c in found], "s", least.seconds)
        yield row("its largest process", sizes, [c.peak_mib for c in found], "MiB", least.peak_mib)


def revisions() -> Iterator[str]:
    """A history of the profile ruby in RAM, by revisions."""
    sizes: list[int] = []
    costs: dict[str, list[float]] = {
        name: [] for name in ("generated", "loaded", "verified", "size")
    }
    with tempfile.TemporaryDirectory(prefix="vcsbench-", dir="/dev/shm") as folder:
        for scale in SCALES:
            dump, repository = Path(folder, f"{scale}.dump"), Path(folder, str(scale))
            definition = {"source": "generated", "profile": "ruby", "scale": scale, "seed": 1}
            with dump.open("wb") as stream:
                source = sources.open_source("ruby", definition)
                costs["generated"].append(processor(lambda s=source, to=stream: s.write(to)))  # type: ignore[misc]
            svnadmin.create(repository, "f7")
            load = ["sh", "-c", 'svnadmin load -q --no-flush-to-disk "$0" < "$1"', repository, dump]
            costs["loaded"].append(cost(load, Path(folder)).seconds)
            costs["verified"].append(cost(["svnadmin", "verify", "-q", repository], ROOT).seconds)
            sizes.append(int(run(["svnlook", "youngest", repository], ROOT)))
            du = run(["du", "-s", "--block-size=1", repository], ROOT)
            costs["size"].append(int(du.split()[0]) / (1 << 20))
            dump.unlink()
    for name, found in costs.items():
        yield row(f"revisions: {name}", sizes, found, "MiB" if name == "size" else "s")


def files() -> Iterator[str]:
    """The digest of what an export wrote, of small files in RAM, by files."""
    digested = []
    with tempfile.TemporaryDirectory(prefix="vcsbench-", dir="/dev/shm") as folder:
        for number in FILES:
            files = Path(folder, str(number))
            for index in range(number):
                path = files / str(index // 1000) / str(index)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"x" * 4096)
            digested.append(processor(lambda t=files: tree.look(t, NEUTRAL)))  # type: ignore[misc]
    yield row("files: the digest of a tree", FILES, digested, "s")


def processor(act: Callable[[], object]) -> float:
    """Processor seconds of this process."""
    begun = time.process_time()
    act()
    return time.process_time() - begun


PARTS = {"cells": cells, "revisions": revisions, "files": files}

if __name__ == "__main__":
    print(HEAD)
    for part in sys.argv[1:] or PARTS:
        for line in PARTS[part]():
            print(line, flush=True)

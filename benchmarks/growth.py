"""What grows how: cost against size, the exponent that fits, and what grows worse than linear.

usage: python benchmarks/growth.py [--draw FILE.svg] [PART ...]
Parts: cells (a dry run of the whole grid and what becomes of its results, in processor time of all processes,
and the peak memory of the largest), files (the digest of a tree), and PROFILE=SCALE,SCALE,... (a generated
history in RAM, stage by stage, by revisions; histories.py). From what cells cost is taken what a Snakemake
costs without any; the exponents are those of the rest. One is of the line through all sizes, one of the last
step alone. A history's row says also what the whole profile would cost by the line through all.
"""

from __future__ import annotations

import math
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from faked import STUDY, faked_project, make_results
from histories import open_history, processor, stages
from rows import cost

from vcsbench.measure.work import tree
from vcsbench.measure.work.neutral import Neutral

ROUNDS = (2, 6, 24)
# One, two, four, eight full shards.
HISTORY = "ruby=0.0222,0.0444,0.0888,0.1776"
NEUTRAL = Neutral("svn://127.0.0.1:3690/ruby.f7.nopack.1")
FILES = (2_000, 8_000, 32_000)
DRY = ("--dry-run", "--quiet", "rules")
# From here on it is said that something grows worse than linear: less is what sizes of a machine's caches do.
LINEAR = 1.1
HEAD = (
    "| what | sizes | costs | exponent | last step | said | the whole |\n"
    "| --- | --- | --- | ---: | ---: | --- | ---: |"
)


class Growth(NamedTuple):
    """What something cost at some sizes; `least` is what it costs anyway, `whole` the size to be foretold."""

    what: str
    sizes: Sequence[float]
    costs: Sequence[float]
    unit: str
    least: float = 0.0
    whole: float | None = None

    @property
    def fitted(self) -> float:
        """The exponent over all sizes."""
        return exponent(self.sizes, self.costs, self.least)

    @property
    def last(self) -> float:
        """That of the last two."""
        return exponent(self.sizes[-2:], self.costs[-2:], self.least)

    def at(self, size: float) -> float:
        """What it would cost at a larger size, if it went on from the last one by the exponent over all."""
        beyond = (self.costs[-1] - self.least) * (size / self.sizes[-1]) ** self.fitted
        return self.least + beyond

    def __str__(self) -> str:
        """A row of the table."""
        steepest = max(self.fitted, self.last)
        said = "worse than linear" if steepest > LINEAR else "linear or less"
        numbers = ", ".join(f"{size:,.0f}" for size in self.sizes)
        told = ", ".join(f"{one:,.{0 if one >= 100 else 1}f}" for one in self.costs)
        whole = "" if self.whole is None else f"{self.at(self.whole):,.0f} {self.unit}"
        return (
            f"| {self.what} | {numbers} | {told} {self.unit} | {self.fitted:.2f} | {self.last:.2f} "
            f"| {said} | {whole} |"
        )


def exponent(sizes: Sequence[float], costs: Sequence[float], least: float = 0.0) -> float:
    """The slope of the line through the logarithms, by least squares; `least` is what costs anyway."""
    points = [(math.log(n), math.log(c - least)) for n, c in zip(sizes, costs, strict=True)]
    x, y = (sum(one) / len(points) for one in zip(*points, strict=True))
    squares = sum((one - x) ** 2 for one, _ in points)
    return sum((one - x) * (other - y) for one, other in points) / squares


def cells() -> Iterator[Growth]:
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
        seconds, peak, _ = zip(*found, strict=True)
        yield Growth(f"cell-rounds: {what}", sizes, seconds, "s", least.seconds)
        yield Growth("its largest process", sizes, peak, "MiB", least.peak_mib)


def history(profile: str, scales: Sequence[float]) -> Iterator[Growth]:
    """A generated history, by revisions; an export and what it wrote, by files."""
    found = [stages(profile, scale) for scale in sorted(scales)]
    whole = open_history(profile, 1).estimate()
    revisions = [number for number, _ in found]
    files = [costs["exported", "files"] for _, costs in found]
    for stage, unit in found[0][1]:
        costs = [of[stage, unit] for _, of in found]
        by_files = stage.startswith("export") and (stage, unit) != ("exported", "files")
        sizes, aim = (files, whole.files) if by_files else (revisions, whole.revisions)
        peak = ", largest process" if unit == "MiB" and (stage, "s") in found[0][1] else ""
        stage += ", by files" if by_files else ""
        yield Growth(f"{profile}: {stage}{peak}", sizes, costs, unit, whole=aim)


def files() -> Iterator[Growth]:
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
    yield Growth("files: the digest of a tree", FILES, digested, "s")


def draw(rows: Sequence[Growth], file: Path) -> None:
    """Draw times against sizes, in logarithms, each as many times its smallest: what is steeper than the
    dashed line grows worse than linear."""
    import altair
    import vl_convert

    timed = [row for row in rows if row.unit == "s"]
    largest = max(row.sizes[-1] / row.sizes[0] for row in timed)
    lines = [
        {"what": row.what, "size": size / row.sizes[0], "cost": (c - row.least) / first}
        for row in timed
        for first in [row.costs[0] - row.least]
        for size, c in zip(row.sizes, row.costs, strict=True)
    ]
    straight = [{"size": size, "cost": size} for size in (1, largest)]
    x = altair.X("size:Q", title="size, times the smallest").scale(type="log", nice=False)
    y = altair.Y("cost:Q", title="processor time, times that of the smallest").scale(type="log")
    colour = altair.Color("what:N", title=None, sort=None).scale(scheme="tableau20")
    dashed = altair.Chart(altair.Data(values=straight)).mark_line(strokeDash=[6, 4], color="black")
    chart = altair.Chart(altair.Data(values=lines)).mark_line(point=True)
    both = chart.encode(x, y, colour.legend(labelLimit=400)) + dashed.encode(x, y)
    file.write_text(vl_convert.vegalite_to_svg(both.properties(width=420, height=360).to_dict()))


def parts(words: Iterable[str]) -> Iterator[Growth]:
    """What the parts' words ask for."""
    for word in words:
        if "=" in word:
            profile, scales = word.split("=")
            yield from history(profile, [float(scale) for scale in scales.split(",")])
        else:
            yield from {"cells": cells, "files": files}[word]()


if __name__ == "__main__":
    given, target = sys.argv[1:], None
    if given[:1] == ["--draw"]:
        target, given = Path(given[1]), given[2:]
    print(HEAD)
    rows = []
    for one in parts(given or ("cells", HISTORY, "files")):
        print(one, flush=True)
        rows.append(one)
    if target:
        draw(rows, target)

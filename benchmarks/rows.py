"""What every benchmark here prints: rows of one table, in Markdown."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
HEAD = "| what | ours | {} | ratio |\n| --- | ---: | ---: | ---: |"


@dataclass(frozen=True)
class Row:
    """One figure, what it is held against (a peer's figure, or a limit), and their ratio as printed:
    ours / other."""

    what: str
    ours: float
    other: float
    unit: str
    against: str

    def __str__(self) -> str:
        ours, other = (
            f"{value:,.{self._digits()}f} {self.unit}" for value in (self.ours, self.other)
        )
        return f"| {self.what} | {ours} | {self.against} {other} | {self.ours / self.other:.2f} |"

    def _digits(self) -> int:
        smallest = min(self.ours, self.other)
        return 0 if smallest >= 100 else 1 if smallest >= 10 else 3 if smallest < 1 else 2


def show(rows: Iterable[Row]) -> None:
    """Print a table."""
    print(HEAD.format("peer or limit"))
    for row in rows:
        print(row, flush=True)


def seconds(work: Callable[[], object]) -> float:
    """How long some work takes."""
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def run(argv: Sequence[str | Path], cwd: Path, **options: object) -> str:
    """Run a program to its end; what it said. Ends with that where it fails."""
    done = subprocess.run(
        [str(word) for word in argv], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, **options,  # type: ignore[call-overload]
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, argv))} failed in {cwd}:\n{done.stdout}")
    return str(done.stdout)


class Cost(NamedTuple):
    """Processor seconds, MiB of the largest process, and seconds on the clock."""

    seconds: float
    peak_mib: float
    elapsed: float


def cost(
    argv: Sequence[str | Path], cwd: Path, feed: Callable[[BinaryIO], object] | None = None
) -> Cost:
    """Of a program with all that it starts; `feed` writes what it reads. Another process asks: what it is
    told of its children is of these alone."""
    ask = (
        "import resource, subprocess, sys, time\n"
        "begun = time.monotonic()\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "taken = time.monotonic() - begun\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, taken)"
    )
    stdin = subprocess.PIPE if feed else subprocess.DEVNULL
    asking = [sys.executable, "-c", ask, *map(str, argv)]
    with subprocess.Popen(asking, cwd=cwd, stdin=stdin, stdout=subprocess.PIPE) as process:
        if feed and process.stdin:
            with suppress(BrokenPipeError), process.stdin as stream:
                feed(stream)
        said = process.stdout.read().decode().split() if process.stdout else []
    if said[:1] != ["0"]:
        sys.exit(f"{' '.join(map(str, argv))} failed in {cwd}")
    return Cost(*map(float, said[1:]))

"""Run programs, measure their cost, and print figures as a Markdown table."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
HEAD = "| what | ours | {} | ratio |\n| --- | ---: | ---: | ---: |"


@dataclass(frozen=True)
class Row:
    """A figure, the figure of a peer or a limit, and their ratio ours / other."""

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


def print_table(rows: Iterable[Row]) -> None:
    """Print a table."""
    print(HEAD.format("peer or limit"))
    for row in rows:
        print(row, flush=True)


def seconds(work: Callable[[], object]) -> float:
    """Return the duration of some work."""
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def run(argv: Sequence[str | Path], cwd: Path) -> str:
    """Run a program and return its output. Exit with the output if it fails."""
    words = [str(word) for word in argv]
    done = subprocess.run(
        words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed in {cwd}:\n{done.stdout}")
    return done.stdout


class Cost(NamedTuple):
    """Processor seconds, MiB of the largest process, and elapsed seconds."""

    seconds: float
    peak_mib: float
    elapsed: float


def cost(argv: Sequence[str | Path], cwd: Path) -> Cost:
    """Return the cost of a program and everything it starts. Exit if it fails.

    A process of its own starts it, so that getrusage(RUSAGE_CHILDREN) covers no other child.
    """
    program = (
        "import resource, subprocess, sys, time\n"
        "begun = time.monotonic()\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "taken = time.monotonic() - begun\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, taken)"
    )
    code, *figures = run([sys.executable, "-c", program, *argv], cwd).split()
    if code != "0":
        sys.exit(f"{' '.join(map(str, argv))} failed in {cwd}")
    return Cost(*map(float, figures))

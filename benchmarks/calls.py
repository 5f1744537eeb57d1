"""What it costs to count system calls under strace, and to launch several clients at once.

usage: python benchmarks/calls.py [CALLS]
Counts a program that does nothing but read and write a byte at a time (dd), so many times each, and checks
that it counted exactly as many; and a verify of a generated repository. The memory is the highest of the
process that counts.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "workflow")]

from rows import Row, run, seconds, show  # noqa: E402

from vcsbench.measure import launcher, strace  # noqa: E402
from vcsbench.sources import open_source  # noqa: E402

# Of what is asked of it: at most so many times as long, in so much memory.
SLOWER_LIMIT, MEMORY_LIMIT_MIB = 100.0, 200.0
# Of a command that does nothing, so many times.
LAUNCHES = 30
QUIET: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
REPOSITORY = {"source": "generated", "profile": "apache", "scale": 0.002, "seed": 1}


def counted(argv: list[str]) -> tuple[float, dict[str, int]]:
    """How long a command takes when its calls are counted, and the counts."""
    found: list[strace.Counts] = []
    took = seconds(lambda: found.append(strace.count_command(argv, dict(os.environ), "", 36000)))
    return took, found[0].told()


def plain(argv: list[str], *before: str) -> float:
    """How long it takes otherwise, the second time."""
    for _ in range(2):
        took = seconds(lambda: subprocess.run([*before, *argv], check=True, **QUIET))
    return took


def dd(calls: int) -> list[str]:
    return ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", f"count={calls}"]


def repository(folder: Path) -> Path:
    path = folder / "repository"
    run(["svnadmin", "create", path], folder)
    with subprocess.Popen(["svnadmin", "load", "-q", path], stdin=subprocess.PIPE) as load:
        assert load.stdin
        open_source("apache", REPOSITORY).write(load.stdin)
    return path


def launching(number: int, folder: Path) -> float:
    """What launching so many takes beyond one of them by itself, in seconds."""
    report = folder / "report.json"
    python = [sys.executable, "-I", "-S", launcher.__file__, str(report)]
    argv = [*python, str(number), "@", "/bin/true"]
    launched = min(seconds(lambda: run(argv, folder)) for _ in range(LAUNCHES))
    return launched - float(json.loads(report.read_text())["all_s"])


def main(calls: int) -> None:
    few, many = (counted(dd(number)) for number in (1, calls))
    more = {name: many[1][name] - few[1][name] for name in ("reads", "writes", "bytes_read")}
    if set(more.values()) != {calls - 1}:
        sys.exit(f"{more}: {calls - 1} of each were made")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cpu = str(min(os.sched_getaffinity(0)))
    peer = plain(dd(calls), "taskset", "-c", cpu, "strace", "-f", "-c", "-o", os.devnull)
    rows = [
        Row(f"a program of {2 * calls:,} calls", many[0], peer, "s", "`strace -c`"),
        Row("memory of what counts them", memory, MEMORY_LIMIT_MIB, "MiB", "limit"),
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        verify = ["svnadmin", "verify", "-q", str(repository(folder))]
        bare, traced = plain(verify), counted(verify)[0]
        rows.append(Row("`svnadmin verify`", traced, bare, "s", "without strace"))
        rows.append(Row("the same", traced, SLOWER_LIMIT * bare, "s", "limit, 100 times that:"))
        one = min(seconds(lambda: run(["/bin/true"], folder)) for _ in range(LAUNCHES))
        rows += [
            Row(f"launching {n} clients", launching(n, folder), one, "s", "starting one program")
            for n in (1, 16)
        ]
    show(rows)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)

"""What a cell-round costs beyond hyperfine and its hooks: a whole run against a bare loop of hyperfine.

usage: python benchmarks/overhead.py [CELL_ROUNDS]
Makes a small project of its own below /var/tmp, measures hot cells over svn with the workflow, then runs
the same hyperfine calls (same command, same number of runs, hooks that do nothing) against one svnserve
that is kept. Prints our figure, the peer's, the difference per cell-round, and the limit.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "workflow")]

from project import Project, make_project  # noqa: E402
from vcsbench.measure.access import ACCESS  # noqa: E402
from vcsbench.measure.servers import Server  # noqa: E402

STUDY = "fsfs-san-2014"
CELL = "log/svn/ruby/f7/nopack/slow/hot-svn"
LIMIT_S = 0.25
PART = dict(
    zip(
        ("command", "ra", "format", "packing", "config", "cache"),
        ("log", "svn", "f7", "nopack", "slow", "hot-svn"),
        strict=True,
    )
)
SMALL = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.002, "seed": 1}}


def whole_run(project: Project, rounds: int) -> float:
    """Seconds that Snakemake takes for `rounds` cell-rounds, its start-up and one round apart."""
    project.configure(repositories=SMALL, rounds=1, copies=1, grid={STUDY: {"include": [PART]}})
    targets = [f"results/cells/{STUDY}/{CELL}/round{n}.json" for n in range(1, rounds + 2)]
    seconds = []
    for wanted in (targets[:1], targets):  # the first run prepares, and is start-up and one cell
        project.snakemake(*targets[:1])  # prepares
        begun = time.monotonic()
        done = project.snakemake(*wanted, timeout=3600)
        seconds.append(time.monotonic() - begun)
        assert done.returncode == 0, done.stdout
    return seconds[1] - seconds[0]


def bare_loop(project: Project, rounds: int) -> float:
    """Seconds for the same hyperfine calls in a loop, against a server that is kept."""
    path = project.path / "results" / "cells" / STUDY / CELL / "round1.context.json"
    context = json.loads(path.read_text())
    with tempfile.TemporaryDirectory(prefix="vcsbench-") as folder:
        Path(folder).chmod(0o755)
        run = Path(folder, "server")
        run.mkdir()
        files = project.path / "config" / "servers" / "slow"
        server = Server(ACCESS["svn"], Path(context["repository"]["path"]).parent, files, run)
        server.start()
        argv = [
            "svn",
            "log",
            "-v",
            f"svn://127.0.0.1:{server.port}/{Path(context['repository']['path']).name}",
        ]
        nothing = "sh -c :"
        hooks = [f"--{hook}={nothing}" for hook in ("setup", "prepare", "cleanup")]
        export = f"--export-json={folder}/export.json"
        command = ["hyperfine", "-N", "--style=basic", "--warmup=2", "--runs=1", *hooks, export]
        begun = time.monotonic()
        for _ in range(rounds):
            subprocess.run([*command, shlex.join(argv)], check=True, capture_output=True)
        seconds = time.monotonic() - begun
        server.stop()
    return seconds


def main(rounds: int) -> None:
    """Measure, and print one row of a table."""
    for project in make_project():
        ours, bare = whole_run(project, rounds), bare_loop(project, rounds)
        cost = (ours - bare) / rounds
        print("| figure | ours | bare loop | cost per cell-round | limit | of the limit |")
        print("| --- | ---: | ---: | ---: | ---: | ---: |")
        print(
            f"| {rounds} hot cell-rounds | {ours:.2f} s | {bare:.2f} s | {cost:.3f} s | {LIMIT_S} s "
            f"| {cost / LIMIT_S:.0%} |"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)

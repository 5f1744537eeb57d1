"""Compare a run of hot cell-rounds with a bare loop of the same hyperfine calls.

usage: python benchmarks/overhead.py [CELL_ROUNDS]
Measures hot cells over svn with the workflow in a small project below /var/tmp, then runs the same hyperfine
calls (same command and number of runs, empty hooks) against one svnserve. The overhead of a cell-round is
Snakemake's time for it, without its start-up and without the time of its hyperfine, which the contexts have.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from rows import ROOT, Row, print_table, run, seconds

sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "workflow")]

from project import Project, make_project  # noqa: E402
from vcsbench.measure.server import Svnserve  # noqa: E402

STUDY = "fsfs-san-2014"
CELL = "log/svn/ruby/f7/nopack/slow/hot-server"
LIMIT_S = 0.25
PART = dict(
    zip(
        ("command", "access", "format", "packing", "config", "cache"),
        ("log", "svn", "f7", "nopack", "slow", "hot-server"),
        strict=True,
    )
)
SMALL = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.002, "seed": 1}}


def whole_run(project: Project, rounds: int) -> tuple[float, float]:
    """Return Snakemake's seconds for `rounds` cell-rounds, with and without its start-up."""
    project.configure(repositories=SMALL, rounds=1, copies=1, grid={STUDY: {"include": [PART]}})
    targets = [f"results/cells/{STUDY}/{CELL}/round{n}.json" for n in range(1, rounds + 1)]
    run(project.command(*targets[:1]), project.path)  # prepares
    start = seconds(lambda: run(project.command(*targets[:1]), project.path))
    shutil.rmtree(project.path / "results" / "cells")
    whole = seconds(lambda: run(project.command(*targets), project.path))
    return whole, whole - start


def in_hyperfine(project: Project, rounds: int) -> float:
    """Return the seconds of hyperfine in all these cell-rounds, with the hooks."""
    folder = project.path / "results" / "cells" / STUDY / CELL
    contexts = [
        json.loads((folder / f"round{n}.context.json").read_text()) for n in range(1, rounds + 1)
    ]
    return sum(context["took"]["hyperfine_s"] for context in contexts)


def bare_loop(project: Project, rounds: int) -> float:
    """Return the seconds of the same hyperfine calls in a loop, against one server."""
    path = project.path / "results" / "cells" / STUDY / CELL / "round1.context.json"
    context = json.loads(path.read_text())
    repository = Path(context["repository"]["path"])
    with tempfile.TemporaryDirectory(prefix="vcsbench-") as folder:
        Path(folder).chmod(0o755)
        private = Path(folder, "server")
        private.mkdir()
        files = project.path / "config" / "servers" / "slow"
        server = Svnserve(repository.parent, files, private)
        server.start()
        timed = ["svn", "log", "-v", f"svn://127.0.0.1:{server.port}/{repository.name}"]
        hooks = [f"--{hook}=sh -c :" for hook in ("setup", "prepare", "cleanup")]
        command = ["hyperfine", "-N", "--style=basic", "--warmup=2", "--runs=1", *hooks]
        command += [f"--export-json={folder}/export.json", shlex.join(timed)]

        def loop() -> None:
            for _ in range(rounds):
                subprocess.run(command, check=True, capture_output=True)

        taken = seconds(loop)
        server.stop()
    return taken


def main(rounds: int) -> None:
    """Measure, and print a table."""
    with contextmanager(make_project)() as project:
        whole, jobs = whole_run(project, rounds)
        timed = in_hyperfine(project, rounds)
        bare = bare_loop(project, rounds)
    overhead, timed_each, bare_each = (t / rounds for t in (jobs - timed, timed, bare))
    print_table(
        [
            Row("overhead of a cell-round", overhead, LIMIT_S, "s", "limit"),
            Row("hyperfine of a cell-round, with hooks", timed_each, bare_each, "s", "bare call"),
            Row(f"{rounds} cell-rounds in all", whole, bare, "s", "bare loop"),
        ]
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)

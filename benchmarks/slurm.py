"""What a job costs on a cluster: one for each block and round, against one for a whole share.

usage: python benchmarks/slurm.py
Starts a Slurm with two nodes on this machine (tests/slurm.py), and measures a small block of cells through
it, on one node. The first run prepares. The second has one round more to measure: its job is one of a block
and round. The third has ROUNDS more: what its job takes longer, by round, is what a round takes within a
share. Each job counts from its submission to its end, as Slurm has it, in whole seconds; so the work itself
is in all figures.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from rows import ROOT, Row, run, show

sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "workflow")]

from project import Project, make_project  # noqa: E402
from slurm import Slurm, started, why_not  # noqa: E402

STUDY = "fsfs-san-2014"
TINY = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.002, "seed": 1}}
# One block of six cells, each of a fraction of a second.
PART = {
    **{"command": "log", "ra": ["svn", "file"], "format": ["f6", "f7", "f8"]},
    **{"packing": "nopack", "config": "slow", "cache": "hot-os"},
}
ROUNDS = 10
BY_SLURM = (
    *("--profile", "profiles/slurm", "--slurm-status-command", "squeue"),
    *("--slurm-init-seconds-before-status-checks", "2", "--configfile"),
)


def seconds_of_last_job(slurm: Slurm) -> float:
    """From its submission to its end."""
    jobs = slurm.ask("scontrol", "--oneliner", "show", "job").splitlines()
    said = [dict(word.split("=", 1) for word in job.split() if "=" in word) for job in jobs]
    last = max(said, key=lambda job: int(job["JobId"]))
    if last["JobState"] != "COMPLETED":
        sys.exit(f"job {last['JobId']} is {last['JobState']}")
    submitted, ended = (datetime.fromisoformat(last[key]) for key in ("SubmitTime", "EndTime"))
    return (ended - submitted).total_seconds()


def job(slurm: Slurm, project: Project, rounds: int) -> float:
    """Run up to so many rounds; how long the job for it took."""
    nodes = {"nodes": 1, "class": "bench", "cores": len(os.sched_getaffinity(0))}
    grid = {STUDY: {"include": [PART]}}
    project.configure(repositories=TINY, rounds=rounds, copies=1, grid=grid, cluster=nodes)
    run([sys.executable, "-m", "snakemake", *BY_SLURM, project.config], project.path)
    return seconds_of_last_job(slurm)


def main() -> None:
    """Measure, and print the rows of a table."""
    if missing := why_not():
        print(f"no Slurm can be started here: {missing}")
        return
    with (
        contextmanager(make_project)() as project,
        tempfile.TemporaryDirectory(prefix="vcsbench-", dir="/tmp") as folder,
        started(Path(folder)) as slurm,
    ):
        project.leave_out_counts()
        job(slurm, project, 1)
        single = job(slurm, project, 2)
        share = job(slurm, project, 2 + ROUNDS)
        cells = len([*(project.path / "results/cells").rglob("round1.json")])
    within = (share - single) / (ROUNDS - 1)
    against = "a job per share"
    show(
        [
            Row(
                f"{ROUNDS} rounds of a block, a job for each", ROUNDS * single, share, "s", against
            ),
            Row(
                "a cell-round, a job per block and round",
                single / cells,
                within / cells,
                "s",
                against,
            ),
            Row("what a job adds to it", (single - within) / cells, within / cells, "s", against),
        ]
    )


if __name__ == "__main__":
    main()

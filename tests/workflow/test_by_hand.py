"""A cell by hand: what it does is printed, it runs without keeping a result, and all can be removed."""

from __future__ import annotations

import os
import subprocess
import sys

from project import Project, needs

pytestmark = needs("svn", "svnserve", "hyperfine")

STUDY = "fsfs-san-2014"
CELL = "log/svn/ruby/f7/nopack/fast/hot-svn"
SMALL = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}}


def vcsbench(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vcsbench", *words, "--configfile", str(project.config)]
    environment = {**os.environ, "PYTHONPATH": str(project.path / "workflow")}
    return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True)


def test_show_run_and_clean(project: Project) -> None:
    project.configure(repositories=SMALL, rounds=1, copies=1)
    unprepared = vcsbench(project, "show", CELL)
    assert unprepared.returncode == 1 and "are not prepared" in unprepared.stderr
    assert project.snakemake("results/repositories/disk.json").returncode == 0

    shown = vcsbench(project, "show", CELL)
    assert shown.returncode == 0, shown.stderr
    assert "svn --non-interactive" in shown.stdout and "log -v --limit 50000" in shown.stdout
    assert "--threads" in shown.stdout and "2 that do not count, then 1 timed" in shown.stdout

    ran = vcsbench(project, "measure", f"{STUDY}/{CELL}")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("run 1: 0.") and "server_pid" in ran.stdout
    assert project.exports() == {}

    unknown = vcsbench(project, "measure", CELL.replace("ruby", "rubby"))
    assert unknown.returncode == 1 and f"near it are {CELL}" in unknown.stderr

    precious = project.path / "storage" / "precious"
    precious.write_text("mine")
    cleaned = vcsbench(project, "clean")
    assert cleaned.returncode == 0 and "removed" in cleaned.stdout
    assert [path.name for path in (project.path / "storage").iterdir()] == ["precious"]
    assert not list((project.path / "scratch").iterdir())
    assert not (project.path / "results").exists()

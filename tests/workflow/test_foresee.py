"""`vcsbench plan` and `doctor` with real programs: what they say, and that nothing of it stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from project import Project, needs

pytestmark = needs("svn", "svnserve", "hyperfine")

STUDY = "fsfs-san-2014"
SMALL = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}}
PART = {"command": "log", "format": "f7", "packing": "nopack", "config": "slow", "cache": "hot-os"}
GRID = {
    STUDY: {"include": [{**PART, "ra": ["svn", "file"]}, {**PART, "ra": "file", "packing": "pack"}]}
}


def started(project: Project, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "vcsbench", *words, "--configfile", str(project.config)]
    environment = {**os.environ, "PYTHONPATH": str(project.path / "workflow")}
    return subprocess.Popen(
        command,
        cwd="/",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def vcsbench(project: Project, *words: str) -> tuple[int, str, str]:
    with started(project, *words) as process:
        said, errors = process.communicate(timeout=300)
    return process.returncode, said, errors


def seconds(said: str) -> dict[str, float]:
    """The forecast by stage."""
    found = re.findall(r"^  (\S.*?) +(\d+) (s|min)\b", said.partition("\nTime")[2], re.MULTILINE)
    return {stage: int(number) * {"s": 1, "min": 60}[unit] for stage, number, unit in found}


def left(project: Project) -> list[str]:
    """What is left on the storages and in the folder for temporary files of what was made for a plan."""
    found = [*(project.path / "storage").iterdir(), *(project.path / "scratch").iterdir()]
    owner = re.compile(r"vcsbench-[0-9a-f]{8}-\d+-")
    temporary = {
        path.name for path in Path(tempfile.gettempdir()).iterdir() if owner.match(path.name)
    }
    return [str(path) for path in found] + sorted(temporary & project_folders(project))


def project_folders(project: Project) -> set[str]:
    from vcsbench.storages.place import Place

    ours = Place("/", project.path).path.name
    return {p.name for p in Path(tempfile.gettempdir()).glob(f"{ours}-*")}


@pytest.mark.slow
def test_a_plan_before_a_run_and_after_it(project: Project) -> None:
    project.configure(repositories=SMALL, rounds=1, copies=1, grid=GRID)
    code, said, errors = vcsbench(project, "plan")
    assert code == 0, errors
    assert "2 cells in 1 round, 1 skipped" in said and "2 cell-rounds to measure" in said
    assert "skipped, 1: ruby has 23 revisions, fewer than a shard" in said
    assert "from 2 cell-rounds on a sample" in said and seconds(said)["measuring"] > 0
    assert "svnserve listens on a free port of 127.0.0.1" in said and "Clears no caches." in said
    assert "nothing is concluded from fewer than 5 rounds" in said
    assert "10 % differences take some" in said
    assert left(project) == [] and not (project.path / "results").exists()

    assert project.measure(STUDY).returncode == 0
    before = project.exports()
    code, said, errors = vcsbench(project, "plan")
    assert code == 0 and "0 cell-rounds to measure, 2 are there" in said
    assert "from 2 cell-rounds of earlier runs" in said
    told = seconds(said)
    assert told["measuring"] == told["loading"] == told["copying"] == 0
    project.configure(repositories=SMALL, rounds=60, copies=1, grid=GRID)
    code, said, errors = vcsbench(project, "plan")
    # Two cells, 59 rounds, from half a second each.
    assert 20 < seconds(said)["measuring"] < 600 and "loading the first" not in errors
    assert project.exports() == before


def test_a_plan_that_was_killed_leaves_nothing_to_the_next(project: Project) -> None:
    project.configure(repositories=SMALL, rounds=1, copies=1, grid=GRID)
    with started(project, "plan") as process:
        assert process.stderr
        for line in process.stderr:
            if "measuring on them" in line:
                break
        process.kill()
    assert left(project)
    with started(project, "plan") as process:
        assert process.stderr
        for line in process.stderr:
            if "measuring on them" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode != 0
    assert left(project) == []


def test_a_bad_configuration_is_one_sentence(project: Project) -> None:
    project.configure(repositories=SMALL, rounds="many")
    for action, expected in (("plan", 1), ("doctor", 2)):
        code, said, errors = vcsbench(project, action)
        assert code == expected and said == ""
        assert "`rounds`" in errors and errors.count("\n") == 1 and "Traceback" not in errors

"""A run that has minutes, with the real workflow: it stops when all is answered or the time is up, goes on
from what there is, and measures only what is new."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from project import Project, measurements_of, needs
from vcsbench.statistics.budget import AROUND_S

pytestmark = needs("svn", "svnadmin", "hyperfine")

STUDY = "fsfs-san-2014"
FORMATS = {"command": "log", "ra": "file", "format": ["f6", "f7"], "packing": "nopack"}
# Two blocks of two cells each, one of which is measured twice.
GRID = {STUDY: {"include": [{**FORMATS, "config": "slow", "cache": ["hot-os", "hot-svn"]}]}}
RUBY = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}}
FIRST = 5
# What difference is worth noting: one that all intervals are narrower than, and one that none is.
COARSE, FINE = 1000, 0.5


def configure(project: Project, **keys: Any) -> None:
    base: dict[str, Any] = {"repositories": RUBY, "copies": 1, "duplicates": 1, "grid": GRID}
    base |= {
        "rounds": None,
        "minutes": 0.01,
        "min_effect_pct": FINE,
        "min_effect_pct_if_noisy": FINE,
    }
    project.configure(**base | keys)


def decisions(project: Project) -> list[dict[str, Any]]:
    """The decisions that were made, in their order."""
    files = (project.path / "results" / "budget" / STUDY).glob("pass*.json")
    return [said for file in sorted(files) if (said := json.loads(file.read_text()))]


def rounds(project: Project) -> Counter[str]:
    """How many rounds each cell was measured in."""
    return Counter(str(Path(export).parent) for export in project.exports())


def minutes_for(project: Project, seconds: float) -> float:
    """Minutes that leave so many seconds for more rounds."""
    return (decisions(project)[-1]["spent_s"] + AROUND_S + 5 + seconds) / 60


@pytest.mark.parametrize(("given", "decides"), [([], False), (["--minutes=7"], True)])
def test_minutes_that_are_asked_for_stand_above_the_rounds_of_a_file(
    project: Project, given: list[str], decides: bool
) -> None:
    configure(project, rounds=3, minutes=None)
    done = subprocess.run(
        ["./vcsbench", "run", "-n", f"--study={STUDY}", "--configfile", project.config, *given],
        cwd=project.path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("checkpoint decide" in done.stdout) == decides


@pytest.fixture(scope="module")
def measured(shared_project: Project) -> Project:
    """A project with fixed rounds that got minutes, which were up after the first rounds."""
    configure(shared_project, rounds=FIRST - 1)
    done = shared_project.measure(STUDY)
    assert done.returncode == 0 and not decisions(shared_project), done.stdout
    before = shared_project.exports()
    configure(shared_project)
    done = shared_project.measure(STUDY)
    assert done.returncode == 0, done.stdout
    assert all(shared_project.exports()[path] == at for path, at in before.items())
    return shared_project


def test_each_cell_gets_enough_rounds_though_the_time_is_up(measured: Project) -> None:
    assert set(rounds(measured).values()) == {FIRST} and len(rounds(measured)) == 6
    (last,) = decisions(measured)
    assert last["why"] == "time is up" and not last["gives"] and last["spent_s"] > 0


def test_there_is_nothing_to_do_then(measured: Project) -> None:
    assert "Nothing to be done" in measured.measure(STUDY).stdout


def test_what_the_set_up_took_is_taken_off(
    measured: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = measured.exports()
    monkeypatch.setenv("VCSBENCH_SETUP_SECONDS", "60")
    configure(measured, minutes=minutes_for(measured, 30))
    done = measured.measure(STUDY)
    assert done.returncode == 0, done.stdout
    assert decisions(measured)[-1]["why"] == "time is up" and measured.exports() == before


def test_with_more_minutes_it_goes_on_and_measures_only_what_is_new(measured: Project) -> None:
    before = measured.exports()
    configure(measured, minutes=minutes_for(measured, 12))
    done = measured.measure(STUDY)
    assert done.returncode == 0, done.stdout
    after = measured.exports()
    first, last = decisions(measured)[0], decisions(measured)[-1]
    assert all(after[path] == at for path, at in before.items())
    assert len(after) > len(before), last
    assert first["gives"] and last["why"] == "time is up"
    # Whole rounds of a block: those that the decisions say.
    got = rounds(measured)
    for block, number in last["rounds"].items():
        cache = block.rpartition("/")[2]
        assert {n for cell, n in got.items() if cache in cell} == {number}
    assert "Nothing to be done" in measured.measure(STUDY).stdout


@pytest.mark.slow
def test_what_becomes_stale_is_measured_again_to_the_same_rounds(measured: Project) -> None:
    before, had = measured.exports(), rounds(measured)
    client = measured.path / "config" / "servers" / "default" / "client" / "config"
    client.write_text(client.read_text() + "# edited\n")
    done = measured.measure(STUDY)
    assert done.returncode == 0, done.stdout
    after = measured.exports()
    assert all(after[path] > at for path, at in before.items())
    assert all(rounds(measured)[cell] >= number for cell, number in had.items())


def test_fixed_rounds_do_what_they_say_and_measure_nothing_that_is_there(measured: Project) -> None:
    before = measured.exports()
    configure(measured, rounds=FIRST - 1)
    done = measured.measure(STUDY)
    assert done.returncode == 0 and measured.exports() == before
    table = (measured.path / measurements_of(STUDY)).read_text().splitlines()
    assert len(table) == 1 + 6 * (FIRST - 1)


def test_it_ends_when_all_is_answered(project: Project) -> None:
    configure(project, minutes=60, min_effect_pct=COARSE)
    done = project.measure(STUDY)
    assert done.returncode == 0, done.stdout
    last = decisions(project)[-1]
    assert last["why"] == "answered" and last["spent_s"] < 1800
    # A round of which a run was not what its label says is measured once more.
    assert FIRST in rounds(project).values() and max(rounds(project).values()) < 4 * FIRST


def wait_for(project: Project, number: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a cell was measured in a round."""
    while not any(path.endswith(f"/round{number}.json") for path in project.exports()):
        assert process.poll() is None, "it has ended before"
        time.sleep(0.05)


@pytest.mark.slow
def test_killed_in_a_later_pass_it_goes_on_from_there(project: Project) -> None:
    configure(project, minutes=60)
    log = (project.path / "said").open("w")
    run = subprocess.Popen(
        project.command(measurements_of(STUDY)),
        cwd=project.path,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    wait_for(project, FIRST + 2, run)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    before, said = project.exports(), decisions(project)
    assert len(said) == 1 and said[0]["gives"]
    # Of another number of minutes than what was given with the sixty: the decision is kept all the same.
    configure(project, minutes=0.01)
    said[0]["rounds"] = dict.fromkeys(said[0]["rounds"], FIRST + 3)
    (project.path / "results" / "budget" / STUDY / "pass2.json").write_text(json.dumps(said[0]))
    done = project.measure(STUDY)
    assert done.returncode == 0, done.stdout
    after = project.exports()
    assert all(after[path] == at for path, at in before.items())
    assert all(number >= FIRST + 3 for number in rounds(project).values())
    assert decisions(project)[-1]["why"] == "time is up"


@pytest.mark.slow
def test_where_a_cell_fails_the_others_go_on(project: Project) -> None:
    broken = project.path / "config" / "servers" / "broken"
    shutil.copytree(project.path / "config" / "servers" / "slow", broken)
    (broken / "svnserve.args").write_text("--threads --no-such-option\n")
    grid = [{**FORMATS, "ra": "svn", "config": ["slow", "broken"], "cache": "hot-os"}]
    keys = {"duplicates": 4, "grid": {STUDY: {"include": grid}}}
    configure(project, **keys)
    done = project.measure(STUDY)
    assert done.returncode != 0 and "the other cells go on" in done.stdout, done.stdout
    assert [one["why"] for one in decisions(project)] == ["time is up"]
    configure(project, **keys, minutes=minutes_for(project, 15))
    assert project.measure(STUDY).returncode != 0
    assert decisions(project)[0]["gives"]
    found = rounds(project)
    assert found and not any("broken" in cell for cell in found)
    assert {*found.values()} == {*decisions(project)[-1]["rounds"].values()} and min(
        found.values()
    ) > FIRST
    report = (project.path / "reports" / f"{STUDY}.html").read_text()
    assert "no-such-option" in report, "the report is made, and names the failure"

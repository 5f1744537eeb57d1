"""Runs with a time budget: when they stop, and that they continue from earlier results."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from project import HOT, STUDY, measurements_of, needs, ruby
from vcsbench.statistics.budget import AROUND_S

pytestmark = [pytest.mark.slow, needs("svn", "svnadmin", "hyperfine")]

# Two formats that are equally fast. An export of a small history is long enough to compare.
FORMATS = {**HOT, "command": "export", "access": "file", "format": ["f7", "f8"]}
# Two blocks of two cells. One cell of each has a duplicate.
GRID = {**FORMATS, "cache": ["hot-os", "hot-server"]}
FIRST = 3
# Smallest relevant effect in percent: above all widths of intervals, and below all.
COARSE, FINE = 1000, 0.5
# On a quiet machine, a difference far above the noise is answered at once.
ENDS = ("time is up", "answered")


def configure(project, part=GRID, **keys):
    base = {"repositories": ruby(0.002), "duplicates": 1, "rounds": None, "minutes": 0.01}
    base |= {"thresholds": {"min_rounds": FIRST}, "min_effect_pct": FINE}
    project.configure(part, **base | keys)


def decisions(project):
    files = (project.path / "results" / "budget" / STUDY).glob("batch*.json")
    return [decision for file in sorted(files) if (decision := json.loads(file.read_text()))]


def rounds(project):
    return Counter(str(Path(export).parent) for export in project.exports())


def minutes_for(project, seconds):
    """Return the budget in minutes that leaves some seconds for more rounds."""
    return (decisions(project)[-1]["spent_s"] + AROUND_S + 5 + seconds) / 60


@pytest.fixture(scope="module")
def measured(shared_project):
    configure(shared_project, rounds=FIRST - 1)
    shared_project.succeed("measured")
    assert not decisions(shared_project)
    before = shared_project.exports()
    configure(shared_project)
    shared_project.succeed("measured")
    assert not shared_project.measured_since(before) & before.keys()
    return shared_project


def test_budget_spent_still_measures_the_minimum_of_rounds(measured):
    assert set(rounds(measured).values()) == {FIRST} and len(rounds(measured)) == 6
    (last,) = decisions(measured)
    assert last["why"] in ENDS and not last["gives"] and last["spent_s"] > 0
    assert measured.is_complete("measured")


def test_budget_includes_seconds_of_setup(measured, monkeypatch):
    before = measured.exports()
    monkeypatch.setenv("VCSBENCH_SETUP_SECONDS", "60")
    configure(measured, minutes=minutes_for(measured, 30))
    measured.succeed("measured")
    assert decisions(measured)[-1]["why"] in ENDS and measured.exports() == before


def test_larger_budget_continues_and_measures_new_rounds_only(measured):
    before = measured.exports()
    configure(measured, minutes=minutes_for(measured, 8))
    measured.succeed("measured")
    first, last = decisions(measured)[0], decisions(measured)[-1]
    new = measured.measured_since(before)
    assert not new & before.keys()
    if first["why"] == "answered":
        pytest.skip("this machine decides the comparisons in the fewest rounds")
    assert new and first["gives"] and last["why"] in ENDS
    # All cells of a block have the rounds of the decision.
    measured_rounds = rounds(measured)
    for block, number in last["rounds"].items():
        cache = block.rpartition("/")[2]
        assert {n for cell, n in measured_rounds.items() if cache in cell} == {number}
    assert measured.is_complete("measured")


def test_fixed_rounds_use_earlier_results(measured):
    before = measured.exports()
    configure(measured, rounds=FIRST - 1)
    measured.succeed("measured")
    assert measured.exports() == before
    table = (measured.path / measurements_of(STUDY)).read_text().splitlines()
    assert len(table) == 1 + 6 * (FIRST - 1)


def test_run_ends_when_all_questions_are_answered(measured):
    before = measured.exports()
    configure(measured, minutes=60, min_effect_pct=COARSE)
    measured.succeed("measured")
    last = decisions(measured)[-1]
    assert last["why"] == "answered" and last["spent_s"] < 1800
    assert not measured.measured_since(before) & before.keys()


def test_failed_cell_leaves_the_fewest_rounds_to_others(project):
    broken = project.path / "config" / "servers" / "broken"
    shutil.copytree(project.path / "config" / "servers" / "slow", broken)
    (broken / "svnserve.args").write_text("--threads --no-such-option\n")
    part = {**FORMATS, "access": "svn", "config": ["slow", "broken"]}
    configure(project, part=part, duplicates=4, minutes=60)
    project.tool("run", code=1)
    # A decision on more rounds needs the results of all cells.
    assert decisions(project) == []
    by_cell = rounds(project)
    assert by_cell and not any("broken" in cell for cell in by_cell)
    assert {*by_cell.values()} == {FIRST}
    assert "no-such-option" in project.page(STUDY)

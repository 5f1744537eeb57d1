"""Duplicates: measured in the blocks of their originals, shown and measured by hand."""

import json

import pytest

from project import needs
from vcsbench.plan.grid import DUPLICATE, is_duplicate

pytestmark = needs("svn", "svnadmin", "svnserve", "hyperfine")

STUDY = "fsfs-san-2014"
TINY = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.002, "seed": 1}}
# Two variance groups (access) of two cells. One cell of each gets a duplicate.
PART = {
    **{"command": "log", "ra": ["svn", "file"], "format": ["f6", "f7"], "packing": "nopack"},
    **{"config": "slow", "cache": "hot-os"},
}


def files(project):
    found = (project.path / "results" / "cells").rglob("round*.json")
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def orders(project, number):
    cells = project.path / "results" / "cells" / STUDY
    return {
        str(path.parent.relative_to(cells)): json.loads(path.read_text())["order"]
        for path in cells.rglob(f"round{number}.context.json")
    }


@pytest.fixture(scope="module")
def measured(shared_project):
    grid = {STUDY: {"include": [PART]}}
    shared_project.configure(repositories=TINY, rounds=2, copies=1, grid=grid, duplicates=1)
    shared_project.succeed("measured")
    return shared_project


def duplicates_of(project):
    return [path for path in orders(project, 1) if is_duplicate(path)]


def test_duplicates_are_measured_in_the_blocks_of_their_originals(measured):
    duplicates = duplicates_of(measured)
    assert sorted(path.split("/")[1] for path in duplicates) == ["file", "svn"]
    for number in (1, 2):
        positions = {
            path: at for path, at in orders(measured, number).items() if "/empty/" not in path
        }
        originals = {path.removesuffix(DUPLICATE) for path in duplicates}
        assert len(positions) == 4 + 2 and originals < set(positions)
        assert max(positions.values()) - min(positions.values()) == 5


def test_duplicate_is_shown_and_measured_by_hand(measured):
    before = files(measured)
    duplicate = next(path for path in duplicates_of(measured) if "/svn/" in path)
    shown, run = (measured.tool(command, duplicate) for command in ("show", "measure"))
    assert shown.returncode == run.returncode == 0, shown.stdout + run.stdout
    assert f"{duplicate}, round 1" in shown.stdout and duplicate.endswith(DUPLICATE)
    assert "log -v --limit 50000" in shown.stdout and "run 1: 0." in run.stdout
    assert files(measured) == before

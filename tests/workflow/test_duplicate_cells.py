"""Duplicates: measured in the blocks of their originals, shown and measured by hand, in no table."""

import json

import pytest

from project import needs
from vcsbench.plan.grid import DUPLICATE, is_duplicate
from vcsbench.statistics.contract import NOT_SHOWN, TOO_NOISY

pytestmark = needs("svn", "svnadmin", "svnserve", "hyperfine")

STUDY = "fsfs-san-2014"
TINY = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.002, "seed": 1}}
# Two variance groups (access) of two cells. One cell of each gets a duplicate.
PART = {
    **{"command": "log", "ra": ["svn", "file"], "format": ["f6", "f7"], "packing": "nopack"},
    **{"config": "slow", "cache": "hot-os"},
}
TABLE = f"tables/{STUDY}/f6-vs-f7.csv"


def measure(project, rounds):
    grid = {STUDY: {"include": [PART]}}
    project.configure(repositories=TINY, rounds=rounds, copies=1, grid=grid, duplicates=1)
    project.succeed(f"results/tables/{STUDY}")


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
    measure(shared_project, 2)
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


def test_tables_have_originals_only_with_duplicate_sd(measured):
    runs = measured.rows(f"measurements/{STUDY}.csv")
    assert sum(is_duplicate(run["cell"]) for run in runs) == 2 * 2 and len(runs) == 2 * (4 + 2)
    table = measured.rows(TABLE)
    assert sorted(row["ra"] for row in table) == ["file", "svn"]
    for row in table:
        assert 1 <= float(row["n"]) <= 2, row  # a busy machine makes runs invalid
        assert row["call"] in ("faster", "slower", NOT_SHOWN, TOO_NOISY), row
        if float(row["n"]) == 2:  # a single round has no error
            assert float(row["error"]) > float(row["twin_sd"]) >= 0, row
        assert "no-duplicates" not in row["flags"].split()


def test_duplicate_is_shown_and_measured_by_hand(measured):
    before = files(measured)
    duplicate = next(path for path in duplicates_of(measured) if "/svn/" in path)
    shown, run = (measured.tool(command, duplicate) for command in ("show", "measure"))
    assert shown.returncode == run.returncode == 0, shown.stdout + run.stdout
    assert f"{duplicate}, round 1" in shown.stdout and duplicate.endswith(DUPLICATE)
    assert "log -v --limit 50000" in shown.stdout and "run 1: 0." in run.stdout
    assert files(measured) == before

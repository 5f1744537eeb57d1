"""Twins on the real workflow: measured beside their originals, shown and run by hand, in no table."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from project import Project, needs
from vcsbench.plan.grid import DUPLICATE, is_duplicate
from vcsbench.statistics.contract import NOT_SHOWN, TOO_NOISY

pytestmark = needs("svn", "svnadmin", "svnserve", "hyperfine")

STUDY = "fsfs-san-2014"
TINY = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.002, "seed": 1}}
# Two classes (access), of two cells each: one of the two gets a twin.
PART = {
    **{"command": "log", "ra": ["svn", "file"], "format": ["f6", "f7"], "packing": "nopack"},
    **{"config": "slow", "cache": "hot-os"},
}
TABLE = f"results/tables/{STUDY}/f6-vs-f7.csv"


def rows(project: Project, path: str) -> list[dict[str, str]]:
    with (project.path / path).open() as file:
        return list(csv.DictReader(file))


def measure(project: Project, rounds: int) -> None:
    grid = {STUDY: {"include": [PART]}}
    project.configure(repositories=TINY, rounds=rounds, copies=1, grid=grid, duplicates=1)
    done = project.snakemake(str(Path(TABLE).parent))
    assert done.returncode == 0, done.stdout


def files(project: Project) -> dict[Path, tuple[bytes, int]]:
    """What each file of the cells holds, and when it was written."""
    found = (project.path / "results" / "cells").rglob("round*.json")
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def orders(project: Project, number: int) -> dict[str, int]:
    """The places of the cells in the order of a round's measuring."""
    cells = project.path / "results" / "cells" / STUDY
    return {
        str(path.parent.relative_to(cells)): json.loads(path.read_text())["order"]
        for path in cells.rglob(f"round{number}.context.json")
    }


@pytest.fixture(scope="module")
def measured(shared_project: Project) -> Project:
    measure(shared_project, 2)
    return shared_project


def twins_of(project: Project) -> list[str]:
    return [path for path in orders(project, 1) if is_duplicate(path)]


def test_twins_are_measured_in_the_blocks_of_their_originals(measured: Project) -> None:
    twins = twins_of(measured)
    assert sorted(path.split("/")[1] for path in twins) == ["file", "svn"]
    for number in (1, 2):
        places = {
            path: at for path, at in orders(measured, number).items() if "/empty/" not in path
        }
        assert len(places) == 4 + 2 and {path.removesuffix(DUPLICATE) for path in twins} < set(
            places
        )
        assert max(places.values()) - min(places.values()) == 5


def test_tables_hold_originals_only_and_say_how_far_equal_cells_differ(measured: Project) -> None:
    runs = rows(measured, f"results/measurements/{STUDY}.csv")
    assert sum(is_duplicate(run["cell"]) for run in runs) == 2 * 2 and len(runs) == 2 * (4 + 2)
    table = rows(measured, TABLE)
    assert sorted(row["ra"] for row in table) == ["file", "svn"], "one row of each access"
    for row in table:
        assert float(row["n"]) == 2, row
        assert row["call"] in ("faster", "slower", NOT_SHOWN, TOO_NOISY), row
        assert float(row["error"]) > float(row["twin_sd"]) >= 0, row
        assert "no-duplicates" not in row["flags"].split()


def test_a_twin_can_be_shown_and_run_by_hand(measured: Project) -> None:
    before = files(measured)
    environment = {**os.environ, "PYTHONPATH": str(measured.path / "workflow")}
    twin = next(path for path in twins_of(measured) if "/svn/" in path)
    said = {}
    for word in ("show", "measure"):
        command = [sys.executable, "-m", "vcsbench", word, twin]
        done = subprocess.run(
            [*command, "--configfile", str(measured.config)],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        said[word] = done.stdout
    assert f"{twin}, round 1" in said["show"] and twin.endswith(DUPLICATE)
    assert "log -v --limit 50000" in said["show"] and said["measure"].startswith("run 1: 0.")
    assert files(measured) == before


def test_more_rounds_measure_only_the_new_ones_of_twins_too(measured: Project) -> None:
    before = files(measured)
    measure(measured, 3)
    after = files(measured)
    assert {path: after[path] for path in before} == before
    new = {path.name for path in after.keys() - before.keys()}
    assert new == {"round3.json", "round3.context.json"}
    ours = [path for path in before if "/empty/" not in str(path)]
    assert len(after) - len(before) == len(ours) // 2
    assert {float(row["n"]) for row in rows(measured, TABLE)} == {3}

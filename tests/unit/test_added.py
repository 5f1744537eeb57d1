"""What is added to a grid makes nothing stale that was there."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from vcsbench.config.configuration import merge
from vcsbench.config.validation import read_yaml
from vcsbench.run.project import Project

ROOT = Path(__file__).parents[2]
DEFAULT = ROOT / "config" / "config.yaml"
STUDY = "fsfs-san-2014"
PART: dict[str, Any] = {
    "command": "log",
    "ra": ["file", "svn"],
    "format": "f7",
    "packing": "nopack",
    "config": "slow",
    "cache": ["cold", "hot-svn"],
}
Jobs = dict[tuple[str, int], tuple[str, ...]]


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def jobs(part: dict[str, Any], rounds: int = 2) -> Jobs:
    """Of each cell-round what Snakemake holds it to: its recipe, and the files that it is made from."""
    over = {
        "studies": [STUDY],
        "grid": {STUDY: {"include": [copy.deepcopy(part)]}},
        "rounds": rounds,
        "duplicates": 0,
        "minutes": None,
    }
    project = Project(merge(read_yaml(DEFAULT), over), ROOT, [DEFAULT])
    return {
        (path, number): (project.plan.recipe_json(study, path), *project.records(study, path))
        for study, path, number in project.plan.order
        if "/empty/" not in path
    }


def test_an_axis_value_adds_its_cells_and_makes_no_other_stale() -> None:
    before, after = jobs(PART), jobs({**PART, "format": ["f7", "f8"]})
    assert len(before) == 8
    assert {key: after[key] for key in before} == before
    added = {path for path, _ in after.keys() - before.keys()}
    assert len(added) == 4 and all("/f8/" in path for path in added)


def test_a_round_adds_itself_and_makes_no_other_stale() -> None:
    before, after = jobs(PART), jobs(PART, rounds=3)
    assert {key: after[key] for key in before} == before
    assert {number for _, number in after.keys() - before.keys()} == {3}
    assert len(after) == 12

"""The checks of studies, commands and grids before anything is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from vcsbench.config.configuration import merge
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.run.project import Project

ROOT = Path(__file__).parents[2]
DEFAULT = ROOT / "config" / "config.yaml"
LOG = {"command": "log", "ra": "file", "config": "slow", "cache": "hot-os"}
ELAPSED = {"elapsed": {"metric": "elapsed_s", "rows": [], "columns": []}}


@pytest.fixture
def study() -> dict[str, Any]:
    """Return the study of formats with one command."""
    definition = read_yaml(ROOT / "config" / "studies" / "fsfs-san-2014.yaml")
    return {**definition, "commands": {"log": definition["commands"]["log"]}}


def error_of(root: Path, study: dict[str, Any], part: dict[str, Any]) -> str:
    """Return the error of a configuration with the study `own` and a part of its grid."""
    (root / "config" / "studies").mkdir(parents=True)
    (root / "config" / "servers").symlink_to(ROOT / "config" / "servers")
    # The default configuration has grids of its own studies.
    for name in ("own", *read_yaml(DEFAULT)["grid"]):
        (root / "config" / "studies" / f"{name}.yaml").write_text(yaml.safe_dump(study))
    keys = {"studies": ["own"], "grid": {"own": {"include": [part]}}}
    with pytest.raises(UserError) as caught:
        Project(merge(read_yaml(DEFAULT), keys), root, [DEFAULT])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_project_published_command_without_definition_is_refused(
    tmp_path: Path, study: dict[str, Any]
) -> None:
    text = error_of(tmp_path, study, {"cache": "hot-os"})
    assert "`commands` has no null-log" in text and "`grid.own` only log" in text


def test_project_unknown_storage_is_refused(tmp_path: Path, study: dict[str, Any]) -> None:
    study["axes"] |= {"storage": ["disk", "tape"]}
    text = error_of(tmp_path, study, {**LOG, "storage": ["disk", "tape"]})
    assert "`storages.tape` is missing" in text and "disk, ssd" in text


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ({"work": "guess"}, "`commands.log.work`: no kind 'guess'"),
        ({"input": "tea-leaves"}, "`commands.log.input`: no kind 'tea-leaves'"),
        ({"work": "tree"}, "`commands.log.work`: 'tree' inspects the output"),
        ({"steps": {"prepare": ["pray"]}}, "`commands.log.steps`: no step 'pray'"),
    ],
)
def test_project_unknown_name_in_command_is_refused(
    tmp_path: Path, study: dict[str, Any], command: dict[str, Any], expected: str
) -> None:
    study["commands"]["log"] |= command
    assert error_of(tmp_path, study, LOG).startswith(f"config/studies/own.yaml: {expected}")


def test_project_repository_without_its_axes_is_refused(
    tmp_path: Path, study: dict[str, Any]
) -> None:
    axes = {"command": ["log"], "ra": ["file"], "repo": "repositories", "cache": ["hot-os"]}
    questions = {"ra": {"question": "http or svn?"}}
    study |= {"axes": axes, "variance_group": [], "tables": ELAPSED, "questions": questions}
    text = error_of(tmp_path, study, {"command": "log"})
    assert "needs the axes repo, format, packing; the study has no format" in text


def test_project_block_of_unknown_axis_is_refused(tmp_path: Path, study: dict[str, Any]) -> None:
    study["block"] = ["command", "moon"]
    assert "`block`: the study has no axis moon" in error_of(tmp_path, study, LOG)


def test_preparation_records_are_those_of_the_study() -> None:
    studies = ["fsfs-san-2014", "tree-building-2007"]
    project = Project(merge(read_yaml(DEFAULT), {"studies": studies}), ROOT, [DEFAULT])
    formats, trees = ({*project.preparation_records(study)} for study in studies)
    ruby, linux = "results/loaded/ruby.json", "results/loaded/linux.json"
    assert ruby in formats - trees and linux in trees - formats
    assert any(file.startswith("results/calls/tree-building-2007/") for file in trees)

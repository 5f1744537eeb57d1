"""What a study's file and the grid ask for that cannot be: one sentence, before anything is measured."""

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
ELAPSED = {"elapsed": {"metric": "elapsed_s", "rows": [], "columns": []}}
LOG = {"command": "log", "ra": "file", "config": "slow", "cache": "hot-os"}


def sentence(root: Path, study: str, part: dict[str, Any], **over: Any) -> str:
    """What is said of the default configuration with one study and one part of its grid; `root` has the
    studies."""
    over = {"studies": [study], "grid": {study: {"include": [part]}}, **over}
    with pytest.raises(UserError) as caught:
        Project(merge(read_yaml(DEFAULT), over), root, [DEFAULT])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def own(tmp_path: Path, changes: dict[str, Any], **command: Any) -> Path:
    """A folder with a study `own`: that of the formats, its only command changed."""
    (tmp_path / "config" / "studies").mkdir(parents=True)
    (tmp_path / "config" / "servers").symlink_to(ROOT / "config" / "servers")
    study = read_yaml(ROOT / "config" / "studies" / "fsfs-san-2014.yaml")
    study["commands"] = {"log": {**study["commands"]["log"], **command}}
    text = yaml.safe_dump({**study, **changes})
    (tmp_path / "config" / "studies" / "own.yaml").write_text(text)
    # The default's grids of its own studies name these files, too.
    for name in read_yaml(DEFAULT)["grid"]:
        (tmp_path / "config" / "studies" / f"{name}.yaml").write_text(text)
    return tmp_path


def test_a_command_that_was_published_and_is_not_measured(tmp_path: Path) -> None:
    text = sentence(own(tmp_path, {}), "own", {"cache": "hot-os"})
    assert "`commands` has no null-log" in text and "`grid.own`: log" in text


def test_a_storage_that_nobody_named(tmp_path: Path) -> None:
    axes = read_yaml(ROOT / "config" / "studies" / "fsfs-san-2014.yaml")["axes"]
    root = own(tmp_path, {"axes": {**axes, "storage": ["disk", "tape"]}})
    text = sentence(root, "own", {**LOG, "storage": ["disk", "tape"]})
    assert "`storages.tape` is missing" in text and "disk, ssd" in text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({"work": "guess"}, "`commands.log.work`: there is no kind 'guess'"),
        ({"input": "tea-leaves"}, "`commands.log.input`: there is no kind 'tea-leaves'"),
        ({"work": "tree"}, "`commands.log.work`: tree is what a command wrote"),
        ({"steps": {"prepare": ["pray"]}}, "`commands.log.steps`: there is no step 'pray'"),
    ],
)
def test_what_a_command_names_has_to_be_there(
    tmp_path: Path, command: dict[str, Any], said: str
) -> None:
    text = sentence(own(tmp_path, {}, **command), "own", LOG)
    assert said in text and "config/studies/own.yaml" in text


def test_a_repository_needs_its_axes(tmp_path: Path) -> None:
    axes = {"command": ["log"], "ra": ["file"], "repo": "repositories", "cache": ["hot-os"]}
    ra = {"ra": {"question": "http or svn?"}}
    root = own(tmp_path, {"axes": axes, "variance_group": [], "tables": ELAPSED, "questions": ra})
    text = sentence(root, "own", {"command": "log"})
    assert "needs the axes repo, format, packing; the study has no format" in text


def test_a_block_is_of_axes_of_the_study(tmp_path: Path) -> None:
    text = sentence(own(tmp_path, {"block": ["command", "moon"]}), "own", LOG)
    assert "`block`: the study has no axis moon" in text


def test_only_what_a_study_reads_is_prepared_for_it() -> None:
    studies = ["fsfs-san-2014", "tree-building-2007"]
    project = Project(merge(read_yaml(DEFAULT), {"studies": studies}), ROOT, [DEFAULT])
    formats, trees = (project.prepared(study) for study in studies)
    assert "results/loaded/ruby.json" in formats and "results/loaded/linux.json" not in formats
    assert "results/loaded/linux.json" in trees and "results/loaded/ruby.json" not in trees
    assert any(file.startswith("results/calls/tree-building-2007/") for file in trees)

"""One cold run of a command is discarded over each copy, until that may be forgotten."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from vcsbench.measure.cell_round import DISCARDED_RUN_S, DiscardedRunCache
from vcsbench.subjects import Subject

SEEN = {"read_bytes": 4096, "at": "2026-11-21T07:00:00+00:00"}


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    for name in ("storage", "copy1", "copy2"):
        (tmp_path / name).mkdir()
    return {"argv": "{svn} log {url}", "stdin": "", "storage": {"path": str(tmp_path / "storage")}}


def discarded(recipe: dict[str, Any], name: str = "copy1", **other: str) -> DiscardedRunCache:
    subject = Subject(recipe, 1, Path())
    subject.folders = [Path(recipe["storage"]["path"]).parent / name]
    return DiscardedRunCache(recipe | other, subject)


def test_a_run_is_remembered_for_its_command_and_copy(recipe: dict[str, Any]) -> None:
    assert discarded(recipe).read() == {}
    discarded(recipe).write(SEEN)
    assert discarded(recipe).read() == SEEN
    assert discarded(recipe, "copy2").read() == {}
    assert discarded(recipe, argv="{svn} export {url}").read() == {}
    assert discarded(recipe, "gone").read() == {}
    assert DiscardedRunCache(recipe, None).read() == {}


def test_a_copy_that_was_made_anew_knows_of_none(recipe: dict[str, Any], tmp_path: Path) -> None:
    discarded(recipe).write(SEEN)
    (tmp_path / "copy1").rename(tmp_path / "old")
    (tmp_path / "copy1").mkdir()
    assert discarded(recipe).read() == {}


def test_a_run_is_forgotten_unless_other_cold_runs_follow(recipe: dict[str, Any]) -> None:
    of = discarded(recipe)
    of.write(SEEN)
    assert of.file
    long_ago = time.time() - DISCARDED_RUN_S - 1
    os.utime(of.file, (long_ago, long_ago))
    assert of.read() == {}
    of.renew()
    assert of.read() == SEEN
    os.utime(of.file, (long_ago, long_ago))
    discarded(recipe, "copy2").write(SEEN)
    assert not of.file.exists(), "what is forgotten is removed"


def test_what_was_cut_short_is_none(recipe: dict[str, Any]) -> None:
    of = discarded(recipe)
    of.write(SEEN)
    assert of.file
    of.file.write_text(of.file.read_text()[:10])
    assert of.read() == {}

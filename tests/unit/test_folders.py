"""The folder of which the log of a folder is asked: the largest right below the tree that is exported."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from project import needs
from vcsbench.prepare.loader import largest_folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    subprocess.run(["svnadmin", "create", path], check=True)
    folders = [
        "trunk",
        "trunk/a",
        "trunk/a/x",
        "trunk/größer",
        "trunk/größer/x",
        "trunk/größer/y",
        "odd",
    ]
    urls = [f"file://{path}/{name}" for name in folders]
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    subprocess.run(["svn", "mkdir", "-q", "-m", "", *urls], check=True, env=environment)
    return path


@needs("svn", "svnadmin", "svnlook")
def test_it_is_the_one_with_the_most_in_it_whatever_its_name_is(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    assert largest_folder(repository, "trunk") == "trunk/größer"


@needs("svn", "svnadmin", "svnlook")
def test_a_tree_may_be_the_root_or_have_no_folder(repository: Path) -> None:
    assert largest_folder(repository, "") == "trunk"
    assert largest_folder(repository, "odd") == "odd"

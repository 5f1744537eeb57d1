"""Real git histories: the exported trunk equals the git tree all over the history."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from git_histories import commits_of, exported, git_tree, write_and_load
from vcsbench import sources
from vcsbench.sources.dump_format import subversion_path

REVISIONS = 50
REAL = [path for path in os.environ.get("VCSBENCH_REAL_GIT", "").split(":") if path]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not REAL, reason="VCSBENCH_REAL_GIT is not set: paths of git repositories, colons between"
    ),
    pytest.mark.skipif(
        not (shutil.which("svnadmin") and shutil.which("git")),
        reason="not installed: svnadmin or git",
    ),
]


@pytest.mark.parametrize("path", REAL or [""])
def test_the_trees_of_a_real_history(path: str, tmp_path: Path) -> None:
    source = sources.open_source("real", {"source": "git", "path": path})
    facts = write_and_load(source, tmp_path / "svn")
    commits = commits_of(Path(path))
    assert facts.revisions == len(commits) + 1
    assert len(commits) >= 1000
    last = len(commits) - 1
    sample = sorted({last * number // (REVISIONS - 1) for number in range(REVISIONS)})
    for number in sample:
        tree = git_tree(Path(path), commits[number])
        expected = {subversion_path(name): entry for name, entry in tree.items()}
        assert exported(tmp_path / "svn", number + 2) == expected, commits[number]

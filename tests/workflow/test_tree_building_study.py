"""The study of tree building from grid to report, on a tree with links, modes and empty folders."""

import json
import os
import random

import pytest

from project import ROOT, invalid_flags, needs
from vcsbench.machine import can_drop_caches

STUDY = "tree-building-2007"

pytestmark = needs("hyperfine", "svn", "svnadmin")


def configure(project, *include, **over):
    project.configure(*include, study=STUDY, **over)
    built = ROOT / ".tools"
    if built.exists() and not (project.path / ".tools").exists():
        (project.path / ".tools").symlink_to(built)


@pytest.fixture
def tree(tmp_path):
    """A directory with files, links and the folder of a version control system."""
    root = tmp_path / "tree"
    for number in range(40):
        folder = root / f"part {number % 7}" / f"{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}").write_bytes(random.Random(number).randbytes(10_000 * number))
    (root / "none").mkdir()
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    os.link(root / "run.sh", root / "part 1" / "run too.sh")
    (root / "link").symlink_to("part 1/0")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("not a part of it")
    return root


@pytest.mark.slow
@needs("rsync", "git", "strace")
@pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches")
def test_tree_study_runs_from_grid_to_report(project, tree):
    strategies = ["cp", "naive", "rename", "git worktree", "svn export", "tar", "one file"]
    part = {"repo": "mine", "filesystem": "storage"}
    configure(
        project,
        {**part, "strategy": strategies, "cache": "hot-os"},
        {**part, "strategy": ["cp", "naive"], "cache": "cold"},
        {**part, "strategy": "cp reflink", "cache": "hot-os"},
        repositories={"mine": {"source": "directory", "path": str(tree)}},
    )
    project.succeed()
    runs = project.rows(f"measurements/{STUDY}.csv")
    assert invalid_flags(runs) == []
    works = {json.loads(run["work"]).get("digest") for run in runs if "apart" not in run["work"]}
    assert len(works) == 1
    hot = {run["strategy"]: run for run in runs if run["cache"] == "hot-os"}
    cold = {run["strategy"]: run for run in runs if run["cache"] == "cold"}
    work = json.loads(hot["cp"]["work"])
    assert (work["files"], work["symlinks"]) == (42, 1), "without .git"
    assert "no-hard-links" in hot["cp"]["flags"]
    assert "no-" not in hot["tar"]["flags"]
    assert "no-empty-folders" in hot["git worktree"]["flags"]
    assert float(cold["cp"]["resident_before"]) < 0.1
    assert int(cold["cp"]["client_read_bytes"]) > 0
    assert float(hot["cp"]["sync_s"]) >= 0
    assert int(hot["rename"]["renames"]) > 50 > int(hot["naive"]["renames"])
    (folder,) = (project.path / "storage").glob("vcsbench-*")
    assert not list((folder / "targets").iterdir())

    shares = project.rows(f"tables/{STUDY}/cp-vs-others.csv")
    candidates = {"naive", "rename", "git worktree", "svn export", "tar"}
    assert {row["candidate"] for row in shares} == candidates
    assert all(row["value"] and not row["withheld"] for row in shares)
    best = project.rows(f"tables/{STUDY}/best.csv")
    assert len(best) == 9
    rows = project.rows(f"tables/{STUDY}/on-device.csv")
    on_device = {row["strategy"]: float(row["value"]) for row in rows}
    best_hot = [row for row in best if row["cache"] == "hot-os"]
    assert all(on_device[row["strategy"]] >= float(row["value"]) for row in best_hot)
    verdicts = {row["id"]: row for row in project.rows(f"findings/{STUDY}.csv")}
    assert verdicts["rename-vs-naive"]["measured"]
    assert verdicts["transform-vs-cp"]["verdict"] == "not measured"
    index = (project.path / "reports/index.html").read_text()
    assert f"{STUDY}.html#finding-rename-vs-naive" in index
    assert "make report STUDY=working-copy-2012" in index


@pytest.mark.slow
def test_strategy_building_another_tree_fails_its_cell(project, tree):
    strategy = project.path / "workflow/vcsbench/subjects/strategies.py"
    strategy.write_text(strategy.read_text().replace("original.read()", "original.read()[:100]"))
    part = {"repo": "mine", "filesystem": "storage", "cache": "hot-os", "strategy": "naive"}
    configure(project, part, repositories={"mine": {"source": "directory", "path": str(tree)}})
    assert "wrote another tree" in project.fail("measured")

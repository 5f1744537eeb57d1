"""Bad input through Snakemake: an error that names the key or the file, and no traceback."""

import os
import subprocess

import pytest

from project import mounted, needs

pytestmark = needs("svn", "svnadmin", "hyperfine", "git")

STUDY = "fsfs-san-2014"
PART = {"command": "log", "ra": "file", "format": "f7", "config": "slow", "cache": "hot-os"}
GRID = {STUDY: {"include": [{**PART, "packing": "nopack"}]}}
SMALL = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.001, "seed": 1}}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes root to mount a file system")


def error(project, **keys):
    project.configure(**{"repositories": SMALL, "rounds": 1, "copies": 1, **keys})
    return project.fail("measured")


def test_configuration_unknown_key_on_command_line_is_refused(shared_project):
    shared_project.configure(repositories=SMALL)
    assert "`rounds`?" in shared_project.fail("-n", "--config", "roundz=3")


def test_repository_empty_is_refused(shared_project):
    for kind, argv, reason in (
        ("svn", ["svnadmin", "create"], "no revision"),
        ("git", ["git", "init", "-q"], "no commit"),
    ):
        path = shared_project.path / f"empty-{kind}"
        subprocess.run([*argv, path], check=True)
        text = error(shared_project, repository=str(path))
        assert str(path) in text and reason in text, text


def test_repository_below_one_shard_skips_packed_cells(project):
    project.configure(repositories=SMALL, rounds=1, copies=1, grid={STUDY: {"include": [PART]}})
    project.succeed("measured")
    assert len(project.exports()) == 1
    skips = {row["packing"]: row["skip"] for row in project.rows(f"grid/{STUDY}.csv")}
    assert "46 revisions" in skips["pack"]


@as_root
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("size=3m,mode=755", "are needed for repositories and their copies"),
        ("ro", "Read-only file system"),
    ],
)
def test_storage_too_small_or_read_only_is_refused_before_loading(project, options, expected):
    with mounted(project.path / "storage", options) as storage:
        text = error(project, grid=GRID, copies=20)
    assert expected in text and str(storage) in text
    assert not (project.path / "results" / "repositories" / "disk.json").exists()


@as_root
def test_storage_closed_to_the_user_of_servers_is_refused(project):
    closed = project.path / "storage"
    closed.chmod(0o700)
    assert f"cannot enter {closed}" in error(project, grid=GRID)

"""Bad input through Snakemake: one clear sentence, an exit code that is not 0, no traceback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from project import Project, needs

pytestmark = needs("svn", "svnadmin", "hyperfine", "git")

STUDY = "fsfs-san-2014"
PART = {"command": "log", "ra": "file", "format": "f7", "config": "slow", "cache": "hot-os"}
SMALL = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.001, "seed": 1}}


def said(project: Project, **keys: Any) -> str:
    """What Snakemake says to a configuration that it refuses."""
    project.configure(**{"repositories": SMALL, "rounds": 1, "copies": 1, **keys})
    done = project.measure(STUDY)
    assert done.returncode != 0
    assert "Traceback" not in done.stdout, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"storge": "disk"}, "Did you mean `storage`?"),
        ({"copies": "three"}, "test.yaml: `copies`: 'three'"),
        (
            {"grid": {STUDY: {"include": [{"config": "turbo"}]}}},
            "'turbo' has no definition; config/servers has",
        ),
        (
            {"grid": {STUDY: {"include": [PART], "exclude": [{"ra": "file"}]}}},
            f"`grid.{STUDY}`: no cell is left.",
        ),
        ({"repository": "/no/such/place"}, "/no/such/place: there is no such file or folder"),
        ({"repository": "/usr/share"}, "/usr/share: is neither a Subversion repository"),
        ({"storages": {"disk": "/no/storage"}}, "/no/storage: the storage is not a folder"),
    ],
)
def test_a_configuration_that_is_wrong(
    project: Project, keys: dict[str, Any], sentence: str
) -> None:
    assert sentence in said(project, **keys)


def test_a_key_on_the_command_line(project: Project) -> None:
    project.configure(repositories=SMALL)
    command = [*project.command("-n"), "--config", "roundz=3"]
    done = subprocess.run(command, cwd=project.path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "Did you mean `rounds`?" in done.stderr + done.stdout


def test_empty_repositories(project: Project) -> None:
    svn, git = project.path / "empty-svn", project.path / "empty-git"
    subprocess.run(["svnadmin", "create", svn], check=True)
    subprocess.run(["git", "init", "-q", git], check=True)
    for path in (svn, git):
        text = said(project, repository=str(path))
        assert str(path) in text and ("no revision" in text or "no commit" in text), text


def test_fewer_revisions_than_a_shard_are_said_not_hidden(project: Project) -> None:
    project.configure(repositories=SMALL, rounds=1, copies=1, grid={STUDY: {"include": [PART]}})
    assert project.snakemake().returncode == 0
    assert len(project.exports()) == 1
    sentence = "46 revisions, fewer than a shard of 1000: there is nothing to pack"
    assert sentence in (project.path / "results" / "grid" / f"{STUDY}.csv").read_text()
    assert "there is nothing to pack" in (project.path / "reports" / f"{STUDY}.html").read_text()


@pytest.fixture
def small_disk(project: Project) -> Iterator[Path]:
    """A storage of 3 MB."""
    if os.geteuid() != 0:
        pytest.skip("takes root to mount a file system")
    path = project.path / "storage"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=755", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


def test_a_storage_without_room_is_said_before_anything_is_loaded(
    project: Project, small_disk: Path
) -> None:
    grid = {STUDY: {"include": [{**PART, "packing": "nopack"}]}}
    text = said(project, grid=grid, copies=20)
    assert "are needed for repositories and their copies" in text
    assert str(small_disk) in text
    assert not (project.path / "results" / "repositories" / "disk.json").exists()


def test_a_read_only_storage(project: Project) -> None:
    if os.geteuid() != 0:
        pytest.skip("takes root to mount a file system")
    path = project.path / "storage"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", path], check=True)
    try:
        text = said(project, grid={STUDY: {"include": [{**PART, "packing": "nopack"}]}})
    finally:
        subprocess.run(["umount", path], check=True)
    assert "cannot be made: Read-only file system; name another folder" in text


def test_a_storage_that_the_servers_user_cannot_enter(project: Project) -> None:
    if os.geteuid() != 0:
        pytest.skip("the servers run as the user who runs the workflow")
    closed = project.path / "storage"
    closed.chmod(0o700)
    text = said(project, grid={STUDY: {"include": [{**PART, "packing": "nopack"}]}})
    assert f"cannot enter {closed}" in text


def test_what_is_in_the_way_is_left_alone(project: Project) -> None:
    from vcsbench.storages.workdir import WorkDir

    place = WorkDir(project.path / "storage", project.path)
    (place.path / "repositories").mkdir(parents=True)
    (place.path / "repositories" / "precious").write_text("mine")
    text = said(project, grid={STUDY: {"include": [{**PART, "packing": "nopack"}]}})
    assert "vcsbench did not make it" in text
    assert (place.path / "repositories" / "precious").read_text() == "mine"

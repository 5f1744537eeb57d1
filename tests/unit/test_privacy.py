"""Whether all users of the machine can read a source."""

import os
import shutil

import pytest

from git_histories import git
from project import needs, open_folder
from vcsbench.sources import is_private, svn_files


@pytest.mark.parametrize(
    ("closed", "mode", "expected"),
    [
        (".", 0o711, True), ("..", 0o710, True), ("db/revs", 0o700, True), (".", 0o755, False),
        ("db/current", 0o640, True), ("db/revs/0/0", 0o600, True), ("db/revprops/0/0", 0o640, True),
        ("db/fsfs.conf", 0o600, False), ("conf", 0o700, False),
    ],
)  # fmt: skip
def test_svn_source_is_private_if_one_folder_or_file_of_it_is(closed, mode, expected):
    with open_folder("/tmp") as folder:
        path = folder / "above" / "one"
        for name in ("db/revs/0/0", "db/revprops/0/0", "conf/passwd"):
            (path / name).parent.mkdir(parents=True)
            (path / name).touch()
        for name in ("db/current", "format", "db/fsfs.conf"):
            (path / name).touch()
        (path / closed).resolve().chmod(mode)
        assert is_private({"source": "svn", "path": str(path)}) == expected
        assert is_private({"url": f"file://{path}"}) == expected
    assert is_private({"source": "svn", "url": "https://example.org/svn"})
    assert not is_private({"source": "generated"})


@pytest.mark.parametrize(("revisions", "listed"), [(100, 100), (101, 51), (250, 84)])
def test_svn_source_of_many_revisions_lists_even_sample(tmp_path, monkeypatch, revisions, listed):
    monkeypatch.setattr(svn_files, "LISTED_FILES", 100)
    for number in range(revisions):
        shard = tmp_path / "db/revs" / str(number // 50)
        shard.mkdir(parents=True, exist_ok=True)
        (shard / str(number)).touch()
    entries = list(svn_files.list_history(tmp_path))
    assert sum(entry.is_file() for entry in entries) == listed
    # The folders db and revs, and all shards.
    assert sum(entry.is_dir() for entry in entries) == 2 + -(-revisions // 50)


@pytest.mark.parametrize(
    ("closed", "mode", "expected"),
    [
        (".", 0o755, False), (".", 0o711, True), ("a", 0o750, True), ("a/b", 0o600, True),
        ("a/b", 0o640, True), ("a/.git/b", 0o600, False), ("a/pipe", 0o600, False),
    ],
)  # fmt: skip
def test_directory_source_is_private_if_one_folder_or_file_of_it_is(closed, mode, expected):
    with open_folder("/tmp") as folder:
        (folder / "a/.git").mkdir(parents=True)
        for name in ("a/b", "a/.git/b"):
            (folder / name).touch()
        os.mkfifo(folder / "a/pipe")
        (folder / "a/link").symlink_to("/root")
        (folder / closed).chmod(mode)
        assert is_private({"source": "directory", "path": str(folder)}) == expected


GIT_FOLDERS = ("", "/objects", "/objects/??/*", "/objects/??", "/objects/pack/*.pack")


@needs("git")
@pytest.mark.parametrize("closed", ["", "main", *(f"main/.git{path}" for path in GIT_FOLDERS)])
def test_git_source_is_private_if_a_folder_or_file_elsewhere_is(closed):
    with open_folder("/tmp") as folder:
        git(folder, "init", "-q", "main")
        git(folder / "main", "commit", "-q", "--allow-empty", "-m", "x")
        git(folder / "main", "worktree", "add", "-q", "../linked")
        git(folder, "clone", "-q", "--shared", "main", "borrower")
        shutil.copytree(folder / "main/.git", folder / "main/moved")
        (folder / "link").mkdir()
        (folder / "link/.git").symlink_to("../main/moved")
        git(folder / "main", "repack", "-q")
        # As git creates them for an interrupted fetch, a pack to keep, and a partial clone.
        for name in ("tmp_pack_1", "pack-1.keep", "pack-1.promisor"):
            (folder / "main/.git/objects/pack" / name).touch(0o600)
        (folder / "main/.git/config").chmod(0o600)
        if closed:
            next(folder.glob(closed)).chmod(0o700)
        # The repository at the link has files of its own.
        names = ["linked", "borrower", "link"] if closed in ("", "main") else ["linked", "borrower"]
        for name in names:
            definition = {"source": "git", "path": str(folder / name)}
            assert is_private(definition) == bool(closed), name

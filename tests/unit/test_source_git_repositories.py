"""Git repositories of every kind: branches, bare, linked, shallow, damaged, partial, none at all."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from git_histories import (
    FILE,
    Commit,
    convert,
    digest,
    exported,
    git,
    git_source,
    listing,
    log,
    make_git,
)
from vcsbench.errors import UserError

pytestmark = pytest.mark.skipif(
    not (shutil.which("svnadmin") and shutil.which("git")), reason="not installed: svnadmin or git"
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work tree with a merge, a tag, a second branch and a linked work tree beside it."""
    path = tmp_path_factory.mktemp("git") / "work"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")

    def commit(name: str) -> None:
        (path / name).write_text(name)
        git(path, "add", "-A")
        git(path, "commit", "-q", "-m", name)

    commit("one")
    git(path, "checkout", "-q", "-b", "side")
    commit("two")
    (path / "one").unlink()
    commit("three")
    git(path, "checkout", "-q", "main")
    commit("four")
    git(path, "merge", "-q", "--no-ff", "-m", "merge", "side")
    git(path, "tag", "-a", "-m", "a tag", "v1")
    commit("five")
    git(path, "worktree", "add", "-q", "../linked", "side")
    return path


def test_merges_are_one_revision(work: Path, tmp_path: Path) -> None:
    convert(work, tmp_path / "svn")
    messages = [entry["msg"].strip() for entry in log(tmp_path / "svn")]
    assert messages == ["The usual layout.", "one", "four", "merge", "five"]


@pytest.mark.parametrize("branch", ["side", "refs/heads/side", "v1", "main~1", "v1^2"])
def test_branch_is_any_name_of_a_commit(work: Path, tmp_path: Path, branch: str) -> None:
    convert(work, tmp_path / "svn", branch=branch)


def test_bare_linked_detached_and_shared_repositories(work: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(work), "bare.git")
    git(tmp_path, "clone", "-q", "--shared", str(work), "detached")
    git(tmp_path / "detached", "checkout", "-q", "v1")
    convert(tmp_path / "bare.git", tmp_path / "1")
    convert(work.parent / "linked", tmp_path / "2")
    convert(tmp_path / "detached", tmp_path / "3")
    assert exported(tmp_path / "2", 4).keys() == {b"two", b"three"}
    assert git_source(tmp_path / "detached").estimate().repository_bytes > 0


def test_sha256_repository(tmp_path: Path) -> None:
    commits = [Commit({b"a/b": (FILE, b"1")}), Commit({b"a/b": (FILE, b"2")})]
    convert(make_git(tmp_path / "git", commits, "--object-format=sha256"), tmp_path / "svn")


def test_settings_of_the_user_change_nothing(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = digest(git_source(work))
    (tmp_path / ".gitconfig").write_text(
        "[log]\nshowSignature = true\nfollow = true\ndate = relative\ndecorate = full\n"
        "[diff]\nrenames = copies\nnoprefix = true\nignoreSubmodules = all\n"
        "[i18n]\nlogOutputEncoding = UTF-16\n[color]\nui = always\n[core]\nquotePath = true\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_TRACE", "1")
    assert digest(git_source(work)) == expected


def test_the_same_bytes_each_time_and_nothing_written(work: Path) -> None:
    source = git_source(work)
    before = listing(work)
    source.check()
    source.identity()
    source.estimate()
    source.describe()
    assert digest(source) == digest(git_source(work))
    assert listing(work) == before


def test_identity_changes_with_a_commit_and_with_depth(work: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(work), "whole")
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{work}", "shallow")
    whole, shallow = git_source(tmp_path / "whole"), git_source(tmp_path / "shallow")
    assert whole.identity() == git_source(work).identity() != shallow.identity()
    assert convert(tmp_path / "shallow", tmp_path / "svn").notes == [
        "The clone is shallow: its history begins in the middle."
    ]
    before = whole.identity()
    git(tmp_path / "whole", "commit", "-q", "--allow-empty", "-m", "more")
    assert whole.identity() != before


def test_estimate_counts_what_is_there(work: Path) -> None:
    estimate = git_source(work).estimate()
    assert (estimate.revisions, estimate.files, estimate.tree_bytes) == (5, 4, 16)


def refusal(path: Path, **options: str) -> str:
    with pytest.raises(UserError) as caught:
        git_source(path, **options).check()
    return str(caught.value)


def test_what_is_no_history_is_refused(work: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    (work / "folder").mkdir(exist_ok=True)
    where = "config/config.yaml: repositories.mine."
    assert refusal(tmp_path / "empty").startswith(f"{where}path: {tmp_path}/empty has no commit")
    assert refusal(tmp_path / "none") == f"{where}path: {tmp_path}/none does not exist"
    for path in (tmp_path, work / "one", work / "folder"):
        if path.exists():
            assert refusal(path) == f"{where}path: {path} is not a git repository"
    for branch in ("nowhere", "--help", "-q", "HEAD^{tree}"):
        assert refusal(work, branch=branch) == f"{where}branch: {work} has no commit {branch!r}"


def test_without_git_it_says_so(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "the program git is needed to read" in refusal(work)


def test_wrong_keys_are_named(work: Path) -> None:
    with pytest.raises(UserError, match=r"repositories\.mine\.history: must be one of"):
        git_source(work, history="last")
    with pytest.raises(UserError, match=r"repositories\.mine\.tree: is no key"):
        git_source(work, tree="trunk")


def object_file(path: Path, name: str) -> Path:
    identity = git(path, "rev-parse", name).decode().strip()
    return path / "objects" / identity[:2] / identity[2:]


@pytest.mark.parametrize("name", ["main", "main~1^{tree}", "main:big", "main~1:a/b"])
@pytest.mark.parametrize("damage", ["missing", "short", "changed"])
def test_damaged_repositories_are_refused(tmp_path: Path, name: str, damage: str) -> None:
    big = bytes(number * number % 251 for number in range(300_000))
    commits = [Commit({b"a/b": (FILE, b"1"), b"big": (FILE, big)}), Commit({b"a/b": (FILE, b"2")})]
    path = make_git(tmp_path / "git", commits)
    pack = next(path.glob("objects/pack/*.pack"), None)
    if pack:  # the objects as files of their own
        moved = pack.rename(tmp_path / "pack")
        shutil.rmtree(path / "objects/pack")
        git(path, "unpack-objects", "-q", stdin=moved.read_bytes())
    victim = object_file(path, name)
    content = victim.read_bytes()
    victim.unlink()
    if damage == "short":
        victim.write_bytes(content[: len(content) // 2])
    elif damage == "changed":
        middle = len(content) // 2
        victim.write_bytes(content[:middle] + bytes([content[middle] ^ 8]) + content[middle + 1 :])
    with pytest.raises(UserError):
        git_source(path).write(io.BytesIO())


def test_partial_clones_are_refused_and_fetch_nothing(work: Path, tmp_path: Path) -> None:
    git(work, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--bare", "--filter=blob:none", f"file://{work}", "partial")
    before = listing(tmp_path / "partial")
    assert "is a partial clone" in refusal(tmp_path / "partial")
    with pytest.raises(UserError):
        git_source(tmp_path / "partial").estimate()
    with pytest.raises(UserError, match="is a partial clone"):
        git_source(tmp_path / "partial").write(io.BytesIO())
    assert listing(tmp_path / "partial") == before

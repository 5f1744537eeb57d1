"""The kind of a repository at a path is detected; other paths are refused with the reason."""

from pathlib import Path

import pytest

from git_histories import FILE, Commit, git, make_git, run
from project import needs
from vcsbench import sources
from vcsbench.errors import UserError

pytestmark = needs("svnadmin", "svn", "git")


@pytest.fixture
def places(tmp_path):
    run("svnadmin", "create", tmp_path / "svn")
    (tmp_path / "dump").write_bytes(run("svnadmin", "dump", "-q", tmp_path / "svn"))
    make_git(tmp_path / "bare.git", [Commit({b"folder/file": (FILE, b"")})])
    git(tmp_path, "clone", "-q", "bare.git", "work")
    git(tmp_path / "work", "worktree", "add", "-q", "../linked")
    (tmp_path / "link").symlink_to("svn")
    return tmp_path


def test_detect_each_kind_returns_its_definition(places, monkeypatch):
    for name in ("bare.git", "work", "work/.git", "linked"):
        definition = sources.detect(str(places / name))
        expected = {"source": "git", "path": str(places / name), "history": "first-parent"}
        assert definition == expected
        sources.open_source("mine", definition).check()
    for name in ("svn", "dump"):
        for path in (f"{places / name}", f"file://{places / name}"):
            assert sources.detect(path) == {"source": name, "path": str(places / name)}
    assert sources.detect(str(places / "link"))["path"] == str(places / "svn")
    monkeypatch.chdir(places / "work")
    assert sources.detect(".")["path"] == str(places / "work")


def test_own_repository_tree_needs_a_kind_with_trees(places):
    assert sources.own_repository(str(places / "svn"), {}, "trunk")["svn"]["tree"] == "trunk"
    with pytest.raises(UserError, match=r"^TREE="):
        sources.own_repository(str(places / "work"), {}, "trunk")


@pytest.mark.parametrize(
    ("folder", "configured", "name"),
    [
        ("project", [], "project"),
        ("project", ["project"], "project-own"),
        ("project", ["project", "project-own"], "project-own-own"),
        ("empty", [], "empty-own"),
    ],
)
def test_own_repository_has_a_name_that_is_neither_taken_nor_reserved(
    places, folder, configured, name
):
    path = (places / "svn").rename(places / folder)
    assert [*sources.own_repository(str(path), dict.fromkeys(configured))] == [name]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("x" * 5000, "File name too long"),
        ("a\0b", "null"),
        ("~no-such-user/x", "home"),
        *((f"file://{path}", "slash") for path in ("", "host/x", "localhost")),
    ],
)
@pytest.mark.parametrize("kind", ["git", "svn", "dump"])
def test_detect_impossible_path_is_refused(path, why, kind):
    with pytest.raises(UserError, match=f": .*{why}") as caught:
        sources.detect(path)
    assert len(str(caught.value)) < 200
    with pytest.raises(UserError, match=rf"repositories\.mine\.path`: .*{why}"):
        sources.open_source("mine", {"source": kind, "path": path})


def test_detect_unusable_path_gives_the_reason(places, monkeypatch):
    monkeypatch.chdir(places)
    run("svn", "checkout", "-q", f"file://{places}/svn", "copy")
    Path("copy/below").mkdir()
    Path("bundle").write_text("# v2 git bundle\n")
    for path, why in {
        ".": "is neither a Subversion",
        "nothing": "no such file",
        "": "^REPO=: .* is empty",
        "svn://example.org/x": "^REPO=: .* `url`",
        "https://me:pw@example.org/x.git": "^REPO=: .* Clone",
        "bundle": "git bundle",
        "copy": "is a working copy",
        "copy/below": "is a working copy",
        f"{places}/svn/db/revs": f"lies in the Subversion repository {places}/svn",
    }.items():
        with pytest.raises(UserError, match=why):
            sources.detect(path)

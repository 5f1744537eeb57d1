"""What lies at a path that the user names."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from git_histories import FILE, Commit, git, make_git
from vcsbench import sources
from vcsbench.errors import UserError

pytestmark = pytest.mark.skipif(
    not (shutil.which("svnadmin") and shutil.which("git")), reason="not installed: svnadmin or git"
)


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A folder with one of each kind."""
    subprocess.run(["svnadmin", "create", tmp_path / "svn"], check=True)
    with (tmp_path / "dump").open("wb") as file:
        subprocess.run(["svnadmin", "dump", "-q", tmp_path / "svn"], check=True, stdout=file)
    make_git(tmp_path / "bare.git", [Commit({b"folder/file": (FILE, b"")})])
    git(tmp_path, "clone", "-q", "bare.git", "work")
    git(tmp_path / "work", "worktree", "add", "-q", "../linked")
    return tmp_path


@pytest.mark.parametrize("name", ["bare.git", "work", "work/.git", "linked"])
def test_git_repositories(places: Path, name: str) -> None:
    expected = {"source": "git", "path": str(places / name), "history": "first-parent"}
    assert sources.detect(str(places / name)) == expected
    sources.open_source("mine", expected).check()


@pytest.mark.parametrize("name", ["svn", "dump"])
def test_a_subversion_repository_and_a_dump_file(places: Path, name: str) -> None:
    expected = {"source": name, "path": str(places / name)}
    assert sources.detect(str(places / name)) == expected
    assert sources.detect(f"file://{places / name}") == expected
    sources.open_source("mine", expected)


def test_links_and_relative_paths_are_resolved(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (places / "link").symlink_to("svn")
    monkeypatch.chdir(places / "work")
    assert sources.detect(str(places / "link"))["path"] == str(places / "svn")
    assert sources.detect(".")["path"] == str(places / "work")


@pytest.mark.parametrize("name", [""])
def test_what_is_none_of_them(places: Path, name: str) -> None:
    with pytest.raises(UserError, match="is neither a Subversion repository, nor a git repository"):
        sources.detect(str(places / name))


def test_what_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file or folder"):
        sources.detect(str(tmp_path / "nothing"))


def test_nothing_is_no_path() -> None:
    with pytest.raises(UserError, match="is empty"):
        sources.detect("")


def test_a_url_belongs_into_the_configuration() -> None:
    with pytest.raises(UserError, match=r"svn://example\.org/x: is a URL; .* `url`"):
        sources.detect("svn://example.org/x")


@pytest.mark.parametrize(
    ("path", "why"),
    [("x" * 5000, "File name too long"), ("a\0b", "null"), ("~no-such-user/x", "home")],
)
@pytest.mark.parametrize("kind", ["git", "svn", "dump"])
def test_what_cannot_even_be_looked_for(path: str, why: str, kind: str) -> None:
    with pytest.raises(UserError, match=f"cannot be read: .*{why}") as caught:
        sources.detect(path)
    assert len(str(caught.value)) < 200
    with pytest.raises(UserError, match=rf"repositories\.mine\.path: .*cannot be read: .*{why}"):
        sources.open_source("mine", {"source": kind, "path": path})

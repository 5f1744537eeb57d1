"""Subversion repositories at URLs, read through a real svnserve and as file: URLs."""

from __future__ import annotations

import io
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.sources import Source

NEEDED = [name for name in ("svnadmin", "svnserve", "svnrdump") if not shutil.which(name)]
pytestmark = pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five revisions like ruby's first."""
    path = tmp_path_factory.mktemp("svn") / "repository"
    load({"source": "generated", "profile": "ruby", "scale": 0.0001}, path)
    return path


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[str]:
    """The URL of the folder that the repository lies in, served on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = ["svnserve", "-d", "--foreground", "-T", "-r", repository.parent]
    with subprocess.Popen([*argv, "--listen-host", "127.0.0.1", "--listen-port", str(port)]) as it:
        wait_for(port)
        yield f"svn://127.0.0.1:{port}"
        it.terminate()


def wait_for(port: int) -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("svnserve does not answer")


def opened(**definition: object) -> Source:
    return sources.open_source("far", {"source": "svn", **definition})


def load(definition: dict[str, object], into: Path) -> sources.Facts:
    stream = io.BytesIO()
    facts = sources.open_source("far", definition).write(stream)
    subprocess.run(["svnadmin", "create", into], check=True)
    subprocess.run(["svnadmin", "load", "-q", into], input=stream.getvalue(), check=True)
    return facts


def shown(repository: Path) -> list[bytes]:
    """What svn log -v says and svn cat gives of a repository."""
    url = f"file://{repository}"
    commands = (["log", "-v", "-q", url], ["cat", f"{url}/trunk/ChangeLog"])
    return [subprocess.run(["svn", *c], check=True, capture_output=True).stdout for c in commands]


def test_history_comes_whole_through_a_server(
    repository: Path, server: str, tmp_path: Path
) -> None:
    facts = load({"source": "svn", "url": f"{server}/repository"}, tmp_path / "copy")
    assert facts.revisions == 5
    assert shown(tmp_path / "copy") == shown(repository)


def test_history_ends_at_the_revision_that_is_named(repository: Path, tmp_path: Path) -> None:
    definition = {"source": "svn", "url": f"file://{repository}/", "revision": 3}
    assert load(definition, tmp_path / "copy").revisions == 3
    youngest = subprocess.run(
        ["svnlook", "youngest", tmp_path / "copy"], capture_output=True, check=True
    )
    assert youngest.stdout.strip() == b"3"


def test_the_server_says_how_many_revisions_there_are(server: str) -> None:
    assert opened(url=f"{server}/repository").estimate().revisions == 5
    assert opened(url=f"{server}/repository", revision=2000).estimate().revisions == 2000


def test_without_the_server_only_write_fails(server: str) -> None:
    source = opened(url=f"{server}/nothing")
    source.check()
    assert source.estimate().revisions > 0
    assert source.identity() != opened(url=f"{server}/nothing", revision=7).identity()
    with pytest.raises(
        UserError, match=r"repositories\.far\.url: .*/nothing cannot be read: svn: "
    ):
        source.write(io.BytesIO())


@pytest.mark.parametrize("tree", ["nowhere", "trunk/ChangeLog"])
def test_a_tree_that_is_no_folder_is_refused_before_anything_is_read(
    repository: Path, tree: str
) -> None:
    out = io.BytesIO()
    with pytest.raises(UserError, match=r"repositories\.far\.tree: .* has no folder"):
        opened(url=f"file://{repository}", tree=tree).write(out)
    assert out.getvalue() == b""


def test_the_root_may_be_the_tree(repository: Path) -> None:
    source = opened(url=f"file://{repository}", tree="")
    assert source.tree() == ""
    assert source.write(io.BytesIO()).revisions == 5


def test_an_empty_repository_is_refused(tmp_path: Path) -> None:
    subprocess.run(["svnadmin", "create", tmp_path / "empty"], check=True)
    with pytest.raises(UserError, match=r"is empty: it has no revision 1"):
        opened(url=f"file://{tmp_path}/empty").write(io.BytesIO())


@pytest.mark.parametrize(
    ("definition", "key"),
    [
        ({"url": "ftp://example.org/x"}, "url"),
        ({"url": "svn.example.org/x"}, "url"),
        ({"url": "https://example.org/x", "revision": 0}, "revision"),
        ({"url": "https://example.org/x", "revision": 1.5}, "revision"),
        ({"url": "https://example.org/x", "path": "/srv/x"}, "path"),
        ({"url": "https://example.org/x", "tree": 5}, "tree"),
    ],
)
def test_wrong_values_are_named(definition: dict[str, object], key: str) -> None:
    with pytest.raises(UserError, match=rf"config/config\.yaml: repositories\.far\.{key}: "):
        opened(**definition)

"""Repositories with a password, a bogus date or a moved trunk through the real workflow."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dump_streams import DATE, HEAD, copied, deleted, file, folder, revision
from project import Project, needs

pytestmark = [needs("svn", "svnadmin", "svnserve", "svnrdump", "hyperfine"), pytest.mark.slow]

STUDY = "fsfs-san-2014"
PART = {
    "command": "log",
    "ra": "file",
    "format": "f7",
    "packing": "nopack",
    "config": "slow",
    "cache": "hot-os",
}
PASSWORD = "s3cr3t-w0rd"
OLD = (
    HEAD
    + revision(1, {b"svn:date": b"first monday"})
    + folder(b"trunk")
    + file(b"trunk/f")
    + revision(2, {b"svn:log": b"a\r\nb", b"svn:date": DATE})
    + folder(b"p")
    + copied(b"p/trunk", b"trunk", 1)
    + deleted(b"trunk")
)


def create(path: Path) -> Path:
    subprocess.run(["svnadmin", "create", path], check=True)
    argv = ["svnadmin", "load", "-q", "--bypass-prop-validation", path]
    subprocess.run(argv, input=OLD, check=True)
    return path


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Serve a repository to a user with a password. Yield its address."""
    path = create(tmp_path / "repository")
    (path / "conf/svnserve.conf").write_text(
        "[general]\nanon-access = none\npassword-db = passwd\n"
    )
    (path / "conf/passwd").write_text(f"[users]\nbob = {PASSWORD}\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = ["svnserve", "-d", "--foreground", "-T", "-r", tmp_path]
    with subprocess.Popen(
        [*argv, "--listen-host", "127.0.0.1", "--listen-port", str(port)]
    ) as server:
        time.sleep(0.5)
        yield f"127.0.0.1:{port}/repository"
        server.terminate()


def files_with(secret: str, folder: Path) -> list[str]:
    found = subprocess.run(
        ["grep", "-rlaF", "--exclude-dir=.venv", "--exclude-dir=.tools", secret, folder],
        capture_output=True,
        text=True,
    )
    return sorted(found.stdout.splitlines())


def test_password_of_a_url_is_in_no_file_of_a_run(project: Project, address: str) -> None:
    source = {"source": "svn", "url": f"svn://bob:{PASSWORD}@{address}", "tree": "p/trunk"}
    grid = {STUDY: {"include": [{**PART, "repo": "far"}]}}
    project.configure(repositories={"far": source}, rounds=1, copies=1, grid=grid)
    before = files_with(PASSWORD, project.path)
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    assert PASSWORD not in done.stdout
    assert files_with(PASSWORD, project.path) == before
    page = project.page(STUDY)
    assert address in page
    # svnrdump repairs line ends itself.
    assert "svn:date" in page


@pytest.mark.parametrize("kind", ["repository", "dump"])
def test_old_repository_with_a_bogus_date_is_measured(project: Project, kind: str) -> None:
    path = project.path / "mine"
    if kind == "dump":
        path.write_bytes(OLD)
    else:
        create(path)
    project.configure(repository=str(path), rounds=1, copies=1, grid={STUDY: {"include": [PART]}})
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    page = project.page(STUDY)
    assert "svnadmin load needs --bypass-prop-validation" in page
    assert "first revision 1:" in page

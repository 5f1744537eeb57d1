"""A private repository, odd folders and a strict umask in the real workflow, next to another user."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from project import Project, measurements_of, needs
from vcsbench import namespaces
from vcsbench.machine import Machine

pytestmark = [
    needs("svn", "svnserve", "hyperfine"),
    pytest.mark.slow,
    pytest.mark.skipif(not namespaces.can_own_network(), reason="takes root and namespaces"),
    pytest.mark.skipif(not Machine().httpd, reason="no httpd with mod_dav_svn"),
]

STUDY = "fsfs-san-2014"
SECRET = "the secret of this repository"
AS_USER = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", "--"]
NOBODY = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--"]
CELLS = {
    "repo": "mine",
    "ra": ["file", "svn", "http"],
    "format": "f7",
    "packing": "nopack",
    "config": "slow",
    "cache": ["hot-os"],
    "command": ["log", "export"],
}
ODD = "we%2Fird [x] gr\u00fcn@5 q\"u'o $HOME{y}"


@pytest.fixture
def private(project: Project) -> Path:
    """A repository that root alone may enter."""
    path = project.path / "private"
    path.mkdir(mode=0o700)
    subprocess.run(["svnadmin", "create", path / "one"], check=True)
    (project.path / "trunk").mkdir()
    (project.path / "trunk" / "file").write_text(SECRET)
    url = f"file://{path}/one/trunk"
    subprocess.run(["svn", "import", "-q", "-m", SECRET, project.path / "trunk", url], check=True)
    return path / "one"


def readable_files(*folders: Path, user: list[str]) -> list[str]:
    """The files that another user can read below folders."""
    find = ["find", *folders, "-type", "f", "-readable"]
    return subprocess.run([*user, *find], capture_output=True, text=True).stdout.splitlines()


def contexts(project: Project) -> list[dict[str, Any]]:
    found = (project.path / "results" / "cells").rglob("*.context.json")
    return [json.loads(path.read_text()) for path in found]


class Spy(threading.Thread):
    """Looks again and again at what another user can read of a run."""

    def __init__(self, *folders: Path) -> None:
        super().__init__()
        self.folders = folders
        self.ended = threading.Event()
        self.read: set[str] = set()
        self.answers: set[str] = set()

    def run(self) -> None:
        while not self.ended.wait(0.3):
            for user in (AS_USER, NOBODY):
                self.read.update(readable_files(*self.folders, user=user))
            for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[1].startswith("0100007F"):
                    self._ask(int(words[1].split(":")[1], 16))

    def _ask(self, port: int) -> None:
        for scheme in ("svn", "http"):
            url = f"{scheme}://127.0.0.1:{port}/mine.f7.nopack.1"
            done = subprocess.run(
                [*AS_USER, "timeout", "2", "svn", "log", "--config-dir", "/nowhere/x", url],
                capture_output=True, text=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            if SECRET in done.stdout:
                self.answers.add(url)


def test_run_of_a_private_repository_shows_nothing_to_other_users(
    project: Project, private: Path, tmp_path: Path
) -> None:
    storage = project.path / ODD
    storage.mkdir()
    temporary = project.path / "pbs.12[3].server" / "tmp user"
    temporary.mkdir(parents=True)
    temporary.chmod(0o700)
    project.configure(
        repositories={"mine": {"source": "svn", "path": str(private)}},
        storages={"disk": str(storage)},
        scratch=str(storage),
        rounds=1, copies=1, grid={STUDY: {"include": [CELLS]}},
    )  # fmt: skip
    spy = Spy(storage, temporary)
    spy.start()
    umask = os.umask(0o077)
    try:
        done = project.snakemake(measurements_of(STUDY), environment={"TMPDIR": str(temporary)})
    finally:
        os.umask(umask)
        spy.ended.set()
        spy.join()
    assert done.returncode == 0, done.stdout
    found = contexts(project)
    assert len(found) == 6
    assert {c["network"] for c in found if c["server"]} == {"own"}
    assert spy.read == set() and spy.answers == set()
    assert readable_files(storage, user=AS_USER) == []
    assert [*storage.glob("vcsbench-*/repositories/mine.f7.nopack.1")]

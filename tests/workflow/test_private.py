"""Private repositories, odd folder names and a strict umask, next to another user of the machine."""

import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from project import (
    AS_USER,
    NOBODY,
    RUN_LIMIT_S,
    STUDY,
    measurements_of,
    needs,
    opened,
    write_program,
)
from vcsbench import isolation
from vcsbench.programs import Programs

pytestmark = [
    needs("svn", "svnserve", "hyperfine"),
    pytest.mark.slow,
    pytest.mark.skipif(
        not isolation.is_allowed(isolation.unshare_network), reason="takes root and namespaces"
    ),
    pytest.mark.skipif(not Programs().httpd, reason="no httpd with mod_dav_svn"),
]

SECRET = "the secret of this repository"
CELLS = {"repo": "mine", "access": ["file", "svn", "http"], "format": "f7", "packing": "nopack"}
CELLS |= {"config": "slow", "cache": ["hot-os"], "command": ["log", "export"]}
ODD = "we%2Fird [x] gr\u00fcn@5 q\"u'o $HOME{y}"


@pytest.fixture
def private(project):
    path = project.path / "private"
    path.mkdir(mode=0o700)
    subprocess.run(["svnadmin", "create", path / "one"], check=True)
    (project.path / "trunk").mkdir()
    (project.path / "trunk" / "file").write_text(SECRET)
    url = f"file://{path}/one/trunk"
    subprocess.run(["svn", "import", "-q", "-m", SECRET, project.path / "trunk", url], check=True)
    return path / "one"


def readable_files(*folders, user):
    """Return the files below folders that another user can read."""
    find = ["find", *folders, "-type", "f", "-readable"]
    return subprocess.run([*user, *find], capture_output=True, text=True).stdout.splitlines()


class Spy(threading.Thread):
    """Collect the files and answers of servers that another user can read during a run."""

    def __init__(self, *folders):
        super().__init__()
        self.folders = folders
        self.ended = threading.Event()
        self.read = set()
        self.answers = set()

    def run(self):
        while not self.ended.wait(0.3):
            for user in (AS_USER, NOBODY):
                self.read.update(readable_files(*self.folders, user=user))
            for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[1].startswith("0100007F"):
                    self._ask(int(words[1].split(":")[1], 16))

    def _ask(self, port):
        for scheme in ("svn", "http"):
            url = f"{scheme}://127.0.0.1:{port}/mine.f7.nopack.1"
            done = subprocess.run(
                [*AS_USER, "timeout", "2", "svn", "log", "--config-dir", "/nowhere/x", url],
                capture_output=True, text=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            if SECRET in done.stdout:
                self.answers.add(url)


def test_run_of_a_private_repository_shows_nothing_to_other_users(project, private, tmp_path):
    storage = project.path / ODD
    storage.mkdir()
    temporary = project.path / "pbs.12[3].server" / "tmp user"
    temporary.mkdir(parents=True)
    temporary.chmod(0o700)
    keys = {"storages": {"disk": str(storage)}, "scratch": str(storage)}
    mine = {"mine": {"source": "svn", "path": str(private)}}
    project.configure(CELLS, repositories=mine, **keys)
    spy = Spy(storage, temporary)
    spy.start()
    umask = os.umask(0o077)
    try:
        project.succeed(measurements_of(STUDY), TMPDIR=str(temporary))
    finally:
        os.umask(umask)
        spy.ended.set()
        spy.join()
    measured = [*project.contexts().values()]
    assert len(measured) == 6
    assert {context["network"] for context in measured if context["server"]} == {"own"}
    assert spy.read == set() and spy.answers == set()
    assert readable_files(storage, user=AS_USER) == []
    assert [*storage.glob("vcsbench-*/repositories/mine.f7.nopack.1")]


KILLED = """#!/bin/sh
# The client of a timed run ends by a signal. Warm-up runs do their work.
case "$*" in *--version*|*/empty*) exec /usr/bin/svn "$@" ;; esac
count=$(cat {count} 2>/dev/null || echo 0)
echo $((count + 1)) > {count}
[ "$count" -lt 1 ] || {{ {act}; }}
exec /usr/bin/svn "$@"
"""


@pytest.mark.parametrize(
    ("access", "cache", "act", "expected"),
    [
        ("file", "cold", "kill -TERM $$", "SIGTERM in timed run 1 of 1"),
        # The second warm-up run.
        ("svn", "hot-server", "kill -SEGV $$", "SIGSEGV"),
        ("file", "cold", "rm -rf {copy}/db/revs", "copy is missing"),
        ("file", "cold", "touch {copy}/db/revs/0/extra", "changed in db/"),
    ],
)
def test_cell_that_loses_its_client_or_copy_fails(project, access, cache, act, expected):
    cell = {"command": "log", "repo": "ruby", "access": access, "cache": cache}
    project.configure({**CELLS, **cell})
    project.prepare()
    copy = next((project.path / "storage").glob("vcsbench-*/repositories/ruby.f7.nopack.1"))
    # One earlier run counts the reads of the client.
    script = KILLED.format(count=project.path / "count", act=act.format(copy=copy))
    write_program(project.path / "svn", script)
    project.fail(measurements_of(STUDY), PATH=f"{project.path}:{os.environ['PATH']}")
    assert project.exports() == {}
    logs = (project.path / "results" / "logs" / "cells").rglob("round1.log")
    log = next(path for path in logs if "ruby" in path.parts).read_text()
    assert expected in log and "Traceback" not in log, log
    lines = [line for line in log.strip().splitlines() if not line.startswith("waiting for ")]
    assert len(lines) == 1


def test_run_of_a_plain_user_serves_a_private_repository_in_a_network_of_its_own(project, private):
    mine = {"mine": {"source": "svn", "path": str(private)}}
    project.configure({**CELLS, "command": "log"}, repositories=mine)
    subprocess.run(["chown", "-R", "12345:12345", project.path], check=True)
    command = project.command(measurements_of(STUDY))
    own = ["-u", "XDG_CACHE_HOME", "USER=plain", f"--chdir={project.path}", f"HOME={project.path}"]
    argv = [*opened(AS_USER), "env", *own, *command]
    done = subprocess.run(
        argv, cwd=project.path, capture_output=True, text=True, timeout=RUN_LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    networks = [context["network"] for context in project.contexts().values()]
    assert sorted(networks) == ["", "user", "user"]
    (folder,) = (project.path / "storage").glob("vcsbench-*")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700

"""The lock of all measurements on a machine with several users."""

import os
import stat
import subprocess
import sys
from contextlib import contextmanager

import pytest

from project import AS_USER, ODD_FILES, ROOT, needs_root
from snakemake_logger_plugin_vcsbench import Job, RunProgress, other_holder
from vcsbench import isolation
from vcsbench.errors import UserError
from vcsbench.isolation import describe_process, lock_holder, machine_lock
from vcsbench.run.workflow import RUN_ROOT

WORKFLOW = ROOT / "workflow"
HOLD = """
import sys, time
sys.path.insert(0, {workflow!r})
from vcsbench import isolation
isolation.LOCK_PATH = {path!r}
with isolation.machine_lock():
    print("held", flush=True)
    time.sleep(float(sys.argv[1]))
"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    """The path of the lock in a folder with the mode of /tmp."""
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(isolation, "LOCK_PATH", str(tmp_path / "lock"))
    return tmp_path / "lock"


def hold(path, seconds):
    program = HOLD.format(workflow=str(WORKFLOW), path=str(path))
    argv, pipe = [sys.executable, "-c", program, str(seconds)], subprocess.PIPE
    return subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True)


@contextmanager
def closing(*processes):
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


MADE_BEFORE = {
    **ODD_FILES,
    "dangling link": lambda path: path.symlink_to(path.with_name("new")),
    "link to a file": lambda path: path.symlink_to("/etc/hostname"),
    "hard link": lambda path: (
        path.with_name("other").touch(),
        os.link(path.with_name("other"), path),
    ),
}


@pytest.mark.parametrize("kind", MADE_BEFORE)
def test_lock_of_another_file_type_is_refused(path, kind):
    MADE_BEFORE[kind](path)
    with pytest.raises(UserError, match=rf"{path}: .*remove it") as refused, machine_lock():
        pass
    assert "\n" not in str(refused.value)
    assert not path.with_name("new").exists()


@needs_root
@pytest.mark.parametrize("mode", [0o000, 0o600])
def test_lock_that_the_user_may_not_read_is_refused(path, mode):
    path.touch()
    path.chmod(mode)
    program = HOLD.format(workflow=str(WORKFLOW), path=str(path))
    path.parent.parent.chmod(0o755)
    argv = [*AS_USER, "/usr/bin/python3", "-c", program, "0"]
    done = subprocess.run(argv, capture_output=True, text=True)
    if "Permission denied: '/work" in done.stderr or "No module" in done.stderr:
        pytest.skip("that user cannot read this checkout")
    assert f"{path}: " in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("umask", "is_old"), [(0o077, False), (0o000, False), (0o022, True)])
def test_lock_under_any_umask_is_readable_by_all(path, umask, is_old):
    if is_old:  # of an earlier release
        path.touch(mode=0o600)
    before = os.umask(umask)
    try:
        with machine_lock():
            assert stat.S_IMODE(path.stat().st_mode) == 0o644
    finally:
        os.umask(before)


def test_lock_holder_is_the_process_that_holds_it(path):
    assert lock_holder() == 0
    holding = hold(path, 30)
    with closing(holding):
        assert holding.stdout and holding.stdout.readline() == "held\n"
        assert lock_holder() == holding.pid
        holder = describe_process(holding.pid)
        assert " of ? " not in holder and sys.executable in holder and "started at" in holder
        waiting = hold(path, 0)
        assert waiting.stderr and f"process {holding.pid} of " in waiting.stderr.readline()
    assert waiting.communicate(timeout=10)[0] == "held\n"
    assert lock_holder() == 0


def test_lock_file_that_was_replaced_while_waiting_is_taken_again(path):
    holding = hold(path, 1.0)
    assert holding.stdout and holding.stdout.readline() == "held\n"
    waiting = hold(path, 30)
    with closing(holding, waiting):
        assert waiting.stderr and "waiting" in waiting.stderr.readline()
        path.unlink()
        assert waiting.stdout and waiting.stdout.readline() == "held\n"
        assert lock_holder() == waiting.pid


@pytest.mark.parametrize("run", ["/srv/another", "/srv/mine"])
def test_other_holder_is_of_another_run(path, run, monkeypatch):
    monkeypatch.setenv(RUN_ROOT, run)
    holding = hold(path, 30)
    with closing(holding):
        assert holding.stdout and holding.stdout.readline() == "held\n"
        monkeypatch.setenv(RUN_ROOT, "/srv/mine")
        assert other_holder() == (holding.pid if run != "/srv/mine" else 0)


def test_progress_counts_no_waiting_as_measuring(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wildcards = {"study": "s", "cell": "log/cold", "round": "1"}
    context = tmp_path / "results" / "cells" / "s" / "log" / "cold" / "round1.context.json"
    context.parent.mkdir(parents=True)
    context.write_text('{"took": {"waited_s": 24.0}}')
    known = RunProgress()
    known.expect({"cell": 1})
    known.start(1, Job("cell", wildcards, "log", 0.0))
    assert known.end(1, False, 25.0).endswith(" 1 s")

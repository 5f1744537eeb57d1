"""Untimed runs of commands: their output, I/O, memory, mapped files and end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from project import HANGING_S, needs, wait_for
from vcsbench import process_facts
from vcsbench.errors import UserError
from vcsbench.kernel import read
from vcsbench.measure.runs import Invocation
from vcsbench.measure.untimed_runs import (
    ExitTracer,
    capture,
    find_mapped_files,
    find_subversion_libraries,
    trace_mapped_files,
)
from vcsbench.measure.work import UrlNormaliser, read_stdout

MIB = 1 << 20
EAT = "a = bytearray({0} << 20)\na[::4096] = b'x' * len(a[::4096])\n"


def wait_for_end(argv):
    """Wait until no process has this command line. A killed process takes a moment to go."""
    wait_for(lambda: argv not in map(process_facts.command_line, process_facts.all_pids()))


def run_capture(folder, *argv, limit_s=HANGING_S):
    began = time.monotonic()
    try:
        command = Invocation(argv, "", os.environ, limit_s)
        return capture(command, lambda output: read_stdout(output, UrlNormaliser()), folder / "log")
    finally:
        assert time.monotonic() - began < HANGING_S


def test_capture_counts_io_before_the_end_and_without_tracing_not_at_all(tmp_path, monkeypatch):
    def read_like_ordinary_user(path, *arguments):
        """The counts of an ended process belong to root."""
        has_ended = str(path).endswith("/io") and "State:\tZ" in read(
            path.replace("/io", "/status")
        )
        return "" if has_ended else read(path, *arguments)

    monkeypatch.setattr(process_facts, "read", read_like_ordinary_user)
    argv = ("head", "-c", "20000", "/dev/zero")
    assert run_capture(tmp_path, *argv).io["wchar"] == 20000
    monkeypatch.setattr("vcsbench.measure.untimed_runs._ptrace", lambda *_: False)
    assert {*run_capture(tmp_path, *argv).io.values()} == {None}


def run_traced(folder, *argv):
    """Run a command, or skip the test where nothing can be traced."""
    captured = run_capture(folder, *argv)
    if captured.peak_bytes is None:
        pytest.skip("this system allows no tracing")
    return captured


def test_capture_failed_command_raises_with_its_error(tmp_path):
    with pytest.raises(UserError, match=r" 2: .*no-such-file"):
        run_capture(tmp_path, "ls", "/no-such-file")


# A command of a group, and of a session of its own.
STARTS = pytest.mark.parametrize("start", ["", "setsid "], ids=["group", "session"])


@STARTS
def test_capture_does_not_wait_for_a_child_that_holds_the_output(tmp_path, start):
    captured = run_capture(tmp_path, "sh", "-c", f"{start}sleep 3603.25 & echo done")
    assert captured.work["bytes"] == len("done\n")
    wait_for_end(["sleep", "3603.25"])


def test_capture_child_in_another_session_stays_and_is_not_awaited(tmp_path, monkeypatch):
    monkeypatch.setattr("vcsbench.measure.untimed_runs.TRACER_LIMIT_S", 0.1)
    monkeypatch.chdir(tmp_path)
    child = "setsid sleep 3601.5 >/dev/null 2>&1 & echo $! >pid; echo done"
    assert run_capture(tmp_path, "sh", "-c", child).work["bytes"] == len("done\n")
    os.kill(int(Path("pid").read_text()), signal.SIGKILL)


@STARTS
def test_capture_over_time_limit_ends_the_command_and_its_children(tmp_path, start):
    with pytest.raises(UserError, match=r" 0\.2 s .*time_limit_s"):
        run_capture(tmp_path, "sh", "-c", f"{start}sleep 3601.25; true", limit_s=0.2)
    wait_for_end(["sleep", "3601.25"])


@STARTS
def test_capture_interrupted_ends_the_command_and_its_children(tmp_path, start):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_capture(tmp_path, "sh", "-c", f"{start}sleep 3602.75; true")
    finally:
        signal.signal(signal.SIGALRM, before)
    wait_for_end(["sleep", "3602.75"])


@needs("svn")
def test_capture_has_libraries_of_wrapped_program(tmp_path):
    captured = run_traced(tmp_path, "sh", "-c", "sleep 0.2; svn --version --quiet")
    assert captured.mapped and len(set(captured.mapped)) == len(captured.mapped)
    names = {os.path.basename(path).partition(".")[0] for path in captured.mapped}
    assert {"svn", "libsvn_client-1", "libapr-1", "libsqlite3", "libc"} <= names
    assert all(map(os.path.isfile, captured.mapped))
    libraries = find_subversion_libraries(captured.mapped)
    assert libraries and all("/libsvn_" in path for path in libraries)


def test_files_of_a_failing_client_are_those_of_its_traced_run(tmp_path):
    traced = run_traced(tmp_path, "svn", "--version", "--quiet").mapped
    assert traced
    # Exports fail like this if the output of the timed run still exists.
    assert trace_mapped_files(["svn", "info", "/no/such/folder"], os.environ) == traced


def test_mapped_files_are_programs_and_libraries_only():
    maps = """\
55d0-55d1 r--p 00000000 fe:00 1051 /usr/bin/svn
55d1-55d2 r-xp 00001000 fe:00 1051 /usr/bin/svn
7f00-7f01 r-xp 00001000 fe:00 1052 /opt/a b/libapr-1.so.0 (deleted)
7f01-7f02 rw-s 00000000 fe:00 1053 /srv/wc.db-shm
7f02-7f03 r-xp 00000000 00:00 0 [vdso]
7f03-7f04 rwxp 00000000 00:00 0
"""
    assert find_mapped_files(maps) == ["/opt/a b/libapr-1.so.0 (deleted)", "/usr/bin/svn"]
    assert find_mapped_files("") is None


@pytest.mark.parametrize(
    ("argv", "peak_mib"),
    [
        ([sys.executable, "-c", EAT.format(100) + "del a"], 100),
        (["sh", "-c", f"sleep 0.2; '{sys.executable}' -c \"$0\"; exit", EAT.format(60)], 60),
    ],
    ids=["freed memory", "child"],
)
def test_capture_peak_is_largest_of_all(tmp_path, argv, peak_mib):
    captured = run_traced(tmp_path, *argv)
    assert peak_mib * MIB < (captured.peak_bytes or 0) < (peak_mib + 40) * MIB


# Freeing many small pages takes long enough to attach in the middle of an exit.
EXITING = """
import mmap, os
held = mmap.mmap(-1, 400 << 20)
held.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, len(held), mmap.PAGESIZE):
    held[at] = 1
os._exit(3)
"""


def test_exit_tracer_exiting_program_is_left_to_its_parent():
    with subprocess.Popen([sys.executable, "-c", EXITING]) as process:
        while read(f"/proc/{process.pid}/maps"):
            pass
        tracer = ExitTracer(process.pid)
        tracer.join(20)
        assert not tracer.is_alive()
        status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert status and status.si_status == 3
        assert process.wait() == 3

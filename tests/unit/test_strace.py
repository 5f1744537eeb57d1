"""Counts of system calls from the output of strace."""

import os
import subprocess
import sys
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from project import HANGING_S, needs, write_program
from vcsbench.errors import UserError
from vcsbench.measure.cell_setup import fill_template
from vcsbench.measure.runs import Invocation
from vcsbench.measure.syscalls import (
    UPDATE,
    Strace,
    count_lines,
    count_locks,
    trace_cell,
    trace_command,
)

# Makes a number of each call, in this process or in two threads.
PROGRAM = """
import os, sys, threading
path, number, where = sys.argv[1], int(sys.argv[2]), sys.argv[3]

def work():
    for _ in range(number):
        file = os.open(path, os.O_RDONLY)
        os.lseek(file, 3, os.SEEK_SET)
        os.read(file, 7)
        os.pread(file, 5, 0)
        os.fstat(file)
        os.close(file)
        other = os.open(path + ".out", os.O_RDWR | os.O_CREAT)
        os.write(other, b"1234")
        os.writev(other, [b"56", b"7"])
        os.close(other)
        try:
            os.open(path + ".none", os.O_RDONLY)
        except OSError:
            pass

if where == "threads":
    threads = [threading.Thread(target=work) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
else:
    work()
"""
EACH = {"opens_read_only": 1, "opens_read_write": 1, "opens_failed": 1, "seeks": 1, "reads": 2}
EACH |= {"bytes_read": 12, "writes": 2, "bytes_written": 7, "stats": 1}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["7 open(0x7ffd, 0x1, 0) = 0x5", "7 creat(0x1, 0) = 3"], {"opens_read_write": 2}),
        (["7 open(0x7ffd, 0, 0) = -1 ENOENT (No such file or directory)"], {"opens_failed": 1}),
        (["7 read(0x3, 0x5, 0x1000) = -1 EINTR (Interrupted system call)"], {"reads": 1}),
        (["7 lseek(0x3, 0, 0) = 0", "7 newfstatat(0x3, 0x7) = 0"], {"seeks": 1, "stats": 1}),
        (["1 mmap(0, 0x1000) = 0x7f00", "1 exit_group(0) = ?"], {"mmap": 1}),
        (
            [
                "[pid 8] read(0x3,  <unfinished ...>",
                "[pid 9] openat(0xffffff9c, 0x7ffd, 0x80002, 0 <unfinished ...>",
                "[pid 8] <... read resumed>0x7f, 0x1000) = 0x20",
                "[pid 9] <... openat resumed>) = 0x4",
            ],
            {"reads": 1, "bytes_read": 32, "opens_read_write": 1},
        ),
    ],
)
def test_count_lines_counts_by_effect(lines, expected):
    assert count_lines(f"{line}\n".encode() for line in lines) == expected


@needs("strace")
@pytest.mark.parametrize(("where", "times"), [("here", 1), ("threads", 2)])
def test_trace_command_counts_known_calls(tmp_path, where, times):
    script, file = tmp_path / "program.py", tmp_path / "file"
    script.write_text(PROGRAM)
    file.write_text("0123456789abcdef")

    def counted(number):
        argv = [sys.executable, "-I", "-S", str(script), str(file), str(number), where]
        counts = trace_command(Invocation(argv, "", os.environ, HANGING_S))
        return Counter({name: counts[name] for name in EACH})

    counted(1)  # Python writes its caches
    more = counted(301)
    # The difference has no calls that Python makes itself.
    more.subtract(counted(1))
    assert dict(more) == {name: 300 * times * each for name, each in EACH.items()}


@needs("strace")
def test_trace_command_failed_or_slow_raises():
    with pytest.raises(UserError, match="false failed"):
        trace_command(Invocation(["/bin/false"], "", os.environ, HANGING_S))
    began = time.monotonic()
    with pytest.raises(UserError, match=r" 0\.5 s "):
        trace_command(Invocation(["/bin/sleep", "3600"], "", os.environ, 0.5))
    assert time.monotonic() - began < HANGING_S


def test_trace_cell_has_its_start_and_its_seconds(tmp_path, monkeypatch):
    # Without strace, the trace ends before it needs a cell.
    monkeypatch.setenv("PATH", str(tmp_path))
    before = time.time()
    trace = trace_cell({}, tmp_path, tmp_path)
    assert trace["client"] is None and trace["why_not"].startswith("strace: ")
    # They are rounded.
    assert before - 0.01 < trace["began"] <= trace["began"] + trace["seconds"] < time.time() + 0.01


@needs("strace")
def test_strace_counts_while_attached(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"x" * 1000)
    program = (
        "import os, sys\nfd = os.open(sys.argv[1], os.O_RDONLY)\n"
        "while sys.stdin.readline():\n    os.pread(fd, 10, 0)\n    print(1, flush=True)\n"
    )
    argv, pipe = [sys.executable, "-c", program, str(file)], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, bufsize=1) as process:
        assert process.stdin and process.stdout

        def ask(times):
            for _ in range(times):
                process.stdin.write("go\n")
                process.stdout.readline()

        ask(5)
        attached = Strace.attach([process.pid])
        ask(20)
        counts = attached.end()
        ask(5)  # the process continues
        process.stdin.close()
    assert counts["bytes_read"] == 20 * (10 + len("go\n"))
    assert counts["opens_read_only"] == 0


def test_count_locks_without_the_right_to_trace_is_unknown(tmp_path, monkeypatch):
    write_program(tmp_path / "strace", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    cell = SimpleNamespace(
        timed=Invocation(["true"], "", os.environ, HANGING_S),
        fill_template=lambda _: ["true"],
        recipe={"locking": "default"},
    )
    assert count_locks(cell) is None


@needs("svn", "svnadmin")
def test_update_of_count_locks_ignores_externals(tmp_path):
    copy = tmp_path / "copy"

    def run(*argv):
        subprocess.run(argv, check=True)

    run("svnadmin", "create", tmp_path / "one")
    run("svn", "checkout", "-q", f"file://{tmp_path}/one", copy)
    run("svn", "propset", "-q", "svn:externals", "file:///nowhere/none external", copy)
    run("svn", "commit", "-q", "-m", "", copy)
    run(*fill_template(UPDATE, {"svn": ["svn"], "working_copy": str(copy)}))

"""What a program was when it ended: its peak memory, whatever that of the process that started it, and what
it had mapped."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from project import needs
from vcsbench import processes
from vcsbench.measure.capture import ExitTracer, mapped_libraries

MIB = 1 << 20
EAT = "a = bytearray({0} << 20)\na[::4096] = b'x' * len(a[::4096])\n"


def ended(argv: list[str]) -> tuple[int, ExitTracer]:
    """The exit code of a command, and what was seen of its end."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout
        ending = ExitTracer(process.pid)
        process.stdout.read()
        ending.join(20)
        assert not ending.is_alive()
        code = process.wait()
    if ending.peak_bytes is None:
        pytest.skip("this system allows no tracing")
    return code, ending


def peak_of(argv: list[str]) -> tuple[int, int]:
    """The exit code of a command and its peak."""
    code, ending = ended(argv)
    assert ending.peak_bytes
    return code, ending.peak_bytes


@needs("svn")
def test_the_libraries_of_a_program_are_seen_through_a_wrapper() -> None:
    code, ending = ended(["sh", "-c", "sleep 0.2; svn --version --quiet; exit 4"])
    names = [os.path.basename(path) for path in mapped_libraries(ending.maps)]
    assert code == 4 and any(name.startswith("libsvn_client") for name in names)
    assert len(set(names)) == len(names)


def test_a_small_program_of_a_large_parent_is_small() -> None:
    held = bytearray(200 * MIB)
    held[::4096] = b"x" * len(held[::4096])
    code, peak = peak_of(["sleep", "0.2"])
    assert code == 0 and 0 < peak < 20 * MIB
    assert len(held)


def test_memory_that_was_given_back_counts() -> None:
    code, peak = peak_of([sys.executable, "-c", EAT.format(100) + "del a\nraise SystemExit(3)"])
    assert code == 3 and 100 * MIB < peak < 140 * MIB


def test_of_a_program_and_what_it_starts_the_largest_counts() -> None:
    wrapper = f"sleep 0.2; '{sys.executable}' -c \"$0\"; exit 5"
    code, peak = peak_of(["sh", "-c", wrapper, EAT.format(60)])
    assert code == 5 and 60 * MIB < peak < 100 * MIB


def test_a_program_that_is_killed_is_let_go() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        ending = ExitTracer(process.pid)
        process.kill()
        ending.join(20)
        assert not ending.is_alive() and process.wait() == -9


def test_one_that_is_about_to_exit_when_it_is_to_be_followed_is_its_parents_to_wait_for() -> None:
    # To give back so many small pages takes long enough to begin in the midst of it.
    code = """
import mmap, os
held = mmap.mmap(-1, 400 << 20)
held.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, len(held), mmap.PAGESIZE):
    held[at] = 1
os._exit(3)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        while processes.maps(process.pid):
            pass
        ending = ExitTracer(process.pid)
        ending.join(20)
        assert not ending.is_alive()
        seen = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert seen and seen.si_status == 3
        assert process.wait() == 3

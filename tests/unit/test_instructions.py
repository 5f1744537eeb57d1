"""Counters of the processor, with one of the kernel's (page faults) in place of instructions: it works on
every machine, and is opened, inherited and read in the same way."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from vcsbench.measure import counters

PAGE_FAULTS = (1, 2)
# Touches so many pages, one after another.
TOUCH = """
import mmap, sys
memory = mmap.mmap(-1, 4096 * int(sys.argv[1]))
memory.madvise(mmap.MADV_NOHUGEPAGE)
for page in range(int(sys.argv[1])):
    memory[page * 4096] = 1
"""


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(counters, "EVENT", PAGE_FAULTS)
    counters.why_no_instructions.cache_clear()
    if counters.why_no_instructions():
        pytest.skip(f"here {counters.why_no_instructions()}")
    yield
    counters.why_no_instructions.cache_clear()


def touched(pages: int) -> int:
    """How many page faults a child of this process has that touches so many pages."""
    counting = counters.count_instructions({"client": [os.getpid()]})["client"]
    subprocess.run([sys.executable, "-c", TOUCH, str(pages)], check=True)
    counted = counting.end()
    assert counted is not None
    return counted


def test_what_a_process_starts_is_counted_with_it(faults: None) -> None:
    # What the interpreter itself touches differs by some pages from one start to the next.
    assert touched(5000) - touched(1000) == pytest.approx(4000, abs=200)


def test_all_threads_that_are_there_are_counted(faults: None) -> None:
    wait, go, ended = threading.Event(), threading.Event(), threading.Event()

    def touch() -> None:
        wait.set()
        go.wait()
        exec(TOUCH, {})
        ended.set()

    sys.argv, given = ["touch", "3000"], sys.argv
    thread = threading.Thread(target=touch)
    thread.start()
    try:
        wait.wait()
        counting = counters.count_instructions({"server": [os.getpid()]})["server"]
        go.set()
        ended.wait()
        counted = counting.end()
    finally:
        go.set()
        thread.join()
        sys.argv = given
    assert counted and 3000 <= counted < 6000


def test_sides_are_counted_apart_and_counters_closed(faults: None) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with subprocess.Popen(["sleep", "60"]) as other:
        counting = counters.count_instructions({"client": [os.getpid()], "server": [other.pid]})
        subprocess.run([sys.executable, "-c", TOUCH, "2000"], check=True)
        counted = {side: one.end() for side, one in counting.items()}
        other.kill()
    assert (counted["client"] or 0) > 2000 and counted["server"] is not None
    assert counted["server"] < 200
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_that_has_ended_counts_nothing(faults: None) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert counters.count_instructions({"server": [gone.pid]})["server"].end() is None


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOENT, "the machine has no counter of instructions (No such file or directory)"),
        (errno.EACCES, "counters may not be read: that takes root, CAP_PERFMON"),
        (errno.EPERM, "counters may not be read: that takes root, CAP_PERFMON"),
    ],
)
def test_where_nothing_counts_that_is_said_and_nothing_opened(
    number: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(counters, "_open_event", refuse)
    counters.why_no_instructions.cache_clear()
    try:
        assert counters.why_no_instructions().startswith(says)
        assert counters.count_instructions({"client": [os.getpid()]}) == {}
    finally:
        counters.why_no_instructions.cache_clear()


def test_a_counter_that_was_shared_is_no_count() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"".join(n.to_bytes(8, sys.byteorder) for n in (1000, 20, 10)))
    os.close(writing)
    counting = counters.InstructionCounter([])
    counting.events = [reading]
    assert counting.end() is None

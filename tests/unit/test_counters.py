"""Counters of processes and the machine. Page faults stand for instructions, which not every machine counts:
both are opened, inherited and read in the same way."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcsbench import processes
from vcsbench.measure import counters

MIB = 1 << 20
PAGE_FAULTS = (1, 2)
BURN = "import time\nwhile time.process_time() < 0.3: pass"
# Touches this number of pages, one after another.
TOUCH = """
import mmap, sys
memory = mmap.mmap(-1, 4096 * int(sys.argv[1]))
memory.madvise(mmap.MADV_NOHUGEPAGE)
for page in range(int(sys.argv[1])):
    memory[page * 4096] = 1
"""


def test_io_counts_include_ended_children(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 5 * MIB)
    before = processes.io_counts([os.getpid()])["rchar"]
    subprocess.run(["cat", tmp_path / "file"], stdout=subprocess.DEVNULL, check=True)
    assert processes.io_counts([os.getpid()])["rchar"] - before >= 5 * MIB


def test_usage_cpu_includes_running_descendants() -> None:
    child = f"{BURN}\nprint(1, flush=True)\ninput()"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    argv, pipe = [sys.executable, "-c", program], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as process:
        assert process.stdout and process.stdin
        process.stdout.readline()
        assert 0.3 <= processes.usage(processes.family(process.pid)).cpu_s < 3
        process.communicate(b"\n")


def test_usage_cpu_includes_ended_children() -> None:
    before = processes.usage([os.getpid()]).cpu_s
    subprocess.run([sys.executable, "-c", BURN], check=True)
    # Both values are whole ticks, so up to two may be missing.
    assert 0.28 <= processes.usage([os.getpid()]).cpu_s - before < 3
    assert processes.ended_children([os.getpid()]) > 0


def test_can_read_io_of_unreadable_process_is_false(monkeypatch: pytest.MonkeyPatch) -> None:
    assert processes.can_read_io(os.getpid())
    monkeypatch.setattr(processes, "read", lambda path: "")
    assert not processes.can_read_io(os.getpid())


def test_counters_delayed_acks_are_counted(tmp_path: Path) -> None:
    """An answer carries the acknowledgement; without an answer, TCP delays it by 40 ms."""
    before = counters.read_counters(tmp_path)
    if before.delayed_acks is None:
        pytest.skip("the kernel does not count delayed acknowledgements")
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
        listening.accept()[0] as server,
    ):
        for _ in range(3):
            for _ in range(20):
                client.sendall(b"?")
                server.sendall(server.recv(1))
                client.recv(1)
            client.sendall(b"?")
            server.recv(1)
            time.sleep(0.1)
    assert counters.counters_between(before, counters.read_counters(tmp_path))["delayed_acks"] >= 3


def test_counters_busy_time_is_counted(tmp_path: Path) -> None:
    before, began = counters.read_counters(tmp_path), time.monotonic()
    while time.monotonic() - began < 0.3:
        pass
    delta = counters.counters_between(before, counters.read_counters(tmp_path))
    assert delta["window_s"] >= 0.3 and delta["busy_s"] > 0.1


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(counters, "EVENT", PAGE_FAULTS)
    counters.why_no_instructions.cache_clear()
    if counters.why_no_instructions():
        pytest.skip(f"here {counters.why_no_instructions()}")
    yield
    counters.why_no_instructions.cache_clear()


def run_touch(pages: int) -> None:
    subprocess.run([sys.executable, "-c", TOUCH, str(pages)], check=True)


def faults_of_child(pages: int) -> int:
    """Return the page faults of a child that touches this number of pages."""
    counter = counters.count_instructions({"client": [os.getpid()]})["client"]
    run_touch(pages)
    count = counter.end()
    assert count is not None
    return count


def test_count_instructions_includes_children(faults: None) -> None:
    # The faults of the interpreter itself differ slightly between two starts.
    assert faults_of_child(5000) - faults_of_child(1000) == pytest.approx(4000, abs=200)


def test_count_instructions_includes_running_threads(
    faults: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go, ended = threading.Event(), threading.Event(), threading.Event()

    def touch() -> None:
        started.set()
        go.wait()
        exec(TOUCH, {})
        ended.set()

    monkeypatch.setattr(sys, "argv", ["touch", "3000"])
    thread = threading.Thread(target=touch)
    thread.start()
    try:
        started.wait()
        counter = counters.count_instructions({"server": [os.getpid()]})["server"]
        go.set()
        ended.wait()
        count = counter.end()
    finally:
        go.set()
        thread.join()
    assert count and 3000 <= count < 6000


def test_count_instructions_separates_sides_and_closes_counters(faults: None) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with subprocess.Popen(["sleep", "60"]) as server:
        sides = counters.count_instructions({"client": [os.getpid()], "server": [server.pid]})
        run_touch(2000)
        counts = {side: counter.end() for side, counter in sides.items()}
        server.kill()
    assert (counts["client"] or 0) > 2000
    assert counts["server"] is not None and counts["server"] < 200
    assert len(os.listdir("/proc/self/fd")) == before


def test_count_instructions_of_ended_process_is_unknown(faults: None) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert counters.count_instructions({"server": [process.pid]})["server"].end() is None


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOENT, "the machine has no counter of instructions"),
        (errno.EACCES, "counters may not be read: that takes root, CAP_PERFMON"),
        (errno.EPERM, "counters may not be read: that takes root, CAP_PERFMON"),
    ],
)
def test_count_instructions_refused_has_reason_and_no_counters(
    number: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(counters, "_open_event", refuse)
    counters.why_no_instructions.cache_clear()
    try:
        assert counters.why_no_instructions().startswith(reason)
        assert counters.count_instructions({"client": [os.getpid()]}) == {}
    finally:
        counters.why_no_instructions.cache_clear()


def test_instruction_counter_that_was_shared_is_unknown() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"".join(n.to_bytes(8, sys.byteorder) for n in (1000, 20, 10)))
    os.close(writing)
    counter = counters.InstructionCounter([])
    counter.events = [reading]
    assert counter.end() is None

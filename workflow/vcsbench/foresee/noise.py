"""The machine's own noise: how much runs that are the same thing scatter here, in some 20 seconds."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench.measure.meters import counters

# So long is a run by which the processor is judged, and so many there are.
RUN_S = 0.2
RUNS = 40
# What is read from the device, and written to it and flushed, at a time.
READ_BYTES = 16 << 20
READS = 20
FLUSHES = 40
BLOCK = b"\0" * 4096
CHUNK = 1 << 20
# As a run is: a program that starts, computes in memory, and ends.
WORK = """
import sys, zlib
block = bytes(range(256)) * 256
for _ in range(int(sys.argv[1])):
    zlib.adler32(zlib.compress(block, 1))
"""


class Device(NamedTuple):
    """A folder's device: seconds that it takes to read so much, and to write a block and flush it."""

    reads: list[float]
    flushes: list[float]


class Noise(NamedTuple):
    """`runs` are the seconds of programs that all do the same. `devices` by the name of the storage; where
    it is in memory, none. `machine` is what the kernel counted meanwhile (meters.counters.between)."""

    runs: list[float]
    devices: dict[str, Device]
    machine: dict[str, Any]
    clock: str
    clock_read_s: float
    clock_drift: float


def scatter(times: Sequence[float]) -> float:
    """The standard deviation of times, as a share."""
    return math.expm1(statistics.stdev(map(math.log, times)))


def listen(storages: dict[str, Path], say: Callable[[str], None]) -> Noise:
    """Run the same thing again and again, and read and write a file of its own on each storage. Only that
    file is dropped from the cache."""
    before, clocks = counters.count(*storages.values()), _clocks()
    say("runs of 0.2 s, one after another")
    loops = _loops()
    runs = [_run(loops) for _ in range(RUNS)]
    devices = {}
    for name, folder in storages.items():
        say(f"reads and flushed writes on {name}")
        devices[name] = _device(folder)
    machine = counters.between(before, counters.count(*storages.values()))
    return Noise(runs, devices, machine, *_clock(clocks))


def probe() -> list[float]:
    """The seconds of some runs that do the same: a short listen()."""
    loops = _loops()
    return [_run(loops) for _ in range(RUNS // 2)]


def _run(loops: int) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-S", "-c", WORK, str(loops)], check=True)
    return time.monotonic() - began


def _loops() -> int:
    """How often the work is done in a run of the length that is wanted."""
    # By the processor's time: somebody else may be at work as well.
    loops, start = 16, _cpu_s(0)
    while (took := _cpu_s(loops)) - start < RUN_S / 4:
        loops *= 2
    return max(1, round(loops * (RUN_S - start) / (took - start)))


def _cpu_s(loops: int) -> float:
    before = os.times()
    _run(loops)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def _device(folder: Path) -> Device:
    with tempfile.NamedTemporaryFile(dir=folder, prefix="vcsbench-noise-") as file:
        for _ in range(READ_BYTES // CHUNK):
            file.write(os.urandom(CHUNK))
        flushes = []
        for _ in range(FLUSHES):
            began = time.monotonic()
            os.pwrite(file.fileno(), BLOCK, 0)
            os.fdatasync(file.fileno())
            flushes.append(time.monotonic() - began)
        file.flush()
        os.fsync(file.fileno())
        return Device([_read(file.fileno()) for _ in range(READS)], flushes)


def _read(file: int) -> float:
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    began = time.monotonic()
    for at in range(0, READ_BYTES, CHUNK):
        os.pread(file, CHUNK, at)
    return time.monotonic() - began


def _clocks() -> tuple[float, float]:
    return time.clock_gettime(time.CLOCK_MONOTONIC), time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


def _clock(before: tuple[float, float]) -> tuple[str, float, float]:
    """The clock's source, what it takes to read it, and by which share it was slewed since."""
    began, times = time.monotonic(), 10_000
    for _ in range(times):
        time.monotonic()
    read_s = (time.monotonic() - began) / times
    steered, raw = (now - then for now, then in zip(_clocks(), before, strict=True))
    return str(counters.setting()["clock_source"]), read_s, steered / raw - 1

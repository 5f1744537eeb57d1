"""What the kernel counts for the whole machine: processors, swap, pressure, throttling, the device, the
network's waiting."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench import cgroup
from vcsbench.kernelfile import read
from vcsbench.storages.filesystems import mount_of

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Of /proc/stat's first line: user, nice, system, irq, softirq. Guests' time is in user and nice.
BUSY = (0, 1, 2, 5, 6)
STEAL = 7
# Where a device's counters have its flushes, since Linux 5.5.
FLUSHES = 15
NFS_CLIENT = "/proc/net/rpc/nfs"
# A line of names and a line of numbers for each part of TCP.
TCP = "/proc/net/netstat"


class Counters(NamedTuple):
    """The machine's counters at one moment; None, or no entry, where it has no such counter.

    `rpcs` are the calls of this machine's NFS client; `device` has what the storage's block device did for
    everybody (device_counts), `pressure` the
    microseconds in which something waited for cpu, memory, io, `throttled` how often a processor was
    slowed down for its heat, `quota_us` how long quotas held back this control group and its ancestors,
    `delayed_acks` how often TCP acknowledged only when its time was up, which the other side may have
    waited for (docs/evidence.md).
    """

    moment_s: float
    ticks: tuple[int, ...]
    swapped_in: int
    swapped_out: int
    pressure: dict[str, int]
    throttled: int | None
    quota_us: int | None
    device: tuple[int, int, int, int | None] | None
    rpcs: int | None = None
    delayed_acks: int | None = None


def count(*paths: Path) -> Counters:
    """Read the counters now; those of the devices that hold the paths."""
    swapped = _numbers("/proc/vmstat", ("pswpin", "pswpout"))
    return Counters(
        moment_s=time.monotonic(),
        ticks=tuple(int(n) for n in read("/proc/stat").split("\n", 1)[0].split()[1:]),
        swapped_in=swapped.get("pswpin", 0),
        swapped_out=swapped.get("pswpout", 0),
        pressure={what: n for what in ("cpu", "memory", "io") if (n := _stalled(what)) is not None},
        throttled=_throttled(),
        quota_us=cgroup.throttled_us(),
        device=device_counts(*paths),
        rpcs=_rpcs(),
        delayed_acks=_delayed_acks(),
    )


def between(before: Counters, after: Counters) -> dict[str, Any]:
    """What the machine did between two moments, as the certificate has it."""
    window_s = after.moment_s - before.moment_s
    ticks = [b - a for a, b in zip(before.ticks, after.ticks, strict=True)]
    device: Sequence[int | None] = (None, None, None, None)
    if before.device and after.device:
        device = list(map(_difference, before.device, after.device))
    pressure = {
        f"{what}_pressure_pct": round(100e-6 * (stalled - before.pressure[what]) / window_s, 2)
        for what, stalled in after.pressure.items()
        if what in before.pressure
    }
    return {
        "window_s": round(window_s, 6),
        "device_read_bytes": device[0],
        "device_write_bytes": device[1],
        "device_reads": device[2],
        "device_flushes": device[3],
        "rpcs": _difference(before.rpcs, after.rpcs),
        "delayed_acks": _difference(before.delayed_acks, after.delayed_acks),
        "busy_s": round(sum(ticks[i] for i in BUSY) * TICK_S, 3),
        "steal_s": round(ticks[STEAL] * TICK_S, 3),
        "steal_pct": round(100 * ticks[STEAL] / (sum(ticks[: STEAL + 1]) or 1), 2),
        "swapped_in_pages": after.swapped_in - before.swapped_in,
        "swapped_out_pages": after.swapped_out - before.swapped_out,
        **pressure,
        "throttled": _difference(before.throttled, after.throttled),
        "quota_throttled_us": _difference(before.quota_us, after.quota_us),
    }


def setting() -> dict[str, Any]:
    """Return the machine's state before a run: load, memory available here, governor, clock source."""
    return {
        "load_before": os.getloadavg()[0],
        "memory_available_bytes": cgroup.memory().available,
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clock_source": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    }


def device_counts(*paths: Path) -> tuple[int, int, int, int | None] | None:
    """Of the block devices that hold paths, each counted once: bytes read, bytes written, how many reads
    they had, after neighbours were merged, and how many flushes (None where the kernel does not count them);
    None where the paths are on none."""
    devices = {_device(path) for path in paths}
    folders = [f"/sys/dev/block/{os.major(n)}:{os.minor(n)}" for n in devices]
    stats = [fields for folder in folders if (fields := _fields(folder))]
    if not stats:
        return None
    reads, sectors_read, sectors_written = (sum(of[i] for of in stats) for i in (0, 2, 6))
    flushes = _flushes({_whole(folder) for folder in folders})
    return sectors_read * 512, sectors_written * 512, reads, flushes


def _device(path: Path) -> int:
    number = os.stat(path).st_dev
    if os.major(number):
        return number
    # btrfs has numbers of its own; what is mounted says on which device.
    device = mount_of(path).device
    return os.stat(device).st_rdev if device.startswith("/dev/") else number


def _rpcs() -> int | None:
    # rpc CALLS RETRANSMISSIONS REFRESHES
    found = next((line for line in read(NFS_CLIENT).splitlines() if line.startswith("rpc ")), "")
    return int(found.split()[1]) if found else None


def _delayed_acks() -> int | None:
    lines = [line.split() for line in read(TCP).splitlines()[:2]]
    found = dict(zip(*lines, strict=True)) if len(lines) == 2 else {}
    return int(found["DelayedACKs"]) if "DelayedACKs" in found else None


def _fields(folder: str) -> list[int]:
    return [int(field) for field in read(f"{folder}/stat").split()]


@cache
def _whole(folder: str) -> str:
    """The disk of a partition: flushes are counted for that alone."""
    path = os.path.realpath(folder)
    return os.path.dirname(path) if os.path.exists(f"{path}/partition") else path


def _flushes(disks: set[str]) -> int | None:
    found = [fields[FLUSHES] for disk in disks if len(fields := _fields(disk)) > FLUSHES]
    return sum(found) if found else None


def _stalled(what: str) -> int | None:
    # "some avg10=0.00 avg60=0.00 avg300=0.00 total=123", then the same of "full".
    first = read(f"/proc/pressure/{what}").split("\n", 1)[0]
    return int(first.rpartition("total=")[2]) if first else None


@cache
def _throttle_files() -> tuple[str, ...]:
    return tuple(glob.glob("/sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count"))


def _throttled() -> int | None:
    files = _throttle_files()
    return sum(int(read(file) or 0) for file in files) if files else None


def _numbers(path: str, names: tuple[str, ...]) -> dict[str, int]:
    pairs = (line.split()[:2] for line in read(path).splitlines() if line.startswith(names))
    return {name: int(value) for name, value in pairs if name in names}


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before

"""Read the kernel's counters of the machine: processors, swap, pressure, heat, and block devices."""

import glob
import os
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from vcsbench import kernel
from vcsbench.kernel import check_result, libc, number_in, read
from vcsbench.storages.disks import whole_disks
from vcsbench.storages.filesystems import block_folders

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Columns of the first line of /proc/stat: user, nice, system, irq and softirq. The time of guests is part of
# user and nice, so its own columns (after STEAL) are not added.
BUSY = (0, 1, 2, 5, 6)
STEAL = 7
# Columns of /sys/block/DEVICE/stat.
READS, SECTORS_READ, SECTORS_WRITTEN, FLUSHES = 0, 2, 6, 15
# The kernel counts sectors of this size for all devices.
SECTOR_BYTES = 512
# Of the parent's network: this process has another one (isolation.py), with no NFS client.
NFS_CLIENT = f"/proc/{os.getppid()}/net/rpc/nfs"
TCP = "/proc/net/netstat"
PRESSURES = ("cpu", "memory", "io")
THROTTLING = "/sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count"

# Counters by name, which only grow; None if the machine does not count them.
Counts = dict[str, Any]

# The files are the same before and after each run.
_list_files = cache(glob.glob)


def read_counters(*paths: Path) -> Counts:
    """Return the machine's counters.

    - `window_s`: the clock; `..._ticks`: the time of all processors,
    - `..._stalled_us`: microseconds in which tasks waited, by PRESSURES,
    - `device_...`: the use of the block devices of `paths` by all processes,
    - `rpcs`: calls of this machine's NFS client,
    - `delayed_acks`: TCP acknowledgements after a timeout (docs/evidence.md),
    - `throttled`: slowdowns of processors because of heat,
    - `quota_throttled_us`: the time in which quotas held back this control group and its ancestors.

    Raise UserError if /proc lacks the files about the machine.
    """
    now_s = time.monotonic()
    # `cpu 4705 356 584 3699 23 23 0 0 0 0`, the sum over all processors.
    line = read("/proc/stat").split("\n", 1)[0]
    ticks = [int(field) for field in line.split()[1:]]
    if not ticks:
        kernel.check_system_files()
    counts: Counts = {
        "window_s": now_s,
        "busy_ticks": sum(ticks[column] for column in BUSY),
        "steal_ticks": ticks[STEAL],
        "all_ticks": sum(ticks[: STEAL + 1]),
    }
    for resource in PRESSURES:
        counts[f"{resource}_stalled_us"] = _read_stalled_us(resource)
    counts |= read_device_use(*paths)
    counts["rpcs"] = number_in(NFS_CLIENT, "rpc")
    counts["delayed_acks"] = _read_delayed_acks()
    counts["swapped_in_pages"] = number_in("/proc/vmstat", "pswpin")
    counts["swapped_out_pages"] = number_in("/proc/vmstat", "pswpout")
    counts["throttled"] = _read_throttled()
    counts["quota_throttled_us"] = kernel.throttled_us()
    return counts


def _read_stalled_us(resource: str) -> int | None:
    # `some avg10=0.00 avg60=0.00 avg300=0.00 total=4711`. Some kernels have no such file.
    line = read(f"/proc/pressure/{resource}").split("\n")[0]
    return int(line.rpartition("=")[2]) if line else None


def _read_delayed_acks() -> int | None:
    # Two lines, of names and of numbers: `TcpExt: SyncookiesSent ...` and `TcpExt: 0 ...`.
    lines = read(TCP).splitlines()
    if len(lines) < 2:
        return None
    names = lines[0].split()
    numbers = lines[1].split()
    if "DelayedACKs" not in names:
        return None
    return int(numbers[names.index("DelayedACKs")])


def _read_throttled() -> int | None:
    counts = [read(file) for file in _list_files(THROTTLING)]
    # A virtual machine has no such files, or empty ones.
    if not counts or not all(counts):
        return None
    return sum(int(count) for count in counts)


def counters_between(before: Counts, after: Counts) -> Counts:
    """Return differences by the names of the evidence: ticks in seconds, stalls in percent of the window.

    Counters are left out that only one side has, as those of a server that has ended.
    """
    counts: Counts = {}
    for name, earlier in before.items():
        if name in after:
            later = after[name]
            is_counted = earlier is not None and later is not None
            counts[name] = later - earlier if is_counted else None
    window_s = counts["window_s"]
    busy_ticks = counts.pop("busy_ticks")
    steal_ticks = counts.pop("steal_ticks")
    # It is 0 in a window of less than a tick.
    all_ticks = counts.pop("all_ticks") or 1
    stalled_us = {resource: counts.pop(f"{resource}_stalled_us") for resource in PRESSURES}

    counts["window_s"] = round(window_s, 6)
    counts["busy_s"] = round(busy_ticks * TICK_S, 3)
    counts["steal_s"] = round(steal_ticks * TICK_S, 3)
    counts["steal_pct"] = round(100 * steal_ticks / all_ticks, 2)
    for resource, us in stalled_us.items():
        if us is not None:
            counts[f"{resource}_pressure_pct"] = round(100e-6 * us / window_s, 2)
    return counts


def read_device_use(*paths: Path) -> Counts:
    """Return bytes, reads (after merging) and flushes of the devices that hold paths, each counted once.

    All are None if the counts of a device cannot be read. `device_flushes` is None if the kernel does not
    count flushes (before 5.5).
    """
    folders: set[str] = set()
    for path in paths:
        folders |= block_folders(path)
    devices = _read_devices(folders)
    if not devices:
        return {
            "device_read_bytes": None,
            "device_write_bytes": None,
            "device_reads": None,
            "device_flushes": None,
        }
    # Flushes are counted for whole disks only, not for partitions and devices that lie on others.
    disks: set[str] = set()
    for folder in folders:
        disks |= whole_disks(folder)
    flushes = [columns[FLUSHES] for columns in _read_devices(disks) if len(columns) > FLUSHES]
    return {
        "device_read_bytes": sum(columns[SECTORS_READ] for columns in devices) * SECTOR_BYTES,
        "device_write_bytes": sum(columns[SECTORS_WRITTEN] for columns in devices) * SECTOR_BYTES,
        "device_reads": sum(columns[READS] for columns in devices),
        "device_flushes": sum(flushes) if flushes else None,
    }


def _read_devices(folders: Iterable[str]) -> list[list[int]]:
    """Return the columns of each device; none if those of one device cannot be read."""
    devices = []
    for folder in folders:
        columns = read(f"{folder}/stat").split()
        if not columns:
            return []
        devices.append([int(column) for column in columns])
    return devices


def measure_sync_s(path: Path) -> float:
    """Write all dirty data of the file system of a path, which need not exist. Return the seconds."""
    while not path.exists():
        path = path.parent
    folder = os.open(path, os.O_RDONLY)
    try:
        began = time.monotonic()
        check_result(libc.syncfs(folder), path)
        return round(time.monotonic() - began, 6)
    finally:
        os.close(folder)

"""Read the kernel's counters of the machine: processors, swap, pressure, heat, and block devices."""

import glob
import os
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench import kernel
from vcsbench.kernel import check_result, libc, number_in, read
from vcsbench.storages.disks import (
    find_block_devices,
    find_image_devices,
    has_counted_flushes,
    has_volatile_cache,
    whole_disks,
)

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Columns of the first line of /proc/stat: user, nice, system, irq and softirq. The time of guests is part of
# user and nice, so its own columns (after STEAL) are not added.
BUSY = (0, 1, 2, 5, 6)
STEAL = 7
# Columns of /sys/block/DEVICE/stat.
READS, SECTORS_READ, SECTORS_WRITTEN, FLUSHES = 0, 2, 6, 15
# The kernel counts sectors of this size for all devices.
SECTOR_BYTES = 512
# The NFS client is in the network of the parent. This process may have another network (isolation.py).
NFS_CLIENT = f"/proc/{os.getppid()}/net/rpc/nfs"
TCP = "/proc/net/netstat"
# Two lines of heads, and a line for each interface: `lo: BYTES PACKETS ... BYTES PACKETS ...`.
INTERFACES = "/proc/net/dev"
RECEIVED_BYTES, SENT_BYTES = 0, 8
LOOPBACK = "lo"
THROTTLING = "/sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count"
# Some keys of records.Evidence.
EvidencePart = dict[str, Any]
# The fields of MachineCounters whose growth in a run is a column of the same name.
EVENTS = (
    "rpcs", "delayed_acks", "wire_bytes", "swapped_in_pages", "swapped_out_pages",
    "throttled", "quota_throttled_us",
)  # fmt: skip

# The files are the same before and after each run.
_list_files = cache(glob.glob)


class DeviceUse(NamedTuple):
    """The use of block devices by all processes. `reads` are counted after merging.

    A field is None if there is no device, or if the counts of a device cannot be read. `flushes` is also None
    if no disk has a volatile cache, or if the kernel does not count them: before 5.5, and of some drivers.
    """

    read_bytes: int | None = None
    write_bytes: int | None = None
    reads: int | None = None
    flushes: int | None = None


class CountedDevices(NamedTuple):
    """Block devices, as folders of sysfs: those whose reads count, and those whose writes and flushes do."""

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()


class MachineCounters(NamedTuple):
    """Counters of the machine, which only grow; None if the machine does not count them.

    - `..._ticks`: the time of all processors,
    - `..._stalled_us`: microseconds in which tasks waited for a resource,
    - `rpcs`: calls of this machine's NFS client,
    - `delayed_acks`: TCP acknowledgements after a timeout (docs/evidence.md),
    - `wire_bytes`: bytes through the interfaces of this network, with the heads of packets,
    - `throttled`: slowdowns of processors because of heat,
    - `quota_throttled_us`: the time in which quotas held back this control group and its ancestors.
    """

    clock_s: float
    busy_ticks: int
    steal_ticks: int
    all_ticks: int
    cpu_stalled_us: int | None
    memory_stalled_us: int | None
    io_stalled_us: int | None
    device: DeviceUse
    rpcs: int | None
    delayed_acks: int | None
    wire_bytes: int | None
    swapped_in_pages: int | None
    swapped_out_pages: int | None
    throttled: int | None
    quota_throttled_us: int | None


def read_counters(devices: CountedDevices) -> MachineCounters:
    """Read the counters of the machine and of some block devices now.

    Raise UserError if /proc lacks the files about the machine.
    """
    clock_s = time.monotonic()
    # `cpu 4705 356 584 3699 23 23 0 0 0 0`: ticks of all processors as user, nice, system, idle, and so on.
    line = read("/proc/stat").split("\n", 1)[0]
    ticks = [int(field) for field in line.split()[1:]]
    if not ticks:
        kernel.check_system_files()
    return MachineCounters(
        clock_s=clock_s,
        busy_ticks=sum(ticks[column] for column in BUSY),
        # The ticks that the hypervisor gave to other virtual machines.
        steal_ticks=ticks[STEAL],
        all_ticks=sum(ticks[: STEAL + 1]),
        cpu_stalled_us=_read_stalled_us("cpu"),
        memory_stalled_us=_read_stalled_us("memory"),
        io_stalled_us=_read_stalled_us("io"),
        device=_read_use(devices),
        rpcs=number_in(NFS_CLIENT, "rpc"),
        delayed_acks=_read_delayed_acks(),
        wire_bytes=_read_wire_bytes(),
        swapped_in_pages=number_in("/proc/vmstat", "pswpin"),
        swapped_out_pages=number_in("/proc/vmstat", "pswpout"),
        throttled=_read_throttled(),
        quota_throttled_us=kernel.throttled_us(),
    )


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


def _read_wire_bytes() -> int | None:
    """Return the bytes through all interfaces; None if the kernel does not list them."""
    total = None
    # After two lines of heads, each line is `eth0: 4096 12 ...`: the received bytes come first.
    for line in read(INTERFACES).splitlines()[2:]:
        name, _, numbers = line.partition(":")
        columns = [int(column) for column in numbers.split()]
        total = (total or 0) + columns[RECEIVED_BYTES]
        # The loopback interface receives each byte that it sends, so its sent bytes would count twice.
        if name.strip() != LOOPBACK:
            total += columns[SENT_BYTES]
    return total


def _read_throttled() -> int | None:
    """Return how often heat has slowed processors, as the sum of all processors; None if not counted."""
    counts = [read(file) for file in _list_files(THROTTLING)]
    # A virtual machine has no such files, or empty ones.
    if not counts or not all(counts):
        return None
    return sum(int(count) for count in counts)


def subtract(after: float | None, before: float | None) -> Any:
    """Return how much a counter has grown; None if one of its two readings is missing."""
    if after is None or before is None:
        return None
    return after - before


def count_growth(
    before: object, after: object, names: Iterable[str], prefix: str = ""
) -> EvidencePart:
    """Return how much counters have grown between two readings: {"client_rchar": 4096, "client_wchar": None}.

    `before` and `after` are named tuples of one class, and `names` are those of their fields that count. None
    stands for a counter that one of the readings lacks.
    """
    return {
        f"{prefix}{name}": subtract(getattr(after, name), getattr(before, name)) for name in names
    }


def count_events(before: MachineCounters, after: MachineCounters) -> EvidencePart:
    """Return what happened on the machine within a run, for example {"rpcs": 12, "device_reads": 3}.

    `window_s` is the time between both readings.
    """
    return {
        "window_s": round(after.clock_s - before.clock_s, 6),
        **count_growth(before.device, after.device, DeviceUse._fields, "device_"),
        **count_growth(before, after, EVENTS),
    }


def measure_load(before: MachineCounters, after: MachineCounters) -> EvidencePart:
    """Return how busy the machine was in a run, such as {"busy_s": 1.5, "steal_s": 0.0, "steal_pct": 0.0}.

    The seconds are of all processors together: 2 processors can be busy for 2 s in a run of 1 s. `steal_pct`
    is the share of their time that the hypervisor gave to other virtual machines. Keys such as
    `cpu_pressure_pct`, the share of the run in which some task waited for a processor, may be missing.
    """
    busy_ticks = after.busy_ticks - before.busy_ticks
    steal_ticks = after.steal_ticks - before.steal_ticks
    # In a run of less than a tick, the difference is 0, which must not be a divisor.
    all_ticks = (after.all_ticks - before.all_ticks) or 1
    load: EvidencePart = {
        "busy_s": round(busy_ticks * TICK_S, 3),
        "steal_s": round(steal_ticks * TICK_S, 3),
        "steal_pct": round(100 * steal_ticks / all_ticks, 2),
    }
    window_s = after.clock_s - before.clock_s
    for resource in ("cpu", "memory", "io"):
        name = f"{resource}_stalled_us"
        stalled_us = subtract(getattr(after, name), getattr(before, name))
        if stalled_us is not None:
            # 100 is for per cent, and 1e-6 because the stalls are in microseconds.
            load[f"{resource}_pressure_pct"] = round(100e-6 * stalled_us / window_s, 2)
    return load


def choose_devices(*paths: Path, written: Sequence[Path] | None = None) -> CountedDevices:
    """Return the block devices whose use is counted, so that each byte counts once.

    Reads count on the devices that hold any of the `paths`. Written bytes and flushes count only on those
    that hold a path in `written`; None stands for all `paths`.
    """
    # Example: a command exports from a disk to RAM. It reads from the disk, and writes to none. If another
    # program writes to that disk, these bytes must not count as the command's.
    written_paths = paths if written is None else written
    return CountedDevices(_find_devices(paths), _find_devices(written_paths))


def _find_devices(paths: Iterable[Path]) -> frozenset[str]:
    """Return the block devices that hold some paths, as folders of sysfs, without those that count twice."""
    devices: set[str] = set()
    for path in paths:
        devices |= find_block_devices(path)
    # A loop device has its blocks in an image, a file on another device. That device counts the bytes of the
    # loop device, too. So if it is among `devices`, the loop device is left out.
    counted = [device for device in devices if devices.isdisjoint(find_image_devices(device))]
    return frozenset(counted)


def read_device_use(*paths: Path, written: Sequence[Path] | None = None) -> DeviceUse:
    """Return the use, by all processes since boot, of the block devices of some paths (choose_devices)."""
    return _read_use(choose_devices(*paths, written=written))


def _read_use(devices: CountedDevices) -> DeviceUse:
    """Return the use of block devices since boot, by all processes (read_device_use)."""
    read_statistics = _read_statistics(devices.read)
    written_statistics = _read_statistics(devices.written)
    return DeviceUse(
        read_bytes=_sum_column(read_statistics, SECTORS_READ, SECTOR_BYTES),
        write_bytes=_sum_column(written_statistics, SECTORS_WRITTEN, SECTOR_BYTES),
        reads=_sum_column(read_statistics, READS),
        flushes=_count_flushes(devices.written),
    )


def _count_flushes(devices: Iterable[str]) -> int | None:
    """Return the flushes of the disks of some devices since boot. `devices` are folders of sysfs.

    A flush makes a disk write its volatile cache, so a disk without such a cache gets none. Return None if no
    disk gets flushes, or if the kernel does not count the flushes of one of the disks.
    """
    # The kernel counts flushes of whole disks only: not of partitions, and not of devices of LVM or RAID,
    # which lie on disks.
    disks = {disk for disk in _find_disks(devices) if has_volatile_cache(disk)}
    # A sum without the flushes of one disk would be too small.
    if not all(has_counted_flushes(disk) for disk in disks):
        return None
    total = None
    for disk in disks:
        # A flush of a loop device becomes a flush of the disk that holds its image. If that disk counts as
        # well, the loop device is skipped, so that the flush counts once.
        if not disks.isdisjoint(_find_disks(find_image_devices(disk))):
            continue
        columns = _read_columns(disk)
        # Before Linux 5.5, the kernel does not count flushes, and the file `stat` ends before this column.
        if len(columns) <= FLUSHES:
            return None
        total = (total or 0) + columns[FLUSHES]
    return total


def _find_disks(devices: Iterable[str]) -> set[str]:
    disks: set[str] = set()
    for device in devices:
        disks |= whole_disks(device)
    return disks


def _read_statistics(devices: Iterable[str]) -> list[list[int]]:
    """Return the columns of each device's file `stat`; [] if one device cannot be read."""
    statistics = [_read_columns(device) for device in devices]
    return statistics if all(statistics) else []


def _read_columns(device: str) -> list[int]:
    return [int(column) for column in read(f"{device}/stat").split()]


def _sum_column(statistics: Sequence[Sequence[int]], column: int, unit: int = 1) -> int | None:
    """Return the sum of a column over all devices, times `unit`: SECTOR_BYTES, or 1. None without devices."""
    if not statistics:
        return None
    return unit * sum(columns[column] for columns in statistics)


def measure_sync_s(path: Path) -> float:
    """Write all dirty data of the file system of a path, and return the seconds that this takes.

    The path need not exist: the first folder above it that exists is on the same file system.
    """
    while not path.exists():
        path = path.parent
    folder = os.open(path, os.O_RDONLY)
    try:
        began = time.monotonic()
        check_result(libc.syncfs(folder), path)
        return round(time.monotonic() - began, 6)
    finally:
        os.close(folder)

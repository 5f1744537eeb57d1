"""Read the kernel's counters: processors, swap, pressure, devices, network file systems, instructions."""

import ctypes
import errno
import glob
import mmap
import os
import re
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench import kernel
from vcsbench.kernel import check_result, libc, number_in, read, unescaped
from vcsbench.storages.disks import whole_disks
from vcsbench.storages.filesystems import Mount, block_folders, mount_of

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Columns of /proc/stat: user, nice, system, irq, softirq. Time of guests is in user and nice.
BUSY = (0, 1, 2, 5, 6)
STEAL = 7
FLUSHES = 15
# Of the parent's network: this process has another one (isolation.py), with no NFS client.
NFS_CLIENT = f"/proc/{os.getppid()}/net/rpc/nfs"
TCP = "/proc/net/netstat"
PRESSURES = ("cpu", "memory", "io")
THROTTLING = "/sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count"

# Counters by name, which only grow; None if the machine does not count them.
Counts = dict[str, Any]


def read_counters(*paths: Path) -> Counts:
    """Return the machine's counters.

    - `window_s`: the clock; `..._ticks`: the time of all processors,
    - `..._stalled_us`: microseconds in which tasks waited, by PRESSURES,
    - `device_...`: the use of the block devices of `paths` by all processes,
    - `rpcs`: calls of this machine's NFS client,
    - `delayed_acks`: TCP acknowledgements after a timeout (docs/evidence.md),
    - `throttled`: slowdowns of processors because of heat,
    - `quota_throttled_us`: the time in which quotas held back this control group and its ancestors.
    """
    now_s = time.monotonic()
    ticks = [int(n) for n in read("/proc/stat").split("\n", 1)[0].split()[1:]]
    if not ticks:
        kernel.check_system_files()
    tcp = dict(zip(*map(str.split, read(TCP).splitlines()[:2]), strict=True))
    throttled = [read(file) for file in _files(THROTTLING)]
    stalls = {name: read(f"/proc/pressure/{name}").split("\n")[0] for name in PRESSURES}
    return {
        "window_s": now_s,
        "busy_ticks": sum(ticks[i] for i in BUSY),
        "steal_ticks": ticks[STEAL],
        "all_ticks": sum(ticks[: STEAL + 1]),
        **{
            f"{name}_stalled_us": int(line.rpartition("=")[2]) if line else None
            for name, line in stalls.items()
        },
        **device_use(*paths),
        "rpcs": number_in(NFS_CLIENT, "rpc"),
        "delayed_acks": int(tcp["DelayedACKs"]) if "DelayedACKs" in tcp else None,
        "swapped_in_pages": number_in("/proc/vmstat", "pswpin"),
        "swapped_out_pages": number_in("/proc/vmstat", "pswpout"),
        "throttled": sum(map(int, throttled)) if throttled and all(throttled) else None,
        "quota_throttled_us": kernel.throttled_us(),
    }


def counters_between(before: Counts, after: Counts) -> Counts:
    """Return differences by the names of the evidence: ticks in seconds, stalls in percent of the window."""
    pairs = ((name, number, after[name]) for name, number in before.items() if name in after)
    seen: Counts = {name: None if a is None or b is None else b - a for name, a, b in pairs}
    busy, steal, total = (seen.pop(f"{name}_ticks") for name in ("busy", "steal", "all"))
    stalled_us = {name: seen.pop(f"{name}_stalled_us") for name in PRESSURES}
    return {
        **seen,
        "window_s": round(seen["window_s"], 6),
        "busy_s": round(busy * TICK_S, 3),
        "steal_s": round(steal * TICK_S, 3),
        "steal_pct": round(100 * steal / (total or 1), 2),
        **{
            f"{resource}_pressure_pct": round(100e-6 * us / seen["window_s"], 2)
            for resource, us in stalled_us.items()
            if us is not None
        },
    }


def device_use(*paths: Path) -> Counts:
    """Return bytes, reads (after merging) and flushes of the devices that hold paths, each counted once."""
    names = ("device_read_bytes", "device_write_bytes", "device_reads", "device_flushes")
    folders = set[str]().union(*map(block_folders, paths))

    def rows(folders: Iterable[str]) -> list[list[int]]:
        """Return the counts of each device; none if those of one cannot be read."""
        fields = [read(f"{folder}/stat").split() for folder in folders]
        return [[int(field) for field in row] for row in fields] if all(fields) else []

    if not (stats := rows(folders)):
        return dict.fromkeys(names)
    reads, sectors_read, sectors_written = (sum(row[i] for row in stats) for i in (0, 2, 6))
    # Flushes are counted for whole disks only, not for partitions and devices that lie on others.
    disks = rows(set().union(*map(whole_disks, folders)))
    flushes = [row[FLUSHES] for row in disks if len(row) > FLUSHES]
    counts = (sectors_read * 512, sectors_written * 512, reads, sum(flushes) if flushes else None)
    return dict(zip(names, counts, strict=True))


def sync_seconds(path: Path) -> float:
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


_files = cache(glob.glob)

NFS = ("nfs", "nfs4")
NETWORK = (*NFS, "cifs", "smb3", "ceph", "9p", "afs", "lustre", "fuse.sshfs", "fuse.glusterfs")
MOUNT_STATISTICS = "/proc/self/mountstats"
EXPORTS = "/proc/fs/nfsd/exports"
DIRECT_BYTES, PAGES = 2, 6


class NetworkOutput(NamedTuple):
    """A network file system that a run writes to.

    `storage` has the exported folders of a server on this machine; `has_input` is True if the run reads its
    repository or tree from the same mount.
    """

    mount: Mount
    storage: tuple[Path, ...]
    has_input: bool

    def counts(self) -> Counts:
        from_storage = device_use(*self.storage)["device_read_bytes"] if self.storage else None
        from_server = _read_from_server(self.mount)
        return {"network_read_bytes": from_server, "network_storage_read_bytes": from_storage}

    def facts(self) -> Counts:
        return {"network_filesystem": self.mount.filesystem, "network_input": self.has_input}


def network_output(inputs: Sequence[Path], outputs: Sequence[Path]) -> NetworkOutput | None:
    mount = mount_of(outputs[0]) if outputs else None
    if not mount or mount.filesystem not in NETWORK:
        return None
    has_input = any(mount_of(folder).point == mount.point for folder in inputs)
    # The disk of a server counts as unknown, unless it has a loopback address.
    is_here = re.search(r"(^|,)addr=(::1(,|$)|127\.)", mount.options)
    storage = _local_exports() if mount.filesystem in NFS and is_here else ()
    return NetworkOutput(mount, storage, has_input)


def _read_from_server(mount: Mount) -> int | None:
    """Return the bytes that an NFS mount has read. The client's own counters have them in pages."""
    if mount.filesystem not in NFS:
        return None
    is_this = False
    for line in read(MOUNT_STATISTICS).splitlines():
        words = line.split()
        if line.startswith("device "):
            is_this = "on" in words and unescaped(words[words.index("on") + 1]) == mount.point
        elif is_this and words[:1] == ["bytes:"]:
            numbers = [int(word) for word in words[1:]]
            return numbers[DIRECT_BYTES] + numbers[PAGES] * mmap.PAGESIZE
    return None


def _local_exports() -> tuple[Path, ...]:
    lines = [line for line in read(EXPORTS).splitlines() if line.startswith("/")]
    # The kernel adds the parent folders of an export with the option v4root.
    exports = [unescaped(line.split()[0]) for line in lines if "v4root" not in line]
    return tuple(path for path in map(Path, exports) if path.is_dir())


# perf_event_open(2), in user mode. A counter belongs to one thread, and to all that this starts later.

PERF_EVENT_OPEN = {"x86_64": 298, "ppc64le": 319, "s390x": 331}.get(os.uname().machine, 241)
EVENT = (0, 1)
# struct perf_event_attr in its first version, which every kernel supports: type, size, config, sample_period,
# sample_type, read_format, flags, and three fields that stay 0.
ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")
EVENT_FLAGS = 1 << 1 | 1 << 5 | 1 << 6
TIMES = 0x1 | 0x2
CLOSE_ON_EXEC = 8
ANY_CPU, NO_GROUP = -1, -1


class InstructionCounter:
    """Count the instructions of all threads of some processes, and of their later children."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.events: list[int] = []
        self.has_failed = False
        try:
            for pid in pids:
                for thread in map(int, os.listdir(f"/proc/{pid}/task")):
                    with suppress(ProcessLookupError):
                        self.events.append(_open_event(thread))
        except OSError:
            self.has_failed = True

    def end(self) -> int | None:
        """Return None if a counter failed, or was shared with other users for some of the time."""
        total = 0
        while self.events:
            event = self.events.pop()
            count, enabled_ns, running_ns = struct.unpack("=3Q", os.read(event, 24))
            os.close(event)
            self.has_failed |= running_ns != enabled_ns
            total += count
        return None if self.has_failed else total


@cache
def why_no_instructions() -> str:
    try:
        os.close(_open_event(0))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            takes = "root, CAP_PERFMON, or kernel.perf_event_paranoid of at most 2"
            return f"counters may not be read: that takes {takes}"
        return f"the machine has no counter of instructions ({os.strerror(error.errno or 0)})"
    return ""


def count_instructions(sides: Mapping[str, Sequence[int]]) -> dict[str, InstructionCounter]:
    if why_no_instructions():
        return {}
    return {side: InstructionCounter(pids) for side, pids in sides.items()}


def _open_event(thread: int) -> int:
    """Open the counter of a thread; 0 is this thread."""
    kind, config = EVENT
    numbers = (kind, ATTRIBUTES.size, config, 0, 0, TIMES, EVENT_FLAGS, 0, 0, 0)
    options = (thread, ANY_CPU, NO_GROUP, ctypes.c_ulong(CLOSE_ON_EXEC))
    return check_result(libc.syscall(PERF_EVENT_OPEN, ATTRIBUTES.pack(*numbers), *options))

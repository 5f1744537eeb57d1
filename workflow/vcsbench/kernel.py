"""Read what the kernel reports: its small files, and the limits that control groups set for this process.

Both versions of control groups are read, and both may be mounted at once. A limit of any ancestor counts.
"""

import ctypes
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import parse_number

SELF = Path("/proc/self")
# Version 1 writes "no limit" as the largest multiple of a page below 2^63.
UNLIMITED = 1 << 60
LARGEST_COUNT = (1 << 64) - 1
# By version: files with a limit, each with the file of the usage that counts against it.
LIMITS = {
    1: [
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ("memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"),
    ],
    2: [("memory.max", "memory.current"), ("memory.high", "memory.current")],
}
# The memory that the kernel frees for other uses: pages of files, and caches of its own.
RECLAIMABLE = ("inactive_file", "active_file", "slab_reclaimable")
# Operations of prctl(2), from <linux/prctl.h>.
PR_SET_PDEATHSIG = 1
PR_GET_PDEATHSIG = 2
PR_SET_CHILD_SUBREAPER = 36


# A /proc that shows processes only, as in a hardened container, has none of these.
SYSTEM_FILES = ("/proc/stat", "/proc/uptime", "/proc/net/tcp", "/proc/self/mounts")


def check_system_files() -> None:
    """Raise UserError if /proc lacks the files about the machine."""
    missing = [file for file in SYSTEM_FILES if not read(file)]
    if missing:
        raise UserError(
            f"/proc shows processes only: {', '.join(missing)} cannot be read. Mount it without subset=pid "
            f"(systemd: ProcSubset=all), and run again."
        )


def read(path: str | Path, errors: str = "replace") -> str:
    """Return a file's content without white space around it; "" if it cannot be read.

    `errors` is as in open(). "surrogateescape" keeps paths that are not UTF-8.
    """
    try:
        with open(path, errors=errors) as file:
            return file.read().strip()
    except OSError:
        return ""


def number_in(file: str | Path, name: str) -> int | None:
    """Return the number after a name in a file with lines such as `MemTotal: 4096 kB`; None without one."""
    match = re.search(rf"^{re.escape(name)}[ \t]+(\S+)", read(file), re.MULTILINE)
    return parse_number(match[1], LARGEST_COUNT) if match else None


libc = ctypes.CDLL(None, use_errno=True)


def system_error(subject: str | Path | None = None) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), subject)


def check_result(result: int, subject: str | Path | None = None) -> int:
    """Return the result of a call of the C library. Raise OSError if it is negative."""
    if result < 0:
        raise system_error(subject)
    return result


def control_process(operation: int, argument: object) -> None:
    """Set or read a property of this process or thread by prctl(2). Raise OSError if it is refused."""
    check_result(libc.prctl(operation, argument, 0, 0, 0))


def death_signal() -> int:
    """Return the signal that the kernel sends to this process when its parent ends; 0 for none."""
    number = ctypes.c_int()
    control_process(PR_GET_PDEATHSIG, ctypes.byref(number))
    return number.value


def unescaped(field: str) -> str:
    r"""Return a field of a mount table without escapes: the kernel writes a space as \040."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda found: chr(int(found[1], 8)), field)


class MemoryLimit(NamedTuple):
    """A limit of a control group, and the bytes that count against it and cannot be freed."""

    limit_bytes: int
    used_bytes: int


class Group(NamedTuple):
    """One control group: its folder, and the version (1 or 2) of its hierarchy."""

    folder: Path
    version: int


class Memory(NamedTuple):
    """Memory in bytes: `total` and `available` to this process, `limit` of its groups (None: no limit).

    `total` and `available` are None if the kernel does not report them.
    """

    total: int | None
    available: int | None
    limit: int | None


def memory() -> Memory:
    """Return the memory that this process can use: the machine's memory, or less by its control groups.

    In a container that may use 2 GiB and uses 0.5 GiB, `total` and `limit` are 2 GiB, and `available` is at
    most 1.5 GiB. If no group has a limit below the machine's memory, `limit` is None.
    """
    limits: list[MemoryLimit] = []
    for group in groups("memory"):
        limits += _memory_limits(group)
    machine_total = machine_memory_bytes("MemTotal")
    # All limits hold, so the smallest one decides.
    smallest = min((limit.limit_bytes for limit in limits), default=None)
    is_limited = smallest is not None and (machine_total is None or smallest < machine_total)
    available_bytes = [max(0, limit.limit_bytes - limit.used_bytes) for limit in limits]
    machine_available = machine_memory_bytes("MemAvailable")
    if machine_available is not None:
        available_bytes.append(machine_available)
    return Memory(
        total=smallest if is_limited else machine_total,
        available=min(available_bytes, default=None),
        limit=smallest if is_limited else None,
    )


def machine_memory_bytes(name: str = "MemTotal") -> int | None:
    """Return a number of /proc/meminfo in bytes; None if the kernel does not report it."""
    kibibytes = number_in("/proc/meminfo", f"{name}:")
    return None if kibibytes is None else kibibytes << 10


def quota_cores() -> float | None:
    """Return how many processors quotas let this process use, for example 1.5; None without a quota.

    A quota is a time in each period: 150000 of 100000 microseconds are 1.5 processors. The quotas of all
    control groups of this process hold, so the smallest one decides.
    """
    quotas = []
    for group in groups("cpu"):
        if group.version == 1:
            fields = [read(group.folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        else:
            # One file with the quota and the period: `150000 100000`.
            fields = read(group.folder / "cpu.max").split()
        numbers = [parse_number(field, LARGEST_COUNT) for field in fields]
        # In version 2, the group at the root lacks the file.
        if len(numbers) != 2:
            continue
        quota_us, period_us = numbers
        # Without a quota, version 2 has "max" and version 1 has -1. parse_number() returns None for both.
        if quota_us and period_us:
            quotas.append(quota_us / period_us)
    return min(quotas, default=None)


def throttled_us() -> int | None:
    """Return the microseconds in which quotas held back this process's groups; None if not counted."""
    total_us = None
    for group in groups("cpu"):
        statistics = group.folder / "cpu.stat"
        # Version 1 counts nanoseconds, and version 2 microseconds.
        if group.version == 1:
            throttled_ns = number_in(statistics, "throttled_time")
            group_us = None if throttled_ns is None else throttled_ns // 1000
        else:
            group_us = number_in(statistics, "throttled_usec")
        if group_us is not None:
            total_us = (total_us or 0) + group_us
    return total_us


# The versions of control groups, by the type of their file system.
GROUP_VERSIONS = {"cgroup": 1, "cgroup2": 2}


@cache
def groups(controller: str) -> tuple[Group, ...]:
    """Return the control groups that limit a resource for this process: its own first, then the ancestors.

    The `controller` of the resource is "cpu", "memory", "io" or "blkio". Example: groups("memory") in a
    container is (Group(folder=Path("/sys/fs/cgroup/memory"), version=1),). Return () without control groups.
    """
    # A line has the number of a hierarchy, its controllers, and the path of the process's own group:
    # `4:cpu,cpuacct:/docker/0123` or, in version 2, `0::/docker/0123`. A path may have colons itself.
    lines = read(SELF / "cgroup", "surrogateescape").split("\n")
    all_fields = [line.split(":", 2) for line in lines]
    # Without control groups, the only line is empty.
    memberships = [fields for fields in all_fields if len(fields) == 3]
    members: list[Group] = []
    for mount in _read_group_mounts():
        for hierarchy, controllers, path in memberships:
            # Version 2 has one hierarchy, with the number 0, for all controllers. In version 1, each mount
            # has the hierarchy of some controllers.
            if mount.version == 2:
                is_of_controller = hierarchy == "0"
            else:
                is_of_controller = (
                    controller in mount.controllers and controller in controllers.split(",")
                )
            if is_of_controller:
                # `path` is in the whole hierarchy. The mount at `point` shows the part from `root` on.
                members += _list_upwards(mount.root, mount.point, path, mount.version)
    return tuple(members)


class _GroupMount(NamedTuple):
    """A mount at `point` that shows the folder `root` of a file system of control groups.

    Its version is 1, with the controllers of its hierarchy, or 2.
    """

    root: str
    point: str
    version: int
    controllers: list[str]


def _read_group_mounts() -> list[_GroupMount]:
    """Return the mounts of control groups that this process sees."""
    mounts = []
    # A line is `36 35 98:0 ROOT POINT OPTIONS optional... - TYPE DEVICE SUPER_OPTIONS`.
    for line in read(SELF / "mountinfo", "surrogateescape").split("\n"):
        mount, _, file_system = line.partition(" - ")
        fields = mount.split(" ")
        kind, *device_and_options = file_system.split(" ")
        if len(fields) < 5 or kind not in GROUP_VERSIONS:
            continue
        root, point = fields[3:5]
        # Of version 1, the names of the controllers are among the SUPER_OPTIONS: `rw,cpu,cpuacct`.
        options = "".join(device_and_options[1:]).split(",")
        mounts.append(_GroupMount(root, point, GROUP_VERSIONS[kind], options))
    return mounts


def _list_upwards(root: str, point: str, path: str, version: int) -> Iterator[Group]:
    """Yield a group and its ancestors, as far as the mount at `point` of the folder `root` shows them.

    The group with the path /a/b/c, and a mount of the folder /a at /sys/fs/cgroup, give the folders
    /sys/fs/cgroup/b/c, /sys/fs/cgroup/b and /sys/fs/cgroup.
    """
    top = Path(unescaped(point))
    below = os.path.relpath(path, unescaped(root))
    # In a container, the path may lie outside of `root`. The top of the mount is then the container's group.
    is_below = not below.startswith("..")
    folder = Path(os.path.normpath(top / below)) if is_below else top
    while True:
        yield Group(folder, version)
        # The parent of the folder / is / itself.
        if folder in (top, folder.parent):
            return
        folder = folder.parent


def _memory_limits(group: Group) -> Iterator[MemoryLimit]:
    """Yield each limit of a group, with the bytes that count against the limit and cannot be freed."""
    statistics = group.folder / "memory.stat"
    # In version 1, only numbers with this prefix include the pages of the groups below.
    prefix = "total_" if group.version == 1 else ""
    if group.version == 1:
        # Each of these two is the smallest limit of the group and all its ancestors, also of ancestors that a
        # container cannot see. The usage of the ancestors is unknown here, so it counts as 0.
        for name in ("hierarchical_memory_limit", "hierarchical_memsw_limit"):
            limit = number_in(statistics, name)
            if limit is not None and limit < UNLIMITED:
                yield MemoryLimit(limit, 0)
    for limit_file, usage_file in LIMITS[group.version]:
        limit = parse_number(read(group.folder / limit_file), LARGEST_COUNT)
        # Without a limit, version 1 has a number from UNLIMITED on, and version 2 the word `max`.
        if limit is None or limit >= UNLIMITED:
            continue
        used = parse_number(read(group.folder / usage_file), LARGEST_COUNT) or 0
        for name in RECLAIMABLE:
            used -= number_in(statistics, f"{prefix}{name}") or 0
        yield MemoryLimit(limit, max(0, used))

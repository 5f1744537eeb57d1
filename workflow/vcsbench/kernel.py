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
LARGEST = (1 << 64) - 1
# By version: files with a limit, each with the file of what counts against it.
LIMITS = {
    1: [
        (f"memory.{name}limit_in_bytes", f"memory.{name}usage_in_bytes") for name in ("", "memsw.")
    ],
    2: [("memory.max", "memory.current"), ("memory.high", "memory.current")],
}
RECLAIMABLE = ("inactive_file", "active_file", "slab_reclaimable")


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

    `errors="surrogateescape"` keeps paths that are not UTF-8.
    """
    try:
        with open(path, errors=errors) as file:
            return file.read().strip()
    except OSError:
        return ""


def number_in(file: str | Path, name: str) -> int | None:
    """Return the number after a name in a file with a line for each name."""
    match = re.search(rf"^{re.escape(name)}[ \t]+(\S+)", read(file), re.MULTILINE)
    return parse_number(match[1], LARGEST) if match else None


libc = ctypes.CDLL(None, use_errno=True)


def system_error(subject: str | Path | None = None) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), subject)


def check_result(result: int, subject: str | Path | None = None) -> int:
    """Return the result of a call of the C library. Raise OSError if it is negative."""
    if result < 0:
        raise system_error(subject)
    return result


def unescaped(field: str) -> str:
    r"""Return a field of a mount table without escapes: the kernel writes a space as \040."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda found: chr(int(found[1], 8)), field)


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
    total, available = machine_memory_bytes("MemTotal"), machine_memory_bytes("MemAvailable")
    limits = [pair for group in groups("memory") for pair in _memory_limits(group)]
    limit = _least(*(most for most, _ in limits))
    if total is not None and limit is not None and limit >= total:
        limit = None
    rests = [max(0, most - used) for most, used in limits]
    return Memory(_least(total, limit), _least(available, *rests), limit)


def machine_memory_bytes(name: str = "MemTotal") -> int | None:
    kibibytes = number_in("/proc/meminfo", f"{name}:")
    return None if kibibytes is None else kibibytes << 10


def quota_cores() -> float | None:
    quotas = []
    for folder, version in groups("cpu"):
        fields = read(folder / "cpu.max").split()
        if version == 1:
            fields = [read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        # "max", or -1, is no number.
        numbers = [number for field in fields if (number := parse_number(field, LARGEST))]
        if len(numbers) == 2:
            quotas.append(numbers[0] / numbers[1])
    return min(quotas, default=None)


def throttled_us() -> int | None:
    counts = []
    for folder, version in groups("cpu"):
        name, per_us = ("throttled_time", 1000) if version == 1 else ("throttled_usec", 1)
        if (number := number_in(folder / "cpu.stat", name)) is not None:
            counts.append(number // per_us)
    return sum(counts) if counts else None


@cache
def groups(controller: str) -> tuple[Group, ...]:
    """Return the groups that limit a controller for this process: its own group first, then the ancestors."""
    own_groups = read(SELF / "cgroup", "surrogateescape").split("\n")
    lines = [line.split(":", 2) for line in own_groups if line.count(":") > 1]
    members: list[Group] = []
    # 36 35 98:0 ROOT POINT OPTIONS optional... - TYPE DEVICE SUPER_OPTIONS
    for mount in read(SELF / "mountinfo", "surrogateescape").split("\n"):
        left, _, right = mount.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")
        is_version_2 = kind[0] == "cgroup2"
        is_version_1 = kind[0] == "cgroup" and controller in "".join(kind[2:3]).split(",")
        for number, controllers, path in lines if len(fields) > 4 else ():
            if is_version_2 and number == "0":
                members += _upwards(fields[3], fields[4], path, 2)
            elif is_version_1 and controller in controllers.split(","):
                members += _upwards(fields[3], fields[4], path, 1)
    return tuple(members)


def _upwards(root: str, point: str, path: str, version: int) -> Iterator[Group]:
    # In a container, the mount shows the tree from its own group on; the path may still name all of it.
    below, top = os.path.relpath(path, unescaped(root)), Path(unescaped(point))
    folder = top if below.startswith("..") else Path(os.path.normpath(top / below))
    while True:
        yield Group(folder, version)
        if folder in (top, folder.parent):
            return
        folder = folder.parent


def _memory_limits(group: Group) -> Iterator[tuple[int, int]]:
    """Yield each limit of a group with the bytes that count against it and cannot be freed."""
    folder = group.folder
    stat = folder / "memory.stat"
    if group.version == 1:
        # The kernel counts ancestors here that a container cannot see.
        for name in ("hierarchical_memory_limit", "hierarchical_memsw_limit"):
            if (limit := number_in(stat, name)) is not None and limit < UNLIMITED:
                yield limit, 0
    prefix = "total_" * (group.version == 1)
    for limit_file, usage_file in LIMITS[group.version]:
        limit = parse_number(read(folder / limit_file), LARGEST)
        if limit is None or limit >= UNLIMITED:
            continue
        used = parse_number(read(folder / usage_file), LARGEST) or 0
        freeable = sum(number_in(stat, f"{prefix}{name}") or 0 for name in RECLAIMABLE)
        yield limit, max(0, used - freeable)


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)

"""Read the limits that control groups set for this process: memory and processor time.

Both versions of control groups are read, and both may be mounted at once. A limit of any ancestor counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vcsbench.external import parse_number
from vcsbench.kernelfile import read, unescaped

SELF = Path("/proc/self")
MEMINFO = Path("/proc/meminfo")
# Version 1 writes "no limit" as the largest multiple of a page below 2^63.
UNLIMITED = 1 << 60
LARGEST = (1 << 64) - 1
# The kernel can free the pages of files and the slabs that are reclaimable.
RECLAIMABLE = ("inactive_file", "active_file", "slab_reclaimable")


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
    """Return the memory that this process may use: the machine's, or less in a limited control group."""
    machine = {key: _first(MEMINFO, f"{key}:") for key in ("MemTotal", "MemAvailable")}
    total, available = (None if n is None else n << 10 for n in machine.values())
    limits: list[int] = []
    rests: list[int] = []
    for group in groups("memory"):
        for most, used in _memory_limits(group):
            limits.append(most)
            rests.append(max(0, most - used))
    limit = min(limits, default=None)
    if total is not None and limit is not None and limit >= total:
        limit = None
    return Memory(_least(total, limit), _least(available, *rests), limit)


def machine_memory_bytes() -> int | None:
    """Return the memory of the machine, whatever the limits are."""
    kibibytes = _first(MEMINFO, "MemTotal:")
    return None if kibibytes is None else kibibytes << 10


def quota_cores() -> float | None:
    """Return how many cores the quotas of this process allow at most, or None without a quota."""
    return min(filter(None, map(_quota_of, groups("cpu"))), default=None)


def throttled_us() -> int | None:
    """Return the microseconds in which quotas held back the groups of this process, or None if unknown."""
    counts = [n for group in groups("cpu") if (n := _throttled_of(group)) is not None]
    return sum(counts) if counts else None


@cache
def groups(controller: str, own: Path = SELF) -> tuple[Group, ...]:
    """Return the groups that limit a controller for this process: its own group first, then the ancestors."""
    found: list[Group] = []
    lines = [line.split(":", 2) for line in read(own / "cgroup").split("\n") if line.count(":") > 1]
    for mount in _mounts(own):
        for number, controllers, path in lines:
            if mount.version == 2 and number != "0":
                continue
            if mount.version == 1 and controller not in controllers.split(","):
                continue
            if mount.version == 1 and controller not in mount.options:
                continue
            found.extend(_upwards(mount, path))
    return tuple(found)


class _Mount(NamedTuple):
    version: int
    root: str
    point: str
    options: Sequence[str]


def _mounts(own: Path) -> Iterator[_Mount]:
    # 36 35 98:0 ROOT POINT OPTIONS optional... - TYPE DEVICE SUPER_OPTIONS
    for line in read(own / "mountinfo").split("\n"):
        left, _, right = line.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")
        if len(fields) > 4 and kind[0] in ("cgroup", "cgroup2"):
            version = 2 if kind[0] == "cgroup2" else 1
            root, point = map(unescaped, fields[3:5])
            yield _Mount(version, root, point, kind[2].split(",") if len(kind) > 2 else ())


def _upwards(mount: _Mount, path: str) -> Iterator[Group]:
    # In a container, the mount shows the tree from its own group on; the path may still name all of it.
    below = os.path.relpath(path, mount.root)
    top = Path(mount.point)
    folder = top if below.startswith("..") else Path(os.path.normpath(top / below))
    while True:
        yield Group(folder, mount.version)
        if folder in (top, folder.parent):
            return
        folder = folder.parent


def _memory_limits(group: Group) -> Iterator[tuple[int, int]]:
    """Yield each limit of a group with the bytes that count against it and cannot be freed."""
    folder = group.folder
    stat = folder / "memory.stat"
    if group.version == 2:
        pairs = [("memory.max", "memory.current"), ("memory.high", "memory.current")]
        prefix = ""
    else:
        pairs = [
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            ("memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"),
        ]
        prefix = "total_"
        # The kernel counts ancestors here that a container cannot see.
        for name in ("hierarchical_memory_limit", "hierarchical_memsw_limit"):
            if (limit := _first(stat, name)) is not None and limit < UNLIMITED:
                yield limit, 0
    for limit_file, usage_file in pairs:
        limit = parse_number(read(folder / limit_file), LARGEST)
        if limit is None or limit >= UNLIMITED:
            continue
        used = parse_number(read(folder / usage_file), LARGEST) or 0
        freeable = sum(_first(stat, f"{prefix}{name}") or 0 for name in RECLAIMABLE)
        yield limit, max(0, used - freeable)


def _quota_of(group: Group) -> float | None:
    if group.version == 2:
        fields = read(group.folder / "cpu.max").split()
    else:
        fields = [read(group.folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    numbers = [parse_number(field, LARGEST) for field in fields]
    if len(numbers) != 2 or not numbers[0] or not numbers[1]:
        return None  # "max", or -1
    return numbers[0] / numbers[1]


def _throttled_of(group: Group) -> int | None:
    stat = group.folder / "cpu.stat"
    if group.version == 2:
        return _first(stat, "throttled_usec")
    nanoseconds = _first(stat, "throttled_time")
    return None if nanoseconds is None else nanoseconds // 1000


def _first(file: Path, name: str) -> int | None:
    """Return the number after a name in a file of names and numbers."""
    for line in read(file).split("\n"):
        fields = line.split()
        if len(fields) > 1 and fields[0] == name:
            return parse_number(fields[1], LARGEST)
    return None


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)

"""The file systems that are mounted here, as the kernel tells."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from vcsbench.kernelfile import unescaped

# File systems whose files are in memory and nowhere else: they cannot be cold.
IN_MEMORY = ("tmpfs", "ramfs")


MOUNTS = Path("/proc/self/mounts")


class Mount(NamedTuple):
    """A mounted file system: its device as the kernel names it, its mount point, type, and options."""

    device: str
    point: str
    filesystem: str
    options: str = ""


def read_mounts() -> list[Mount]:
    """Return all mounts of this process, later ones last."""
    # Only a newline ends a line, and only a space ends a field: a path may have any other white space.
    table = os.fsdecode(MOUNTS.read_bytes()) if MOUNTS.exists() else ""
    fields = [line.split(" ")[:4] for line in table.split("\n") if line]
    return [Mount(*map(unescaped, four)) for four in fields]


def mount_of(path: str | os.PathLike[str]) -> Mount:
    """The mount that holds a path, which need not exist yet."""
    real = os.path.realpath(path)
    holding = [
        m for m in read_mounts() if real == m.point or real.startswith(m.point.rstrip("/") + "/")
    ]
    # Of two at one point, the later one hides the other.
    return max(reversed(holding), key=lambda m: len(m.point), default=Mount("", "/", ""))

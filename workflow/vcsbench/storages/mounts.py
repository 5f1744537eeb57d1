"""The file systems that are mounted here, as the kernel tells."""

from __future__ import annotations

import os
from typing import NamedTuple

from vcsbench.kernelfile import read

# File systems whose files are in memory and nowhere else: they cannot be cold.
IN_MEMORY = ("tmpfs", "ramfs")


class Mount(NamedTuple):
    """A mounted file system: its device as the kernel names it, its mount point, type, and options."""

    device: str
    point: str
    filesystem: str
    options: str = ""


def read_mounts() -> list[Mount]:
    """All mounts of this process, later ones last."""
    fields = [line.split()[:4] for line in read("/proc/self/mounts").splitlines()]
    return [
        Mount(device, point.replace("\\040", " "), kind, options)
        for device, point, kind, options in fields
    ]


def mount_of(path: str | os.PathLike[str]) -> Mount:
    """The mount that holds a path, which need not exist yet."""
    real = os.path.realpath(path)
    holding = [
        m for m in read_mounts() if real == m.point or real.startswith(m.point.rstrip("/") + "/")
    ]
    # Of two at one point, the later one hides the other.
    return max(reversed(holding), key=lambda m: len(m.point), default=Mount("", "/", ""))

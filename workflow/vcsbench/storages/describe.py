"""What lies under a storage, read from the system."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcsbench import cgroup
from vcsbench.kernelfile import read
from vcsbench.storages.mounts import IN_MEMORY, mount_of

if TYPE_CHECKING:
    from vcsbench.machine import Machine

# Memory that Snakemake and the programs that load take.
LOADING_BYTES = 256 << 20


def storage(name: str, path: Path) -> dict[str, Any]:
    """A storage as contexts have it: its file system, device, mount options, I/O scheduler, free space."""
    mount = mount_of(path)
    return {
        "name": name,
        "path": str(path),
        "filesystem": mount.filesystem,
        "device": mount.device,
        "rotational": {"1": True, "0": False}.get(_queue(path, "rotational")),
        "mount_options": mount.options,
        "scheduler": _chosen(_queue(path, "scheduler")),
        "free_bytes": free_bytes(path),
    }


def free_bytes(folder: Path) -> int:
    """Return the bytes that may be written to a folder. In RAM, a container's memory limit counts."""
    there = os.statvfs(folder)
    free = there.f_bavail * there.f_frsize
    available = cgroup.memory().available
    if available is not None and mount_of(folder).filesystem in IN_MEMORY:
        # The programs that load need memory, too.
        free = min(free, max(0, available - max(available // 10, LOADING_BYTES)))
    return free


def lacks_journal(path: str) -> bool:
    """Whether a path is on ext4 without a journal.

    Such a file system passes over inodes for minutes after their deletion (recently_deleted in the
    kernel's fs/ext4/ialloc.c): writing a tree again where it was just removed takes several times as long.
    """
    real = os.path.realpath(path)
    if not os.path.exists(real) or mount_of(real).filesystem != "ext4":
        return False
    name = os.path.basename(os.path.realpath(_block(real)))
    return not list(Path("/proc/fs/jbd2").glob(f"{name}-*"))


def why_never_cold(machine: Machine, storage: str, clear_caches: str) -> str:
    """Why no cell on a storage can be cold here, in a clause; "" if one can."""
    kind = _filesystem(storage)
    if kind in IN_MEMORY:
        return f"{storage} is a {kind}: what is only in memory cannot be cold"
    if machine.clearing(clear_caches):
        return ""
    if clear_caches == "auto":
        return "caches cannot be cleared here: that takes root, or vmtouch to drop a repository's files"
    takes = "root" if clear_caches == "drop-caches" else "vmtouch"
    return f"`clear_caches: {clear_caches}` is not possible here: it takes {takes}"


# Asked for each of thousands of cells.
@cache
def _filesystem(path: str) -> str:
    return mount_of(path).filesystem


def _block(path: str | Path) -> str:
    device = os.stat(path).st_dev
    return f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"


def _queue(path: Path, name: str) -> str:
    # A partition's queue is its disk's.
    block = _block(path)
    return read(f"{block}/queue/{name}") or read(f"{block}/../queue/{name}")


def _chosen(schedulers: str) -> str:
    """Of `none [mq-deadline] kyber` the one in brackets."""
    found = re.search(r"\[(.+?)\]", schedulers)
    return found[1] if found else schedulers

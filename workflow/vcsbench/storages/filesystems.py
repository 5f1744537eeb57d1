"""Read which file systems are mounted, describe them, and recognize that one is full."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vcsbench import kernel
from vcsbench.errors import FULL, full_errno
from vcsbench.kernel import read, unescaped

if TYPE_CHECKING:
    from vcsbench.machine import Machine
    from vcsbench.records import StorageFacts

# Their files are only in memory: they cannot be cold.
IN_MEMORY = ("tmpfs", "ramfs")
MOUNTS = Path("/proc/self/mounts")
# Memory that Snakemake and the loading programs take.
LOADING_BYTES = 256 << 20
LEAST_BYTES = 256 * 1024
REFUSALS = (*FULL, errno.EROFS)
# E and the errno, or S13 of SQLite, which has Subversion's cache of representations.
_SVN_ERRNO = re.compile(r"\bE000(\d{3})\b")
_SQLITE_FULL = re.compile(r"sqlite\[S13\]")
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_TOPDIR_FL = 0x80086601, 0x40086602, 0x00020000


class Mount(NamedTuple):
    """A mounted file system: device, mount point, type and options, as the kernel prints them."""

    device: str
    point: str
    filesystem: str
    options: str = ""


def read_mounts() -> list[Mount]:
    # A path may have white space other than a newline (end of line) and a space (end of field).
    table = os.fsdecode(MOUNTS.read_bytes()) if MOUNTS.exists() else ""
    fields = [line.split(" ")[:4] for line in table.split("\n") if line]
    return [Mount(*map(unescaped, four)) for four in fields]


def mount_of(path: str | os.PathLike[str]) -> Mount:
    real = os.path.realpath(path)
    holding = [
        m for m in read_mounts() if real == m.point or real.startswith(m.point.rstrip("/") + "/")
    ]
    # Of two at one point, the later one hides the other.
    return max(reversed(holding), key=lambda m: len(m.point), default=Mount("", "/", ""))


def describe_storage(name: str, path: Path) -> StorageFacts:
    """Return a storage's file system, device, mount options, I/O scheduler and free space."""
    mount = mount_of(path)
    scheduler = _queue(path, "scheduler")
    chosen = re.search(r"\[(.+?)\]", scheduler)  # none [mq-deadline] kyber
    return {
        "name": name,
        "path": str(path),
        "filesystem": mount.filesystem,
        "device": mount.device,
        "rotational": {"1": True, "0": False}.get(_queue(path, "rotational")),
        "mount_options": mount.options,
        "scheduler": chosen[1] if chosen else scheduler,
        "free_bytes": free_bytes(path),
    }


def storage_kind(filesystem: str, is_rotational: bool | None) -> str:
    """Return `RAM`, `spinning disk`, `SSD`, or "" if unknown. A virtual disk may claim either."""
    if filesystem in IN_MEMORY:
        return "RAM"
    return {True: "spinning disk", False: "SSD", None: ""}[is_rotational]


def free_bytes(folder: Path) -> int:
    """Return the bytes that may be written to a folder. In RAM, a container's memory limit counts."""
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    available = kernel.memory().available
    if available is not None and mount_of(folder).filesystem in IN_MEMORY:
        free = min(free, max(0, available - max(available // 10, LOADING_BYTES)))
    return free


@cache
def lacks_journal(path: str) -> bool:
    """Return True if a path is on ext4 without a journal.

    It skips inodes for minutes after their deletion (recently_deleted in the kernel's fs/ext4/ialloc.c). To
    write a tree after the removal of another takes several times as long.
    """
    real = os.path.realpath(path)
    if not os.path.exists(real) or mount_of(real).filesystem != "ext4":
        return False
    name = os.path.basename(os.path.realpath(block_folder(real)))
    return not list(Path("/proc/fs/jbd2").glob(f"{name}-*"))


def why_never_cold(machine: Machine, storage: str, clear_caches: str) -> str:
    kind = mount_of(storage).filesystem
    if kind in IN_MEMORY:
        return f"{storage} is a {kind}: files in memory are never cold"
    if machine.clearing(clear_caches):
        return ""
    if clear_caches == "auto":
        return "caches cannot be cleared here: that takes root, or vmtouch to drop a repository's files"
    takes = "root" if clear_caches == "drop-caches" else "vmtouch"
    return f"`clear_caches: {clear_caches}` is not possible here: it takes {takes}"


def block_folder(path: str | Path) -> str:
    """Return the kernel's folder about the block device of a path; it may be missing."""
    device = os.stat(path).st_dev
    if not os.major(device):
        # btrfs has its own numbers; the mount names the device.
        with contextlib.suppress(OSError):
            device = os.stat(mount_of(path).device).st_rdev or device
    return f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"


def _queue(path: Path, name: str) -> str:
    block = block_folder(path)
    return read(f"{block}/queue/{name}") or read(f"{block}/../queue/{name}")


def is_full(folder: str | Path) -> bool:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize < LEAST_BYTES or bool(
        status.f_files and not status.f_favail
    )


@contextlib.contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Name the folder in an OSError without a path, as that of a write to a full disk is."""
    try:
        yield
    except shutil.Error as error:
        _, target, reason = error.args[0][0]
        raise_write_error(reason, target)
        raise
    except OSError as error:
        error.filename = error.filename or str(folder)
        raise


def raise_write_error(output: str, path: str | Path) -> None:
    """Raise the OSError that a program printed in English, if a full or read-only storage caused it."""
    found = _SVN_ERRNO.search(output)
    number = errno.ENOSPC if _SQLITE_FULL.search(output) else full_errno(output)
    number = int(found[1]) if found else number
    if number in REFUSALS:
        raise OSError(number, os.strerror(number), str(path))


def next_directory(above: Path, name: str) -> Path:
    """Make a new folder in a part of the disk from which nothing was removed lately, and return it.

    lacks_journal() has the reason. ext4 spreads the folders in its root, or in a marked folder, over the
    disk, and chooses the part by the name.
    """
    descriptor = os.open(above, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            (flags,) = struct.unpack("i", fcntl.ioctl(descriptor, FS_IOC_GETFLAGS, bytes(4)))
            fcntl.ioctl(descriptor, FS_IOC_SETFLAGS, struct.pack("i", flags | FS_TOPDIR_FL))
    finally:
        os.close(descriptor)
    new = above / os.urandom(16).hex()
    new.mkdir()
    return new.rename(above / name)

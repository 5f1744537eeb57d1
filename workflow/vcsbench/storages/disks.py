"""Identify the disks below a folder, and find those that are in memory.

A file system on a loop device or on a RAM disk looks like one on a disk. Its blocks can be in memory.
"""

from __future__ import annotations

import contextlib
import enum
import glob
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vcsbench.errors import UserError
from vcsbench.kernel import read
from vcsbench.storages.filesystems import (
    IN_MEMORY,
    block_folder,
    block_folders,
    free_bytes,
    mount_of,
)

if TYPE_CHECKING:
    from vcsbench.records import StorageFacts

# The names of the kernel's RAM disks: brd, and compressed memory.
RAM_DISKS = ("ram", "zram")
# Files of sysfs with the identity of a disk: a World Wide Name, a serial number, the identity of a memory
# card.
IDENTITIES = ("wwid", "device/wwid", "serial", "device/serial", "device/cid")
UUIDS = Path("/dev/disk/by-uuid")
DELETED = " (deleted)"


class DiskKind(enum.StrEnum):
    """The kind of a disk, as far as this system can see."""

    DEVICE = "device"
    LOOP = "loop device"
    RAM = "RAM disk"


class Disk(NamedTuple):
    """A disk by its name in the kernel. `identity` stays when the name changes; "" if unknown.

    `image` is the file behind a loop device. `is_direct` is True if the loop device reads it without the page
    cache.
    """

    name: str
    kind: DiskKind
    identity: str
    image: str = ""
    is_direct: bool = False


def disks_of(path: str | Path) -> list[Disk]:
    """Return the disks below a folder; [] on a file system without block devices, such as NFS."""
    folders: set[str] = set()
    for device in block_folders(path):
        folders.update(whole_disks(device))
    return [_disk(folder) for folder in sorted(folders) if os.path.isdir(folder)]


@cache
def whole_disks(folder: str) -> frozenset[str]:
    """Return the disks of a partition, or those below a device of LVM, LUKS or RAID, as folders of sysfs."""
    path = os.path.realpath(folder)
    # /sys/block/sda/sda1 is a partition of /sys/block/sda.
    disk = os.path.dirname(path) if os.path.exists(f"{path}/partition") else path
    devices_below = glob.glob(f"{disk}/slaves/*")
    if not devices_below:
        return frozenset([disk])
    return frozenset[str]().union(*map(whole_disks, devices_below))


def _disk(folder: str) -> Disk:
    """Return the disk of a folder of sysfs, such as /sys/block/nvme0n1."""
    name = os.path.basename(folder)
    image = read(f"{folder}/loop/backing_file")
    if image:
        # The number of a loop device is that of any free one. So the path of the image identifies the device.
        return Disk(name, DiskKind.LOOP, image, image, read(f"{folder}/loop/dio") == "1")
    # ram0, zram1: they have no identity but their name.
    if name.rstrip("0123456789") in RAM_DISKS:
        return Disk(name, DiskKind.RAM, name)
    for file in IDENTITIES:
        identity = read(f"{folder}/{file}")
        if identity:
            return Disk(name, DiskKind.DEVICE, identity)
    return Disk(name, DiskKind.DEVICE, "")


def filesystem_id(path: str | Path) -> str:
    """Return the UUID of the file system of a folder, or the id that the kernel gives it; "" in memory."""
    if mount_of(path).filesystem in IN_MEMORY:
        # Each mount of a tmpfs has another id, and all memory is alike.
        return ""
    device = os.stat(path).st_dev
    # A container has no /dev/disk.
    with contextlib.suppress(OSError):
        for link in UUIDS.iterdir():
            if os.stat(link).st_rdev == device:
                return link.name
    return f"{os.statvfs(path).f_fsid:x}"


def storage_identity(path: str | Path) -> list[str]:
    """Return the type and the id of a folder's file system, and the identity of each of its disks.

    Example: ["ext4", "5a2f1c9e-...", "eui.0025385b71b0c1a2"]. A disk without identity has its name. Return []
    for a missing folder.
    """
    if not os.path.isdir(path):
        return []
    disks = [disk.identity or disk.name for disk in disks_of(path)]
    return [mount_of(path).filesystem, filesystem_id(path), *disks]


def describe_storage(name: str, path: Path) -> StorageFacts:
    """Return a storage's file system, device, disks, mount options, I/O scheduler and free space."""
    mount = mount_of(path)
    # The kernel lists all schedulers, the chosen one in brackets: none [mq-deadline] kyber.
    scheduler = _queue(path, "scheduler")
    chosen = re.search(r"\[(.+?)\]", scheduler)
    return {
        "name": name,
        "path": str(path),
        "real_path": os.path.realpath(path),
        "filesystem": mount.filesystem,
        "filesystem_id": filesystem_id(path),
        "device": mount.device,
        "disks": [disk._asdict() for disk in disks_of(path)],
        # True if reads may come from memory even if this system's caches are empty, as on a RAM disk.
        "cached_below": is_cached_below(path),
        # None if the kernel does not report it.
        "rotational": {"1": True, "0": False}.get(_queue(path, "rotational")),
        "write_cache": _queue(path, "write_cache"),
        "mount_options": mount.options,
        "scheduler": chosen[1] if chosen else scheduler,
        "free_bytes": free_bytes(path),
    }


def _queue(path: Path, name: str) -> str:
    """Return a setting of the disk below a path, such as `1` for `rotational`; "" if unknown."""
    # A partition has the settings of its disk, which is the folder above it.
    block = block_folder(path)
    return read(f"{block}/queue/{name}") or read(f"{block}/../queue/{name}")


def check_same_disks(disks: Mapping[str, Sequence[str]]) -> None:
    """Raise UserError if a folder has another storage_identity() than in `disks`."""
    for folder, identity in disks.items():
        if storage_identity(folder) != [*identity]:
            raise UserError(
                f"{folder}: another disk is mounted there than when this workflow run began. Run again."
            )


def is_cached_below(path: str | Path) -> bool:
    """Return True if reads of a folder's disk can come from memory, even if this system's caches are empty.

    This is so on a RAM disk. It is so on a loop device if its image is read through the page cache, or lies
    in memory, on a disk for which this function returns True, or on an unknown disk.
    """
    for disk in disks_of(path):
        if disk.kind is DiskKind.RAM:
            return True
        if disk.kind is not DiskKind.LOOP:
            continue
        if not disk.is_direct:
            return True
        # With direct I/O, it depends on the disk that has the image. The kernel adds DELETED to the path of
        # an image that was removed while the device is in use.
        folder = os.path.dirname(disk.image.removesuffix(DELETED))
        # If the folder does not exist here, the image is in another mount namespace, and nothing is known
        # about its disk. A cold run must not read from memory, so the unknown disk counts as cached.
        if not os.path.isdir(folder):
            return True
        if mount_of(folder).filesystem in IN_MEMORY or is_cached_below(folder):
            return True
    return False

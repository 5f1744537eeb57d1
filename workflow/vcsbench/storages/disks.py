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
    OVERLAY,
    Mount,
    block_folder,
    block_folders,
    free_bytes,
    mount_of,
)

if TYPE_CHECKING:
    from vcsbench.records import StorageFacts

# The names of the kernel's disks in memory, before their numbers: brd, compressed memory, and persistent
# memory, which is a memory module, or a file in the page cache of a hypervisor.
RAM_DISKS = ("ram", "zram", "pmem")
# The mount option of an overlay with the folder of its new files.
UPPER_FOLDER = re.compile(r"(?:^|,)upperdir=([^,]+)")
# Files of sysfs with a disk's World Wide Name or serial number, or the identity of a memory card.
IDENTITIES = ("wwid", "device/wwid", "serial", "device/serial", "device/cid")
UUIDS = Path("/dev/disk/by-uuid")
DELETED = " (deleted)"
# A cache that loses its content without power, in the file queue/write_cache of a disk.
WRITE_BACK = "write back"


class DiskKind(enum.StrEnum):
    """The kind of a disk, as far as this system can see."""

    DEVICE = "device"
    LOOP = "loop device"
    RAM = "RAM disk"


class Disk(NamedTuple):
    """A disk by its name in the kernel. `identity` stays when the name changes; "" if unknown.

    `image` is the file behind a loop device. With `is_direct`, the page cache is not used for the image.
    """

    name: str
    kind: DiskKind
    identity: str
    image: str = ""
    is_direct: bool = False


def disks_of(path: str | Path) -> list[Disk]:
    """Return the disks below a folder; [] on a file system without block devices, such as NFS."""
    # Folders of sysfs, such as /sys/block/sda.
    folders: set[str] = set()
    for device in block_folders(path):
        folders.update(whole_disks(device))
    return [_disk(folder) for folder in sorted(folders) if os.path.isdir(folder)]


@cache
def whole_disks(folder: str) -> frozenset[str]:
    """Return the disk of a partition, or the disks below a device of LVM, LUKS or RAID.

    Argument and result are folders of sysfs: /sys/block/sda/sda1 gives the folder to which the link
    /sys/block/sda leads.
    """
    path = os.path.realpath(folder)
    disk = os.path.dirname(path) if os.path.exists(f"{path}/partition") else path
    # A device of LVM, LUKS or RAID lies on these devices, which may lie on further ones.
    devices_below = glob.glob(f"{disk}/slaves/*")
    if not devices_below:
        return frozenset([disk])
    return frozenset[str]().union(*map(whole_disks, devices_below))


def find_block_devices(path: str | Path) -> set[str]:
    """Return the block devices that hold a path, as folders of sysfs without links.

    The set is empty in memory, on a network, and on a file system that hides its devices (overlayfs, ZFS).
    """
    return {os.path.realpath(folder) for folder in block_folders(path) if os.path.isdir(folder)}


def find_image_devices(device: str) -> set[str]:
    """Return the block devices that hold the images of a device's loop devices, as folders of sysfs.

    If the image of loop0 is a file on sda1, the result for loop0 is sda1. An image may lie in another image:
    the devices of both are in the result. An image in memory has none.
    """
    devices: set[str] = set()
    for disk in whole_disks(device):
        image = read(f"{disk}/loop/backing_file")
        if image:
            devices |= _devices_of_image(image)
    return devices


# An image stays where it is. After caches were cleared, another search would load the folder of the image.
@cache
def _devices_of_image(image: str) -> frozenset[str]:
    """Return the block devices that hold an image, and those that hold the images in which it lies."""
    folder = _image_folder(image)
    if not folder:
        return frozenset()
    devices = find_block_devices(folder)
    further = [find_image_devices(device) for device in devices]
    return frozenset(devices.union(*further))


def _image_folder(image: str) -> str:
    """Return the folder of the file behind a loop device; "" if it is not visible here, as in a container."""
    # The kernel adds DELETED to the path of an image that was removed while the device is in use.
    folder = os.path.dirname(image.removesuffix(DELETED))
    return folder if os.path.isdir(folder) else ""


def has_volatile_cache(disk: str) -> bool:
    """Return True if a disk, given its folder of sysfs, has a cache that loses its content without power.

    A flush empties this cache. The kernel sends flushes to no other disks, so there are none to count.
    """
    return read(f"{disk}/queue/write_cache") == WRITE_BACK


def has_counted_flushes(disk: str) -> bool:
    """Return True if a disk gets flushes, and the kernel counts them, given the disk's folder of sysfs.

    Some drivers get requests without the kernel's queues (`mq`), where flushes are counted: pmem, DRBD, a
    zvol, or an NVMe disk with several paths.
    """
    has_queues = os.path.isdir(f"{disk}/mq")
    return has_queues and has_volatile_cache(disk)


def _disk(folder: str) -> Disk:
    """Return the disk of a folder of sysfs, such as /sys/block/nvme0n1."""
    name = os.path.basename(folder)
    image = read(f"{folder}/loop/backing_file")
    if image:
        # A loop device gets any free number. So the path of the image identifies the device.
        return Disk(name, DiskKind.LOOP, image, image, read(f"{folder}/loop/dio") == "1")
    # Disks in memory, such as ram0, zram1 and pmem0s, have no identity but their name.
    if re.split(r"\d", name)[0] in RAM_DISKS:
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

    Example: ["ext4", "5a2f1c9e-...", "eui.0025385b71b0c1a2"]. A disk without identity has its name. A file
    system without disks has the device of its mount: ["nfs4", "0", "server:/export"].
    """
    if not os.path.isdir(path):
        return []
    mount = mount_of(path)
    disks = [disk.identity or disk.name for disk in disks_of(path)]
    # The id of NFS and FUSE is 0, and all memory is alike.
    if not disks and mount.filesystem not in IN_MEMORY:
        disks.append(mount.device)
    return [mount.filesystem, filesystem_id(path), *disks]


def describe_storage(name: str, path: Path) -> StorageFacts:
    """Return a storage's file system, device, disks, mount options, settings of the disk, and free space."""
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
        "cached_below": is_cached_below(path),
        "rotational": {"1": True, "0": False}.get(_queue(path, "rotational")),
        "write_cache": _queue(path, "write_cache"),
        "mount_options": mount.options,
        "scheduler": chosen[1] if chosen else scheduler,
        "read_ahead_kb": _queue(path, "read_ahead_kb"),
        "free_bytes": free_bytes(path),
    }


def _queue(path: Path, name: str) -> str:
    """Return a setting of the disk below a path, such as `1` for `rotational`; "" if unknown."""
    # A partition has the settings of its disk, which is the folder above it.
    block = block_folder(path)
    return read(f"{block}/queue/{name}") or read(f"{block}/../queue/{name}")


def check_same_disks(disks: Mapping[str, Sequence[str]]) -> None:
    """Raise UserError if another disk is below a folder than when the workflow run began.

    `disks` has the storage_identity() of each folder at that time: {"/var/tmp": ["ext4", "5a2f...", ...]}.
    """
    for folder, identity in disks.items():
        if storage_identity(folder) != [*identity]:
            raise UserError(
                f"{folder}: another disk is mounted there than when this workflow run began. Run again."
            )


def is_cached_below(path: str | Path) -> bool:
    """Return True if reads of a folder's disk can come from memory, even if this system's caches are empty.

    A RAM disk is in memory itself. Reads of a loop device can come from memory if its image is read through
    the page cache, or lies in memory, on an unknown disk, or on a disk for which this function returns True.
    For an overlay, the folder of its new files decides, if that folder is visible here.
    """
    mount = mount_of(path)
    if mount.filesystem == OVERLAY:
        upper = _upper_folder(mount)
        return upper != "" and _is_in_memory(upper)
    for disk in disks_of(path):
        if disk.kind is DiskKind.RAM:
            return True
        if disk.kind is not DiskKind.LOOP:
            continue
        if not disk.is_direct:
            return True
        # With direct I/O, the disk that has the image decides.
        folder = _image_folder(disk.image)
        # A cold run must not read from memory. So an unknown disk counts as cached.
        if not folder or _is_in_memory(folder):
            return True
    return False


def _is_in_memory(folder: str) -> bool:
    """Return True if a folder is on a file system in memory, or if reads of its disk can come from memory."""
    return mount_of(folder).filesystem in IN_MEMORY or is_cached_below(folder)


def _upper_folder(overlay: Mount) -> str:
    """Return the folder of an overlay with its new files; "" if it is not visible here, as in a container."""
    option = UPPER_FOLDER.search(overlay.options)
    folder = option[1] if option else ""
    if not os.path.isabs(folder) or not os.path.isdir(folder):
        return ""
    # The kernel allows no such folder on an overlay. So one there is another folder with the same path.
    return "" if mount_of(folder).filesystem == OVERLAY else folder

"""Read the mounted file systems and their devices, and find one that is full or cannot be written."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vcsbench import kernel
from vcsbench.errors import FULL, UserError, full_errno
from vcsbench.files import why_no_file
from vcsbench.kernel import unescaped

if TYPE_CHECKING:
    from vcsbench.machine import Machine

# File systems whose files are only in memory, so that they cannot be cold.
IN_MEMORY = ("tmpfs", "ramfs")
# File systems whose cache is not the page cache. By the documentation of OpenZFS, the kernel may count bytes
# from this cache as read from the disk. That was not tried.
OWN_CACHE = ("zfs",)
# A layered file system: its files lie in folders of other file systems.
OVERLAY = "overlay"
# A mount point where another file system is mounted when it is used.
AUTOMOUNT = "autofs"
MOUNTS = Path("/proc/self/mounts")
FSTAB = Path("/etc/fstab")
BTRFS = Path("/sys/fs/btrfs")
# Memory that Snakemake and the loading programs take.
LOADING_BYTES = 256 << 20
LEAST_BYTES = 256 * 1024
REFUSALS = (*FULL, errno.EROFS)
# Subversion prints E and the errno, and S13 of SQLite, in which it caches representations.
_SVN_ERRNO = re.compile(r"\bE000(\d{3})\b")
_SQLITE_FULL = re.compile(r"sqlite\[S13\]")


class Mount(NamedTuple):
    """A mounted file system: device, mount point, type and options, as the kernel prints them."""

    device: str
    point: str
    filesystem: str
    options: str = ""


def mounts() -> list[Mount]:
    """Return all mounts in the order in which they were made."""
    if not MOUNTS.exists():
        return []
    # A path may have white space other than a newline (end of line) and a space (end of field).
    lines = os.fsdecode(MOUNTS.read_bytes()).split("\n")
    return [Mount(*map(unescaped, line.split(" ")[:4])) for line in lines if line]


def mount_of(path: str | os.PathLike[str]) -> Mount:
    """Return the mount that holds a path; a mount without a type if the mounts are unknown."""
    real = Path(os.path.realpath(path))
    holding = _innermost_mount(real)
    # The kernel mounts the file system of an automount point when something inside is used, as by this
    # os.stat(). Then the mounts are read again.
    if holding.filesystem == AUTOMOUNT:
        with contextlib.suppress(OSError):
            os.stat(f"{real}/.")
        holding = _innermost_mount(real)
    return holding


def _innermost_mount(real: Path) -> Mount:
    """Return the mount that holds a path without links now. Nothing is mounted by this call."""
    holding = Mount("", "/", "")
    for mount in mounts():
        # The innermost mount holds the path. Of two at one point, the later one hides the other.
        if real.is_relative_to(mount.point) and len(mount.point) >= len(holding.point):
            holding = mount
    return holding


def why_unmounted(path: str | os.PathLike[str]) -> str:
    """Return in a clause which mount of /etc/fstab is missing at a path; "" if none is.

    Example for the path /mnt/ssd/x: "/mnt/ssd is a mount point in /etc/fstab, and nothing is mounted there".
    Without this check, vcsbench would measure the disk that holds the empty folder /mnt/ssd, and label the
    result with the missing one.
    """
    try:
        table = os.fsdecode(FSTAB.read_bytes())
    except OSError:
        return ""
    real = Path(os.path.realpath(path))
    mounted = mount_of(path).point
    for line in table.split("\n"):
        # The fields are device, mount point, type and options: `/dev/sdb1 /mnt/ssd ext4 noatime`.
        fields = line.split()
        is_comment = line.lstrip().startswith("#")
        # The mount point of a swap partition is "none".
        if is_comment or len(fields) < 2 or not fields[1].startswith("/"):
            continue
        point = os.path.realpath(unescaped(fields[1]))
        # Of two folders above a path, the one with the longer text is the inner one. With something mounted
        # at the inner one (`point`, /mnt/ssd), the path would not be on the mount at the outer one (/).
        if len(point) > len(mounted) and real.is_relative_to(point):
            return f"{point} is a mount point in {FSTAB}, and nothing is mounted there"
    return ""


def why_unusable(folder: Path) -> tuple[str, str]:
    """Return in clauses why vcsbench cannot write to a folder of the configuration, and the remedy.

    Example: ("no such folder", "make it, or use another"). Both are "" if vcsbench can write there.
    """
    unmounted = why_unmounted(folder)
    if unmounted:
        return unmounted, "mount it, or use another folder"
    # Path.is_dir() would raise an error for a name that is too long.
    if not os.path.isdir(folder):
        return "no such folder", "make it, or use another"
    refused = why_no_file(folder)
    if refused:
        return f"cannot be written ({refused})", "use another folder"
    return "", ""


def mounted_at(folder: str | Path) -> list[str]:
    """Return type and mount point of the mount of a folder, such as ["ext4", "/var/tmp"], for JSON."""
    mount = mount_of(folder)
    return [mount.filesystem, mount.point]


def check_mounted(folder: Path, expected: Sequence[str], since: str, remedy: str = "") -> None:
    """Raise UserError if a folder is on another mount than at an earlier moment.

    `expected` is the mounted_at() of that moment, which the error names by `since`: "the workflow run began".
    """
    mounted = mounted_at(folder)
    # [] means that any mount will do, as for a file system that vcsbench makes itself.
    if not expected or mounted == [*expected]:
        return
    kind, point = mounted
    kind_before, point_before = expected
    raise UserError(
        f"{folder}: is on {kind}, mounted at {point}, and was on {kind_before}, mounted at "
        f"{point_before}, when {since}. Mount it again, and run again.{remedy}"
    )


def storage_kind(filesystem: str, is_rotational: bool | None) -> str:
    """Return `RAM`, `spinning disk`, `SSD`, or "" if unknown. A virtual disk may claim either."""
    if filesystem in IN_MEMORY:
        return "RAM"
    if is_rotational is None:
        return ""
    return "spinning disk" if is_rotational else "SSD"


def free_bytes(folder: Path) -> int:
    """Return the bytes that may be written to a folder. In RAM, limits on memory count as well."""
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    available = kernel.memory().available
    if available is None or mount_of(folder).filesystem not in IN_MEMORY:
        return free
    # A tmpfs reports half of the machine's memory as its size, even if a container may use less or programs
    # use the memory already. So the available memory counts, less a reserve for programs.
    reserve = max(available // 10, LOADING_BYTES)
    return min(free, max(0, available - reserve))


@cache
def lacks_journal(path: str) -> bool:
    """Return True if a path is on ext4 without a journal. There, writing a tree after a removal is slow.

    Such an ext4 skips inodes for minutes after their deletion (recently_deleted in fs/ext4/ialloc.c).
    """
    real = os.path.realpath(path)
    if not os.path.exists(real) or mount_of(real).filesystem != "ext4":
        return False
    # A journal has a folder with the name of its device and a number, such as sda1-8.
    name = os.path.basename(os.path.realpath(block_folder(real)))
    return not list(Path("/proc/fs/jbd2").glob(f"{name}-*"))


def why_never_cold(machine: Machine, storage: str, clear_caches: str) -> str:
    """Return in a clause why no run on a storage can be cold (read from the disk); "" if one can."""
    kind = mount_of(storage).filesystem
    if kind in IN_MEMORY:
        return f"{storage} is a {kind}: files in memory are never cold"
    return why_not_cleared(machine, clear_caches)


def why_not_cleared(machine: Machine, clear_caches: str) -> str:
    """Return in a clause why caches cannot be cleared on this machine; "" if they can.

    `clear_caches` is the user's setting: auto, drop-caches or evict.
    """
    if machine.clearing(clear_caches):
        return ""
    if clear_caches == "auto":
        return (
            "caches cannot be cleared here: that takes root with a writable /proc/sys, or vmtouch"
        )
    takes = "root with a writable /proc/sys" if clear_caches == "drop-caches" else "vmtouch"
    return f"`clear_caches: {clear_caches}` is not possible here: it takes {takes}"


def block_folder(path: str | Path) -> str:
    """Return the kernel's folder about the block device of a path, such as /sys/dev/block/8:1.

    The folder does not exist for a path without a block device, such as one on NFS.
    """
    device = os.stat(path).st_dev
    # No block device has the major number 0. btrfs and NFS, for example, have device numbers of their own.
    if not os.major(device):
        # The mount of a btrfs names its block device, and the mount of NFS names none.
        with contextlib.suppress(OSError):
            device = os.stat(mount_of(path).device).st_rdev or device
    return f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"


def block_folders(path: str | Path) -> set[str]:
    """Return the folders of all block devices of a path: a btrfs may have several."""
    folder = block_folder(path)
    name = os.path.basename(os.path.realpath(folder))
    # /sys/fs/btrfs/<UUID>/devices/ has a link for each device of a file system.
    for device in BTRFS.glob(f"*/devices/{name}"):
        return {os.path.realpath(link) for link in device.parent.iterdir()}
    return {folder}


def is_full(folder: str | Path) -> bool:
    """Return True if a file system has no space or no inode for another file."""
    status = os.statvfs(folder)
    # btrfs makes inodes as it needs them, and reports 0 of 0.
    has_no_inode = status.f_files > 0 and not status.f_favail
    return status.f_bavail * status.f_frsize < LEAST_BYTES or has_no_inode


@contextlib.contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Name a folder in the errors of the `with` block that writes there.

    - An OSError without a path, as of a write to a full disk, gets the path of the folder.
    - If the folder's file system was unmounted, any error is replaced by a UserError about this cause.
    - An error of shutil.copytree() on a full or read-only storage is replaced by an OSError with the path of
      the file.
    """
    mounted = mounted_at(folder)
    try:
        yield
    except (OSError, UserError) as error:
        # A program that fails gives a UserError. An unmount can be the cause of both errors.
        check_mounted(folder, mounted, "the preparation began")
        if isinstance(error, shutil.Error):
            # The only argument is a list with (source, target, reason) of each file that was not copied.
            failed_files = error.args[0]
            # The first file is enough: a full storage usually refuses the others for the same reason.
            _, target, reason = failed_files[0]
            raise_write_error(reason, target)
        elif isinstance(error, OSError) and not error.filename:
            error.filename = str(folder)
        raise


def raise_write_error(output: str, path: str | Path) -> None:
    """Raise an OSError for `path` if the message of a program is about a full or read-only storage.

    `svnadmin: E000028: Can't write to file '...': No space left on device` raises ENOSPC (28).
    """
    svn_errno = _SVN_ERRNO.search(output)
    if svn_errno:
        number = int(svn_errno[1])
    elif _SQLITE_FULL.search(output):
        number = errno.ENOSPC
    else:
        number = full_errno(output)
    if number in REFUSALS:
        raise OSError(number, os.strerror(number), str(path))

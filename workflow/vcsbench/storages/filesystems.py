"""Read which file systems are mounted, whether one is full, and where the bytes of a file lie on it.

List, copy and remove trees of files, and count the paths that a disk or a working copy cannot hold.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vcsbench import kernel
from vcsbench.errors import FULL, UserError, full_errno, printable
from vcsbench.kernel import number_in, read, unescaped
from vcsbench.processes import run_program

if TYPE_CHECKING:
    from vcsbench.machine import Machine
    from vcsbench.records import Recipe, StorageFacts

# Their files are only in memory: they cannot be cold.
IN_MEMORY = ("tmpfs", "ramfs")
MOUNTS = Path("/proc/self/mounts")
FSTAB = Path("/etc/fstab")
BTRFS = Path("/sys/fs/btrfs")
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


def mount_of(path: str | os.PathLike[str]) -> Mount:
    real = Path(os.path.realpath(path))
    # A path may have white space other than a newline (end of line) and a space (end of field).
    table = os.fsdecode(MOUNTS.read_bytes()) if MOUNTS.exists() else ""
    fields = (line.split(" ")[:4] for line in table.split("\n") if line)
    mounts = (Mount(*map(unescaped, four)) for four in fields)
    holding = [mount for mount in mounts if real.is_relative_to(mount.point)]
    # Of two at one point, the later one hides the other.
    return max(reversed(holding), key=lambda m: len(m.point), default=Mount("", "/", ""))


def why_unmounted(path: str | os.PathLike[str]) -> str:
    """Return in a clause which mount of /etc/fstab is missing at a path; "" if none.

    Files would go to the disk below, with the label of the storage.
    """
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = os.fsdecode(FSTAB.read_bytes()).split("\n")
    real, mounted = Path(os.path.realpath(path)), len(mount_of(path).point)
    for _, name, *_ in (line.split() for line in lines if len(line.split()) > 1):
        point = os.path.realpath(unescaped(name)) if name.startswith("/") else ""
        if len(point) > mounted and real.is_relative_to(point):
            return f"{point} is a mount point in {FSTAB}, and nothing is mounted there"
    return ""


def why_unusable(folder: Path) -> tuple[str, str]:
    """Return in clauses why vcsbench cannot write to a configured folder, and the remedy; "" if it can."""
    if reason := why_unmounted(folder):
        return reason, "mount it, or use another folder"
    if not os.path.isdir(folder):  # is_dir() raises for long names
        return "no such folder", "make it, or use another"
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        return "cannot be written", "use another folder"
    # As /proc and /sys, which root may write.
    is_empty = not os.statvfs(folder).f_blocks
    return ("holds no files", "use another folder") if is_empty else ("", "")


def mounted_at(folder: str | Path) -> list[str]:
    mount = mount_of(folder)
    return [mount.filesystem, mount.point]


def check_mounted(folder: Path, expected: Sequence[str], since: str, remedy: str = "") -> None:
    """Raise UserError if a folder is on another mount than `expected`: its mounted_at() when `since`."""
    if expected and mounted_at(folder) != [*expected]:
        (kind, point), (kind_before, point_before) = mounted_at(folder), expected
        raise UserError(
            f"{folder}: is on {kind}, mounted at {point}, and was on {kind_before}, mounted at "
            f"{point_before}, when {since}. Mount it again, and run again.{remedy}"
        )


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


def block_folders(path: str | Path) -> set[str]:
    """Return the folders of all block devices of a path: a btrfs may have several."""
    folder = block_folder(path)
    name = os.path.basename(os.path.realpath(folder))
    devices = next(BTRFS.glob(f"*/devices/{name}"), None)
    return {*map(os.path.realpath, devices.parent.iterdir())} if devices else {folder}


def _queue(path: Path, name: str) -> str:
    block = block_folder(path)
    return read(f"{block}/queue/{name}") or read(f"{block}/../queue/{name}")


def is_full(folder: str | Path) -> bool:
    status = os.statvfs(folder)
    has_no_inode = status.f_files > 0 and not status.f_favail
    return status.f_bavail * status.f_frsize < LEAST_BYTES or has_no_inode


@contextlib.contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Name the folder in an OSError without a path, as that of a write to a full disk is.

    Raise UserError if its file system was unmounted: errors are a consequence of that.
    """
    mounted = mounted_at(folder)
    try:
        yield
    except (OSError, UserError) as error:
        check_mounted(folder, mounted, "the preparation began")
        if isinstance(error, shutil.Error):
            _, target, reason = error.args[0][0]
            raise_write_error(reason, target)
        elif isinstance(error, OSError):
            error.filename = error.filename or str(folder)
        raise


def raise_write_error(output: str, path: str | Path) -> None:
    """Raise the OSError that a program printed in English, if a full or read-only storage caused it."""
    number = errno.ENOSPC if _SQLITE_FULL.search(output) else full_errno(output)
    if found := _SVN_ERRNO.search(output):
        number = int(found[1])
    if number in REFUSALS:
        raise OSError(number, os.strerror(number), str(path))


def next_directory(above: Path, name: str) -> Path:
    """Make a new folder in a part of the disk from which nothing was removed lately, and return it.

    lacks_journal() has the reason. ext4 spreads the folders in its root, or in a marked folder, over the
    disk, and chooses the part by the name.
    """
    with open_folder(above) as folder, contextlib.suppress(OSError):
        (flags,) = struct.unpack("i", fcntl.ioctl(folder, FS_IOC_GETFLAGS, bytes(4)))
        fcntl.ioctl(folder, FS_IOC_SETFLAGS, struct.pack("i", flags | FS_TOPDIR_FL))
    new = above / os.urandom(16).hex()
    new.mkdir()
    return new.rename(above / name)


_FIEMAP = 0xC020660B
# Request: start, length, flags, mapped extents, room for extents, reserved.
_HEAD = struct.Struct("=QQIIII")
# Extent: logical, physical, length, two reserved, flags, three reserved.
_EXTENT = struct.Struct("=QQQQQIIII")
# UNKNOWN, DELALLOC, ENCODED, DATA_INLINE, DATA_TAIL: `physical` is no position of the file alone.
_NO_POSITION = 0x2 | 0x4 | 0x8 | 0x200 | 0x400
# An encrypted extent is also encoded.
_LAST, _ENCODED, _ENCRYPTED, _INLINE, _SHARED = 0x1, 0x8, 0x80, 0x200, 0x2000
_SYNC = 0x1
_BATCH = 128
_UNSUPPORTED = (
    *(errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EBADR),
)


class Extent(NamedTuple):
    """Bytes of a file: the offsets in the file and on the device, the length, and FIEMAP's flags."""

    logical: int
    start: int
    length: int
    flags: int


class DiskUsage(NamedTuple):
    """The bytes of one file only, and those that several files share, each counted once."""

    exclusive: int
    shared: int


class ExtentsUnsupportedError(Exception):
    """The file system does not report where its files lie, or how long their blocks are."""


def first_extent(path: str | Path) -> Extent | None:
    """Return the first extent of a file; None if it has no position on the device.

    Empty files, files that are not written yet and files inside their inode have none. Raise
    ExtentsUnsupportedError without FIEMAP.
    """
    with open(path, "rb") as file:
        extents = _extents(file.fileno(), 0, 0, 1)
    return next((extent for extent in extents if not extent.flags & _NO_POSITION), None)


def disk_usage(paths: Iterable[str]) -> DiskUsage:
    """Return the usage of regular files; data inside of inodes takes no blocks.

    Raise ExtentsUnsupportedError without FIEMAP, and for a compressed file: FIEMAP has the length of its
    content only (`btrfs filesystem du` prints that, too), not of its blocks.
    """
    exclusive, shared = 0, list[tuple[int, int]]()
    for path in paths:
        with open(path, "rb") as file:
            extents: list[Extent] = []
            while not extents or not extents[-1].flags & _LAST:
                start = extents[-1].logical + extents[-1].length if extents else 0
                if not (more := _extents(file.fileno(), start, _SYNC, _BATCH)):
                    break
                extents += more
        for extent in extents:
            if extent.flags & _INLINE:
                continue
            if extent.flags & (_ENCODED | _ENCRYPTED) == _ENCODED:
                raise ExtentsUnsupportedError(f"{path} is compressed")
            if not extent.flags & _SHARED:
                exclusive += extent.length
            else:
                shared.append((extent.start, extent.start + extent.length))
    # Clones of parts of a file overlap.
    covered = reached = 0
    for start, end in sorted(shared):
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return DiskUsage(exclusive, covered)


def _extents(descriptor: int, start: int, flags: int, limit: int) -> list[Extent]:
    buffer = bytearray(_HEAD.size + limit * _EXTENT.size)
    _HEAD.pack_into(buffer, 0, start, (1 << 64) - 1 - start, flags, 0, limit, 0)
    try:
        fcntl.ioctl(descriptor, _FIEMAP, buffer)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            raise ExtentsUnsupportedError(os.strerror(error.errno)) from None
        raise
    count: int = _HEAD.unpack_from(buffer)[3]
    fields = (_EXTENT.unpack_from(buffer, _HEAD.size + i * _EXTENT.size) for i in range(count))
    return [Extent(logical, at, length, flags) for logical, at, length, _, _, flags, *_ in fields]


# Not part of a tree: Subversion cannot check out .svn.
ADMINISTRATIVE = {".svn", ".git", ".hg", ".bzr", ".jj", "_darcs", "CVS", "_FOSSIL_", ".fslckout"}
NAME_BYTES = 255
# svn export and checkout first write a link under its name with `.tmp`.
LINK_NAME_BYTES = NAME_BYTES - len(".tmp")
# Linux's limit, without the folder of an export.
PATH_BYTES = 3500
# shutil.rmtree and os.walk of Python 3.11 recurse once per folder.
MAX_DEPTH = 256
IMPOSSIBLE_PATHS = (
    f"that no disk can hold (a name over {NAME_BYTES} bytes; a path over {PATH_BYTES:,} bytes; over "
    f"{MAX_DEPTH} folders)"
)
RESERVED_PATHS = "named .svn, which a working copy cannot hold"


class OddPaths(NamedTuple):
    """The numbers of a tree's IMPOSSIBLE_PATHS, and of its other RESERVED_PATHS."""

    impossible: int = 0
    reserved: int = 0


def entries(
    root: Path, left_out: Counter[str] | None = None
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and state of everything below a folder, folders before their content, sorted by name.

    Administrative folders are left out, and counted by name in `left_out`. Raise UserError if folders are
    nested deeper than MAX_DEPTH.
    """
    waiting = [_scan(os.fspath(root))]
    while waiting:
        entry = next(waiting[-1], None)
        if entry is None:
            waiting.pop()
        elif entry.name in ADMINISTRATIVE:
            if left_out is not None:
                left_out[entry.name] += 1
        else:
            yield entry.path, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                if len(waiting) > MAX_DEPTH:
                    raise UserError(
                        f"{printable(os.fspath(root))}: folders are nested deeper than {MAX_DEPTH}. Choose a "
                        "folder further down, or remove the deepest folders."
                    )
                waiting.append(_scan(entry.path))


def _scan(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as scanned:
        return iter(sorted(scanned, key=lambda entry: os.fsencode(entry.name)))


@contextlib.contextmanager
def open_folder(path: str | Path, above: int | None = None) -> Iterator[int]:
    """Open a folder, and yield its descriptor. No link is followed. `above` is the open folder around it."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        yield folder
    finally:
        os.close(folder)


def check_mount(folder: int, above: int, path: Path) -> None:
    """Raise UserError if an open folder, with this path, is on another mount than the one around it."""
    # The device is the same for a folder that is mounted by `mount --bind`.
    mounts = {number_in(f"/proc/self/fdinfo/{opened}", "mnt_id:") for opened in (folder, above)}
    if len(mounts) > 1:
        raise UserError(f"{path}: something is mounted here. Unmount it, and run again.")


def remove_path(path: Path, above: int | None = None) -> None:
    """Remove a folder, a file or a link, if it exists. No link is followed and no mount is entered.

    `above` is the open folder around it. Raise UserError if something is mounted in the folder.
    """
    try:
        if above is None:
            with open_folder(os.path.realpath(path.parent)) as opened:
                remove_path(path, opened)
        elif not stat.S_ISDIR(os.stat(path.name, dir_fd=above, follow_symlinks=False).st_mode):
            os.unlink(path.name, dir_fd=above)
        else:
            with open_folder(path.name, above) as folder:
                check_mount(folder, above, path)
                for name in os.listdir(folder):
                    remove_path(path / name, folder)
            os.rmdir(path.name, dir_fd=above)
    except FileNotFoundError:
        pass
    except OSError as error:
        error.filename = str(path)
        raise


def copy_tree(source: str | Path, path: Path) -> None:
    """Copy a tree to a new path: contents, modes, times, symbolic and hard links, without shared blocks."""
    try:
        run_program(["cp", "-aT", "--reflink=never", source, path])
    except UserError as error:
        raise_write_error(str(error), path)
        raise


def older_revision(youngest: int, behind: int) -> int:
    """Return the revision of a working copy that is `behind` the youngest revision."""
    return max(min(2, youngest), youngest - behind)


def why_not_on_disk(recipe: Recipe, count: Callable[[], OddPaths], behind: int = 0) -> str:
    """Return in a clause why a cell cannot write the tree of its repository; "" if it can.

    `count` is called only if the cell writes it. An export writes RESERVED_PATHS. `behind`: the tree is that
    of an older revision.
    """
    subjects = {recipe["input"], recipe["output"]}
    exports = "target" in subjects and "{tree}" in recipe["argv"]
    if not exports and not subjects & {"working_copy", "tree", "built_tree"}:
        return ""
    (number, reserved), kind, done = count(), IMPOSSIBLE_PATHS, "written"
    checks_out = exports and {"checkout", "co"} & {*recipe["argv"].split()}
    if not number and ("working_copy" in subjects or checks_out):
        number, kind, done = reserved, RESERVED_PATHS, "checked out"
    paths = "1 path" if number == 1 else f"{number:,} paths"
    name = recipe["repository"]["name"]
    if behind:
        name += f", {behind:,} revisions before its youngest,"
    return f"{name} has {paths} {kind}, so its tree cannot be {done}" if number else ""

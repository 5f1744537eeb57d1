"""Clear caches, and ask the kernel how much of some files is in the page cache, without reading them."""

import ctypes
import errno
import mmap
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vcsbench import processes
from vcsbench.kernel import check_result, libc, system_error
from vcsbench.machine import DROP_CACHES
from vcsbench.storages.filesystems import mount_of

PAGE = mmap.PAGESIZE
MAX_FILES = 50_000
# System calls: cachestat since Linux 6.5, openat2 with RESOLVE_CACHED since 5.12.
CACHESTAT, OPENAT2 = 451, 437
RESOLVE_CACHED = 0x20
# On these file systems, a cached name is valid without a query of a server or a device.
OVERLAY = "overlay"
LOCAL = frozenset(["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs"])


def clear_caches(method: str, folders: Sequence[Path]) -> None:
    if method == "drop-caches":
        DROP_CACHES.write_bytes(b"3")
        return
    existing = [folder for folder in folders if folder.exists()]
    if existing:
        processes.run_program(["vmtouch", "-qe", *existing])


class Residency(NamedTuple):
    """How much of some files is in memory: `share` (0 to 1) of their bytes, and the bytes of their pages.

    `coverage` has the number of files that were queried.
    """

    share: float
    pages_bytes: int
    coverage: str


# The size of a file, how many of its bytes are cached, and the bytes of the cached pages.
FileUse = tuple[int, int, int]

# struct cachestat_range: offset and length, of the whole file. struct open_how: flags, mode, resolve.
_WHOLE_FILE = (ctypes.c_uint64 * 2)(0, 0)
_CACHED_ONLY = (ctypes.c_uint64 * 3)(os.O_RDONLY | os.O_CLOEXEC, 0, RESOLVE_CACHED)
libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


@cache
def page_counter(filesystem: str) -> Callable[[int, int], int]:
    if filesystem == OVERLAY:
        # A file of an overlay has no pages itself: cachestat reports 0. A mapping is of the file below it.
        return count_by_mincore
    # -1 is no file: a kernel that has the call, and allows it, answers EBADF.
    libc.syscall(CACHESTAT, -1, None, None, 0)
    is_missing = ctypes.get_errno() in (errno.ENOSYS, errno.EPERM)
    return count_by_mincore if is_missing else count_by_cachestat


def count_by_cachestat(fd: int, _length: int) -> int:
    # struct cachestat: cached, dirty, written back, evicted and recently evicted pages.
    pages = (ctypes.c_uint64 * 5)()
    check_result(libc.syscall(CACHESTAT, fd, _WHOLE_FILE, pages, 0))
    return pages[0]


def count_by_mincore(fd: int, length: int) -> int:
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise system_error()
    try:
        states = ctypes.create_string_buffer(-(-length // PAGE))
        check_result(libc.mincore(address, length, states))
        return sum(state & 1 for state in states.raw)
    finally:
        libc.munmap(address, length)


def resident(*paths: Path, max_files: int = MAX_FILES) -> Residency | None:
    """Return the residency of files and of all files below folders, or of an even sample of `max_files`.

    Return None if they have no bytes or the kernel does not answer. Opening files loads their inodes,
    so caches must be cleared again before a cold run.
    """
    files = [file for path in paths for file in _files(str(path))]
    step = -(-len(files) // max_files) or 1
    chosen = files[::step]
    try:
        filesystem = mount_of(chosen[0]).filesystem if chosen else ""
        uses = [_query_file(os.open(file, os.O_RDONLY), filesystem) for file in chosen]
    except OSError:
        return None
    size, cached, pages_bytes = map(sum, zip((0, 0, 0), *uses, strict=True))
    coverage = f"{len(chosen)} of {len(files)} files"
    return Residency(cached / size, pages_bytes * step, coverage) if size else None


def _files(folder: str) -> Iterator[str]:
    if not os.path.isdir(folder):
        yield folder
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry.path
            elif entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)


def _query_file(fd: int, filesystem: str = "") -> FileUse:
    try:
        length = os.fstat(fd).st_size
        pages_bytes = page_counter(filesystem)(fd, length) * PAGE if length else 0
    finally:
        os.close(fd)
    return length, min(pages_bytes, length), pages_bytes


def has_cached_names(*paths: Path) -> bool:
    """Return True if the kernel reports which names below folders are cached. This opens the folders."""
    try:
        for path in paths:
            os.close(os.open(path, os.O_RDONLY))
            fd = _open_cached(os.fsencode(path)) if mount_of(path).filesystem in LOCAL else None
            if fd is None:
                return False
            os.close(fd)
    except OSError:
        return False
    return True


def resident_by_names(size: int, *paths: Path) -> Residency | None:
    """Return the residency of files below folders with `size` bytes; None if the kernel does not answer.

    Only files with cached names are opened, so no inode is loaded. A cached name keeps the names of its
    parents, so a folder without one has no cached files. Memory pressure may drop names before pages.
    """
    try:
        uses = [use for path in paths for use in _query_cached(os.fsencode(path))]
    except OSError:
        return None
    _, cached, pages_bytes = map(sum, zip((0, 0, 0), *uses, strict=True))
    return Residency(cached / size, pages_bytes, "all files")


def _query_cached(folder: bytes) -> Iterator[FileUse]:
    parent = _open_cached(folder)
    if parent is None:
        return
    if not stat.S_ISDIR(os.fstat(parent).st_mode):
        yield _query_file(parent)
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _query_cached(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    fd = _open_cached(entry.name, parent)
                    if fd is not None:
                        yield _query_file(fd)
    finally:
        os.close(parent)


def _open_cached(name: bytes, parent: int = -100) -> int | None:
    """Open a file; return None if its name is not in the kernel's cache. -100 is AT_FDCWD."""
    fd: int = libc.syscall(OPENAT2, parent, name, _CACHED_ONLY, ctypes.sizeof(_CACHED_ONLY))
    if fd >= 0:
        return fd
    if ctypes.get_errno() == errno.EAGAIN:
        return None
    raise system_error(os.fsdecode(name))

"""Clear caches, and ask the kernel how much of some files is in the page cache, without reading them."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from vcsbench.kernel import system_error
from vcsbench.machine import DROP_CACHES
from vcsbench.storages.filesystems import mount_of

PAGE = mmap.PAGESIZE
MAX_FILES = 50_000
# System calls: cachestat since Linux 6.5, openat2 with RESOLVE_CACHED since 5.12.
CACHESTAT, OPENAT2 = 451, 437
RESOLVE_CACHED = 0x20
# On these file systems, a cached name is valid without a query of a server or a device.
LOCAL = frozenset(["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs"])


def clear_caches(method: str, folders: Sequence[Path]) -> None:
    if method == "drop-caches":
        with open(DROP_CACHES, "wb", buffering=0) as file:
            file.write(b"3")
        return
    existing = [folder for folder in folders if folder.exists()]
    if existing:
        subprocess.run(["vmtouch", "-qe", *existing], check=True, stdout=subprocess.DEVNULL)


class Residency(NamedTuple):
    """How much of some files is in memory: `share` (0 to 1) of their bytes, and the bytes of their pages.

    `coverage` has the number of files that were queried.
    """

    share: float
    pages_bytes: int
    coverage: str


class FileUse(NamedTuple):
    """Bytes of files, how many of them are cached, and the bytes of the cached pages."""

    size: int
    cached: int
    pages_bytes: int

    @classmethod
    def sum(cls, uses: Iterable[FileUse]) -> FileUse:
        return cls(*map(sum, zip(cls(0, 0, 0), *uses, strict=True)))


PageCounter = Callable[[int, int], int]
FolderFiles = tuple[str, list[str]]


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Cachestat(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted")
    )


class _OpenHow(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("flags", "mode", "resolve"))


_WHOLE_FILE = ctypes.byref(_Range(0, 0))
_CACHED_ONLY = _OpenHow(os.O_RDONLY | os.O_CLOEXEC, 0, RESOLVE_CACHED)
_CACHED_ONLY_ARGUMENTS = (ctypes.byref(_CACHED_ONLY), ctypes.sizeof(_CACHED_ONLY))
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
# A function of its own: the argument types of `syscall` differ between calls.
_syscall = ctypes.CDLL(None, use_errno=True).syscall


def page_counter() -> PageCounter:
    # -1 is no file: a kernel that has the call, and allows it, answers EBADF.
    _syscall(CACHESTAT, -1, None, None, 0)
    is_missing = ctypes.get_errno() in (errno.ENOSYS, errno.EPERM)
    return count_by_mincore if is_missing else cachestat_counter()


def cachestat_counter() -> PageCounter:
    result = _Cachestat()
    pointer = ctypes.byref(result)

    def count(fd: int, _length: int) -> int:
        if _syscall(CACHESTAT, fd, _WHOLE_FILE, pointer, 0):
            raise system_error()
        return int(result.cache)

    return count


def count_by_mincore(fd: int, length: int) -> int:
    address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise system_error()
    try:
        states = ctypes.create_string_buffer(-(-length // PAGE))
        if _libc.mincore(address, length, states):
            raise system_error()
        return sum(state & 1 for state in states.raw)
    finally:
        _libc.munmap(address, length)


def resident(*paths: Path, max_files: int = MAX_FILES) -> Residency | None:
    """Return the residency of files and of all files below folders, or of an even sample of `max_files`.

    Return None if they have no bytes or the kernel does not answer. Opening files loads their inodes,
    so caches must be cleared again before a cold run.
    """
    folders = [folder for path in paths for folder in _folders(str(path))]
    count = sum(len(names) for _, names in folders)
    step = -(-count // max_files) or 1
    chosen, start = [], 0
    for folder, names in folders:
        chosen.append((folder, names[start::step]))
        start = (start - len(names)) % step
    try:
        size, cached, pages_bytes = FileUse.sum(map(_query_folder, chosen))
    except OSError:
        return None
    queried = sum(len(names) for _, names in chosen)
    coverage = f"{queried} of {count} files"
    return Residency(cached / size, pages_bytes * step, coverage) if size else None


def _folders(folder: str) -> Iterator[FolderFiles]:
    if not os.path.isdir(folder):
        yield os.path.split(folder)[0], [os.path.basename(folder)]
        return
    below, files = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                files.append((entry.inode(), entry.name))
    yield folder, [name for _, name in sorted(files)]
    for path in sorted(below):
        yield from _folders(path)


def _query_folder(files: FolderFiles) -> FileUse:
    folder, names = files
    count_pages = page_counter()
    uses = []
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names:
            uses.append(_query_file(os.open(name, os.O_RDONLY, dir_fd=parent), count_pages))
    finally:
        os.close(parent)
    return FileUse.sum(uses)


def _query_file(fd: int, count_pages: PageCounter) -> FileUse:
    try:
        length = os.fstat(fd).st_size
        pages_bytes = count_pages(fd, length) * PAGE if length else 0
    finally:
        os.close(fd)
    return FileUse(length, min(pages_bytes, length), pages_bytes)


def has_cached_names(*paths: Path) -> bool:
    """Return True if the kernel reports which names below folders are cached. This opens the folders."""
    try:
        return all(mount_of(path).filesystem in LOCAL and _is_cached(path) for path in paths)
    except OSError:
        return False


def resident_by_names(size: int, *paths: Path) -> Residency | None:
    """Return the residency of files below folders with `size` bytes; None if the kernel does not answer.

    Only files with cached names are opened, so no inode is loaded. A cached name keeps the names of its
    parents, so a folder without one has no cached files. Memory pressure may drop names before pages.
    """
    try:
        count_pages = page_counter()
        uses = [use for path in paths for use in _query_cached(os.fsencode(path), count_pages)]
    except OSError:
        return None
    _, cached, pages_bytes = FileUse.sum(uses)
    return Residency(cached / size, pages_bytes, "all files")


def _is_cached(path: Path) -> bool:
    os.close(os.open(path, os.O_RDONLY))
    fd = _open_cached(os.fsencode(path))
    if fd is not None:
        os.close(fd)
    return fd is not None


def _query_cached(folder: bytes, count_pages: PageCounter) -> Iterator[FileUse]:
    parent = _open_cached(folder)
    if parent is None:
        return
    if not stat.S_ISDIR(os.fstat(parent).st_mode):
        yield _query_file(parent, count_pages)
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _query_cached(entry.path, count_pages)
                elif entry.is_file(follow_symlinks=False):
                    fd = _open_cached(entry.name, parent)
                    if fd is not None:
                        yield _query_file(fd, count_pages)
    finally:
        os.close(parent)


def _open_cached(name: bytes, parent: int = -100) -> int | None:
    """Open a file; return None if its name is not in the kernel's cache. -100 is AT_FDCWD."""
    fd: int = _syscall(OPENAT2, parent, name, *_CACHED_ONLY_ARGUMENTS)
    if fd >= 0:
        return fd
    if ctypes.get_errno() == errno.EAGAIN:
        return None
    raise system_error(os.fsdecode(name))

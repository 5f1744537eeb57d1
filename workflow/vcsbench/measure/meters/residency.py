"""How much of a repository is in the page cache, asked of the kernel without reading a byte of it."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

# All files are asked up to this number; of more, every
# second, third, ... one.
FILES_AT_MOST = 50_000
# Folders asked at the same time: most of a cold file's time is the device's, which reads its inode. Of fewer
# files nothing is won: what was just written is in memory, and to make threads takes longer than to ask.
AT_ONCE = 4
THREADS_FROM = 5_000
CACHESTAT = 451  # the same number on every architecture; Linux 6.5
PAGE = mmap.PAGESIZE


# Says how many pages of an open file with a length are cached.
Pages = Callable[[int, int], int]
# A folder with the names of its files; what _of_folder() finds of them.
_Files = tuple[str, list[str]]
_Found = tuple[int, int, int]


class Residency(NamedTuple):
    """`share` (0 to 1) of the bytes of the `asked` files that is in memory, and the bytes of their pages
    that are; of `files` in all. `pages_bytes` is scaled up where not all were asked. `files` is 0 where the
    kernel knew the names of those that were asked and of no others (meters.known)."""

    share: float
    pages_bytes: int
    files: int
    asked: int

    @property
    def coverage(self) -> str:
        """`all 92 files`, or which part was asked."""
        if not self.files:
            return f"all files, {self.asked} of them known to the kernel"
        if self.asked == self.files:
            return f"all {self.files} files"
        return f"{self.asked} of {self.files} files, evenly chosen"


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))  # length 0: to the end


class _Cachestat(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted")
    )


_WHOLE = ctypes.byref(_Range(0, 0))
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


def ask(*paths: Path, at_most: int = FILES_AT_MOST) -> Residency | None:
    """The residency of files and of all files below folders, or of a part of them where they are more than
    `at_most`; None where they have no bytes or the kernel does not say.

    Opening files loads their inodes: whoever asks before a cold run clears caches once more.
    """
    folders = [found for path in paths for found in _folders(str(path))]
    count = sum(len(names) for _, names in folders)
    step = -(-count // at_most) or 1
    chosen, start = [], 0
    for folder, names in folders:
        chosen.append((folder, names[start::step]))
        start = (start - len(names)) % step  # every step-th of all, not of each folder
    try:
        found = list(_mapped(chosen))
    except OSError:
        return None
    size, resident, held = (sum(one[i] for one in found) for i in range(3))
    asked = sum(len(names) for _, names in chosen)
    return Residency(resident / size, held * step, count, asked) if size else None


def _mapped(folders: Sequence[_Files]) -> Iterator[_Found]:
    if sum(len(names) for _, names in folders) < THREADS_FROM:
        yield from map(_of_folder, folders)
        return
    # To import it takes as long as to ask a small repository.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(_of_folder, folders)


def _folders(folder: str) -> Iterator[tuple[str, list[str]]]:
    """Each folder with its files' names in the order of their inodes: so they lie on the device; a file with
    the folder that it is in."""
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


def _of_folder(files: _Files) -> _Found:
    """Of files in a folder: their bytes, how many of these are cached, the bytes of the cached pages."""
    folder, names = files
    pages = pages_function()
    size = resident = held = 0
    # Relative to their folder: the kernel need not walk the path anew for each.
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names:
            fd = os.open(name, os.O_RDONLY, dir_fd=at)
            try:
                length = os.fstat(fd).st_size
                cached = pages(fd, length) * PAGE if length else 0
            finally:
                os.close(fd)
            size += length
            held += cached
            resident += min(cached, length)  # a small file's page is more than its bytes
    finally:
        os.close(at)
    return size, resident, held


def pages_function() -> Pages:
    """By which system call this kernel says it. Of each thread its own: what the kernel answers into is made
    once, for to make it takes as long as the call."""
    # -1 is no file: a kernel that has the call, and may be asked, says so.
    _libc.syscall(CACHESTAT, -1, None, None, 0)
    return by_mincore if ctypes.get_errno() in (errno.ENOSYS, errno.EPERM) else by_cachestat()


def by_cachestat() -> Pages:
    """What says the cached pages of an open file by cachestat(2)."""
    found = _Cachestat()
    into = ctypes.byref(found)

    def pages(fd: int, _length: int) -> int:
        if _libc.syscall(CACHESTAT, fd, _WHOLE, into, 0):
            raise OSError(ctypes.get_errno(), "cachestat")
        return int(found.cache)

    return pages


def by_mincore(fd: int, length: int) -> int:
    """The cached pages of an open file, by mincore(2): for kernels before 6.5."""
    address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap")
    try:
        states = ctypes.create_string_buffer(-(-length // PAGE))
        if _libc.mincore(address, length, states):
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(state & 1 for state in states.raw)
    finally:
        _libc.munmap(address, length)

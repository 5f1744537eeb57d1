"""How much of a repository is in the page cache, asked of the kernel without reading a byte of it."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# All files are asked up to this number (100,000 take 0.6 s hot and 1.5 s cold, benchmarks/residency.py);
# of more, every second, third, ... one.
FILES_AT_MOST = 100_000
CACHESTAT = 451  # the same number on every architecture; Linux 6.5
PAGE = mmap.PAGESIZE


@dataclass(frozen=True)
class Residency:
    """`share` (0 to 1) of the bytes of the `asked` files that is in memory, and the bytes of their pages
    that are; of `files` in all. `pages_bytes` is scaled up where not all were asked."""

    share: float
    pages_bytes: int
    files: int
    asked: int

    @property
    def coverage(self) -> str:
        """`all 92 files`, or which part was asked."""
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


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


def ask(repository: Path, at_most: int = FILES_AT_MOST) -> Residency | None:
    """The residency of all files below a folder, or of a part of them where they are more than `at_most`;
    None where it has no bytes or the kernel does not say.

    Opening files loads their inodes: whoever asks before a cold run clears caches once more.
    """
    files = sorted(_files(str(repository)))
    step = -(-len(files) // at_most) or 1
    asked = files[::step]
    pages = _pages()
    size = resident = held = 0
    try:
        for file in asked:
            fd = os.open(file, os.O_RDONLY)
            try:
                length = os.fstat(fd).st_size
                cached = pages(fd, length) * PAGE if length else 0
            finally:
                os.close(fd)
            size += length
            held += cached
            resident += min(cached, length)  # a small file's page is more than its bytes
    except OSError:
        return None
    return Residency(resident / size, held * step, len(files), len(asked)) if size else None


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path


def _pages() -> Callable[[int, int], int]:
    """The function that says how many pages of an open file with a length are cached."""
    # -1 is no file: a kernel that has the call, and may be asked, says so.
    _libc.syscall(CACHESTAT, -1, None, None, 0)
    return by_mincore if ctypes.get_errno() in (errno.ENOSYS, errno.EPERM) else by_cachestat


def by_cachestat(fd: int, _length: int) -> int:
    """The cached pages of an open file, by cachestat(2)."""
    whole, found = _Range(0, 0), _Cachestat()
    if _libc.syscall(CACHESTAT, fd, ctypes.byref(whole), ctypes.byref(found), 0):
        raise OSError(ctypes.get_errno(), "cachestat")
    return int(found.cache)


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

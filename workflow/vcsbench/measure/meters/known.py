"""How much of a subject is in the page cache, asked without loading an inode: only files are opened whose
names the kernel still has in its cache of names.

What is read is opened by its name, and a name that is cached keeps the names of the folders above it. So a
folder that is not known has nothing below it that is: after caches were dropped, asking takes no time and
leaves them as they are. Names are forgotten before pages only where memory gets short, which certificates
show.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from vcsbench.measure.meters.residency import PAGE, Pages, Residency, pages_function
from vcsbench.storages.filesystems import mount_of

# The same number on every architecture; RESOLVE_CACHED is there since Linux 5.12.
OPENAT2, RESOLVE_CACHED = 437, 0x20
# File systems on which a name that is cached needs no look at anything else before it is believed.
LOCAL = frozenset(["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs"])

_syscall = ctypes.CDLL(None, use_errno=True).syscall


class _How(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("flags", "mode", "resolve"))


# Made once: to make it takes as long as the call.
_HOW = _How(os.O_RDONLY | os.O_CLOEXEC, 0, RESOLVE_CACHED)
_WITH = (ctypes.byref(_HOW), ctypes.sizeof(_HOW))


def can_ask(*paths: Path) -> bool:
    """Whether the kernel tells of what lies below these folders which names it knows. They are opened, after
    which it does know them."""
    try:
        return all(mount_of(path).filesystem in LOCAL and _is_known(path) for path in paths)
    except OSError:
        return False


def ask(size: int, *paths: Path) -> Residency | None:
    """The residency of all files below folders, which have `size` bytes in all; None where the kernel does
    not say."""
    try:
        pages = pages_function()
        found = [one for path in paths for one in _below(os.fsencode(path), pages)]
    except OSError:
        return None
    resident, held = (sum(one[i] for one in found) for i in range(2))
    return Residency(resident / size, held, 0, len(found))


def _is_known(path: Path) -> bool:
    os.close(os.open(path, os.O_RDONLY))
    fd = _open(os.fsencode(path))
    if fd is not None:
        os.close(fd)
    return fd is not None


def _below(folder: bytes, pages: Pages) -> Iterator[tuple[int, int]]:
    """Of each file that is known below a folder, or of a file: its bytes that are cached, and those of
    their pages."""
    at = _open(folder)
    if at is None:
        return
    if not stat.S_ISDIR(os.fstat(at).st_mode):
        yield _of_file(at, pages)
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _below(entry.path, pages)
                elif entry.is_file(follow_symlinks=False):
                    fd = _open(entry.name, at)
                    if fd is not None:
                        yield _of_file(fd, pages)
    finally:
        os.close(at)


def _of_file(fd: int, pages: Pages) -> tuple[int, int]:
    try:
        length = os.fstat(fd).st_size
        held = pages(fd, length) * PAGE if length else 0
    finally:
        os.close(fd)
    return min(held, length), held


def _open(name: bytes, at: int = -100) -> int | None:
    """A descriptor of what is called so; None where the kernel would have to look for it."""
    fd: int = _syscall(OPENAT2, at, name, *_WITH)
    if fd >= 0:
        return fd
    number = ctypes.get_errno()
    if number == errno.EAGAIN:
        return None
    raise OSError(number, os.strerror(number), os.fsdecode(name))

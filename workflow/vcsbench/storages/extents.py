"""Read where the bytes of a file lie on its device: the kernel's FIEMAP (linux/fiemap.h)."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_FIEMAP = 0xC020660B
# Request: start, length, flags, mapped extents, room for extents, reserved.
_HEAD = struct.Struct("=QQIIII")
# Extent: logical, physical, length, two reserved, flags, three reserved.
_EXTENT = struct.Struct("=QQQQQIIII")
# UNKNOWN, DELALLOC, ENCODED, DATA_INLINE, DATA_TAIL: `physical` is not a position of the file alone.
_NO_POSITION = 0x2 | 0x4 | 0x8 | 0x200 | 0x400
_LAST, _SHARED = 0x1, 0x2000
# Write the file to its device first.
_SYNC = 0x1
_BATCH = 128
# Errors of file systems without FIEMAP, for example tmpfs, NFS and FUSE.
_UNSUPPORTED = (
    errno.EOPNOTSUPP,
    errno.ENOTTY,
    errno.EINVAL,
    errno.ENOSYS,
    errno.EPERM,
    errno.EBADR,
)


class Extent(NamedTuple):
    """A run of bytes of a file: its offset in the file and on the device, its length, and FIEMAP's flags."""

    logical: int
    start: int
    length: int
    flags: int


class DiskUsage(NamedTuple):
    """The bytes that belong to one file only, and those that several files share, each counted once."""

    exclusive: int
    shared: int


class ExtentsUnsupportedError(Exception):
    """The file system does not report where its files lie."""


def first_extent(path: str | Path) -> Extent | None:
    """Return the first extent of a file; None if it has no position on the device.

    Empty files, files that are not written yet and files inside their inode have none. Raise
    ExtentsUnsupportedError without FIEMAP.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        extents = _extents(descriptor, 0, 0, 1)
    finally:
        os.close(descriptor)
    return next((extent for extent in extents if not extent.flags & _NO_POSITION), None)


def disk_usage(paths: Iterable[str]) -> DiskUsage:
    """Return the usage of regular files. Raise ExtentsUnsupportedError without FIEMAP."""
    exclusive, shared = 0, set[tuple[int, int]]()
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            for extent in _all_extents(descriptor):
                if extent.flags & _SHARED:
                    shared.add((extent.start, extent.length))
                else:
                    exclusive += extent.length
        finally:
            os.close(descriptor)
    return DiskUsage(exclusive, sum(length for _, length in shared))


def _all_extents(descriptor: int) -> Iterator[Extent]:
    start = 0
    while extents := _extents(descriptor, start, _SYNC, _BATCH):
        yield from extents
        last = extents[-1]
        if last.flags & _LAST:
            return
        start = last.logical + last.length


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

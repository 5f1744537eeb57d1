"""Read where the bytes of files lie on their device, and how many of them files share (FIEMAP)."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

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

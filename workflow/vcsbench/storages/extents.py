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
# Flags of an extent. UNKNOWN, DELALLOC, ENCODED, DATA_INLINE, DATA_TAIL: `physical` is no position of the
# file alone.
_NO_POSITION = 0x2 | 0x4 | 0x8 | 0x200 | 0x400
# The last extent of the file; compressed or encrypted; encrypted; inside the inode; shared with a clone.
_LAST, _ENCODED, _ENCRYPTED, _INLINE, _SHARED = 0x1, 0x8, 0x80, 0x200, 0x2000
# A flag of the request: the kernel first writes the file to the device.
_SYNC = 0x1
_BATCH = 128
_UNSUPPORTED = {
    errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EBADR,
}  # fmt: skip


class Extent(NamedTuple):
    """Contiguous bytes of a file: the offsets in the file and on the device, length, and FIEMAP's flags."""

    logical: int
    start: int
    length: int
    flags: int


class DiskUsage(NamedTuple):
    """The bytes on a device that belong to one file each, and those that several files share."""

    exclusive: int
    shared: int


class ExtentsUnsupportedError(Exception):
    """The file system does not report where its files lie, or how long their blocks are."""


def first_extent(path: str | Path) -> Extent | None:
    """Return the first extent of a file if it has a position on the device, or None.

    Empty files, files that are not written yet and files inside their inode have no position. Raise
    ExtentsUnsupportedError if the file system has no FIEMAP.
    """
    with open(path, "rb") as file:
        extents = _extents(file.fileno(), start=0, flags=0, limit=1)
    return next((extent for extent in extents if not extent.flags & _NO_POSITION), None)


def disk_usage(paths: Iterable[str]) -> DiskUsage:
    """Return the bytes that files take on their device: bytes of one file only, and bytes that files share.

    A file of 1 MiB and its clone share 1 MiB, which counts once. Raise ExtentsUnsupportedError if the file
    system cannot report extents, or for a compressed file.
    """
    exclusive = 0
    shared: list[Extent] = []
    for path in paths:
        for extent in _all_extents(path):
            # A small file can lie inside its inode, and takes no block of its own.
            if extent.flags & _INLINE:
                continue
            # FIEMAP reports the length of a compressed extent's content, and not of its smaller blocks. An
            # encrypted extent has the same flag, but as many blocks as content.
            if extent.flags & _ENCODED and not extent.flags & _ENCRYPTED:
                raise ExtentsUnsupportedError(f"{path} is compressed")
            if extent.flags & _SHARED:
                shared.append(extent)
            else:
                exclusive += extent.length
    # Each file reports the extents that it shares. So `shared` has an extent several times.
    return DiskUsage(exclusive, _covered_bytes(shared))


def _all_extents(path: str) -> list[Extent]:
    """Write the data of a file to the device, and return the extents of the file in their order."""
    extents: list[Extent] = []
    with open(path, "rb") as file:
        start = 0
        while True:
            batch = _extents(file.fileno(), start=start, flags=_SYNC, limit=_BATCH)
            extents += batch
            # A file without data has no extent, and so no last one.
            if not batch or batch[-1].flags & _LAST:
                return extents
            start = batch[-1].logical + batch[-1].length


def _covered_bytes(extents: Iterable[Extent]) -> int:
    """Return the bytes on the device that extents cover, each byte once.

    Clones of parts of a file may overlap: extents from 0 to 100 and from 50 to 150 cover 150 bytes.
    """
    covered = 0
    # The end of the extents so far. Bytes below it were counted before.
    reached = 0
    for extent in sorted(extents, key=lambda extent: extent.start):
        end = extent.start + extent.length
        first_uncounted = max(extent.start, reached)
        covered += max(0, end - first_uncounted)
        reached = max(reached, end)
    return covered


def _extents(descriptor: int, *, start: int, flags: int, limit: int) -> list[Extent]:
    """Return up to `limit` extents of an open file from the byte `start` on, as the kernel reports them.

    `flags` are the request's: 0 or _SYNC. Raise ExtentsUnsupportedError without FIEMAP.
    """
    # The head requests all bytes from `start` to the end. Its zeros are the number of extents, which the
    # kernel sets, and a reserved field.
    buffer = bytearray(_HEAD.size + limit * _EXTENT.size)
    to_end = (1 << 64) - 1 - start
    _HEAD.pack_into(buffer, 0, start, to_end, flags, 0, limit, 0)
    try:
        fcntl.ioctl(descriptor, _FIEMAP, buffer)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            raise ExtentsUnsupportedError(os.strerror(error.errno)) from None
        raise
    # The kernel answers in the same buffer: the number of extents in the head, and then the extents.
    count: int = _HEAD.unpack_from(buffer)[3]
    extents = []
    for index in range(count):
        fields = _EXTENT.unpack_from(buffer, _HEAD.size + index * _EXTENT.size)
        logical, physical, length, _, _, extent_flags, *_ = fields
        extents.append(Extent(logical, physical, length, extent_flags))
    return extents

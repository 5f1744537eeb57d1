"""Where the bytes of a file lie on its device: the kernel's FIEMAP (linux/fiemap.h)."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import NamedTuple

_FIEMAP = 0xC020660B
# Before the extents: start, length, flags, extents mapped, extents there is room for, reserved.
_HEAD = struct.Struct("=QQIIII")
# Each extent: logical, physical, length, two reserved, flags, three reserved.
_EXTENT = struct.Struct("=QQQQQIIII")
# UNKNOWN, DELALLOC, ENCODED, DATA_INLINE, DATA_TAIL: `physical` is then no place on the device of the
# file's own.
_NO_PLACE = 0x2 | 0x4 | 0x8 | 0x200 | 0x400
# What file systems without it say: tmpfs, NFS, FUSE and the like.
_NOT_THERE = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EBADR)


class Extent(NamedTuple):
    """A run of bytes on the device: where it begins, and how long it is."""

    start: int
    length: int


class NotAsked(Exception):
    """The file system does not say where its files lie."""


def first_extent(path: str | Path) -> Extent | None:
    """The first extent of a file; None where it has no place of its own (it is empty, not yet written, or
    so small that it lies inside its inode). NotAsked where the file system does not say."""
    room = bytearray(_HEAD.size + _EXTENT.size)
    _HEAD.pack_into(room, 0, 0, (1 << 64) - 1, 0, 0, 1, 0)
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(file, _FIEMAP, room)
    except OSError as error:
        if error.errno in _NOT_THERE:
            raise NotAsked(os.strerror(error.errno)) from None
        raise
    finally:
        os.close(file)
    if _HEAD.unpack_from(room)[3] == 0:
        return None
    _, start, length, _, _, flags, *_ = _EXTENT.unpack_from(room, _HEAD.size)
    return None if flags & _NO_PLACE else Extent(start, length)

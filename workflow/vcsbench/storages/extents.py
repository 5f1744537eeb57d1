"""Where the bytes of a file lie on its device: the kernel's FIEMAP (linux/fiemap.h)."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterable, Iterator
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
_LAST, _SHARED, _INLINE = 0x1, 0x2000, 0x200
# The file is written to its device before it is asked.
_SYNC = 0x1
_AT_ONCE = 128
# What file systems without it say: tmpfs, NFS, FUSE and the like.
_NOT_THERE = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EBADR)


class Extent(NamedTuple):
    """A run of bytes on the device: where it begins, and how long it is."""

    start: int
    length: int


class Use(NamedTuple):
    """What files take on their device: bytes that are one file's alone, and bytes that several share, each
    counted once."""

    exclusive: int
    shared: int


class NotAsked(Exception):
    """The file system does not say where its files lie."""


def first_extent(path: str | Path) -> Extent | None:
    """The first extent of a file; None where it has no place of its own (it is empty, not yet written, or
    so small that it lies inside its inode). NotAsked where the file system does not say."""
    file = os.open(path, os.O_RDONLY)
    try:
        found = _ask(file, 0, 0, 1)
    finally:
        os.close(file)
    return next(
        (Extent(at, length) for _, at, length, flags in found if not flags & _NO_PLACE), None
    )


def use_of(paths: Iterable[str]) -> Use:
    """What regular files take, by their extents. Those that lie inside their inode (inline) are the file's
    own. NotAsked where the file system does not say."""
    exclusive, shared = 0, set[tuple[int, int]]()
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            for _, physical, length, flags in _all(file):
                if flags & _SHARED:
                    shared.add((physical, length))
                else:
                    exclusive += length
        finally:
            os.close(file)
    return Use(exclusive, sum(length for _, length in shared))


def _all(file: int) -> Iterator[tuple[int, int, int, int]]:
    at = 0
    while found := _ask(file, at, _SYNC, _AT_ONCE):
        yield from found
        logical, _, length, flags = found[-1]
        if flags & _LAST:
            return
        at = logical + length


def _ask(file: int, start: int, how: int, most: int) -> list[tuple[int, int, int, int]]:
    """The extents of an open file from a place on: where each begins in the file and on the device, its
    length, and its flags."""
    room = bytearray(_HEAD.size + most * _EXTENT.size)
    _HEAD.pack_into(room, 0, start, (1 << 64) - 1 - start, how, 0, most, 0)
    try:
        fcntl.ioctl(file, _FIEMAP, room)
    except OSError as error:
        if error.errno in _NOT_THERE:
            raise NotAsked(os.strerror(error.errno)) from None
        raise
    fields = (
        _EXTENT.unpack_from(room, _HEAD.size + i * _EXTENT.size) for i in range(_mapped(room))
    )
    return [(logical, at, length, flags) for logical, at, length, _, _, flags, *_ in fields]


def _mapped(room: bytearray) -> int:
    number: int = _HEAD.unpack_from(room)[3]
    return number

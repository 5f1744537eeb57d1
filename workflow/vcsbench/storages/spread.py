"""New folders in parts of a disk from which nothing was removed lately.

An ext4 without a journal passes over inodes for minutes after their deletion (storages.describe), and so
takes several times as long to make files where others were just removed. A folder at the top of a file
system goes where there is room; so does one below a folder that is marked as such.
"""

from __future__ import annotations

import fcntl
import os
import struct
import uuid
from contextlib import suppress
from pathlib import Path

# linux/fs.h
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_TOPDIR_FL = 0x80086601, 0x40086602, 0x00020000


def fresh_folder(above: Path, name: str) -> Path:
    """Make a folder of a name, which is not there, in another one."""
    _mark(above)
    # Where it goes follows from the name that it is made by.
    new = above / uuid.uuid4().hex
    new.mkdir()
    return new.rename(above / name)


def _mark(folder: Path) -> None:
    there = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system that knows no such mark
            (flags,) = struct.unpack("i", fcntl.ioctl(there, FS_IOC_GETFLAGS, bytes(4)))
            fcntl.ioctl(there, FS_IOC_SETFLAGS, struct.pack("i", flags | FS_TOPDIR_FL))
    finally:
        os.close(there)

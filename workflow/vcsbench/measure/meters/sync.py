"""How long it takes until what was written is on the device."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path


def took_s(path: Path) -> float:
    """Have the kernel write all that is dirty on the file system of a path, which need not exist; the seconds
    until that is done."""
    while not path.exists():
        path = path.parent
    libc = ctypes.CDLL(None, use_errno=True)
    there = os.open(path, os.O_RDONLY)
    try:
        began = time.monotonic()
        if libc.syncfs(there) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return round(time.monotonic() - began, 6)
    finally:
        os.close(there)

"""One measurement at a time on a machine, over all workflows on it."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# In a folder that every user of the machine shares.
PATH = "/tmp/vcsbench.lock"


@contextmanager
def machine_lock() -> Iterator[int]:
    """Hold the machine's lock; waits for it, and says so. Yields its file descriptor.

    The timed programs inherit the descriptor, so that one that outlives its cell still keeps others out.
    """
    fd = _open()
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another measurement on this machine", file=sys.stderr, flush=True)
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def _open() -> int:
    try:
        return os.open(PATH, os.O_RDONLY)  # another user's file can be locked, but not written
    except FileNotFoundError:
        return os.open(PATH, os.O_RDONLY | os.O_CREAT, 0o644)

"""The small files in which the kernel tells of itself and of processes."""

from __future__ import annotations

from pathlib import Path


def read(path: str | Path) -> str:
    """What such a file says, without the white space around; "" where it is not there or may not be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def words(path: str | Path) -> list[str]:
    """The words of such a file that has each end with a NUL: a command line, an environment."""
    return read(path).split("\0")[:-1]

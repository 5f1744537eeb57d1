"""The small files in which the kernel tells of itself and of processes."""

from __future__ import annotations

import re
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


def unescaped(field: str) -> str:
    r"""Return a field of a mount table without escapes: the kernel writes a space as \040."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda found: chr(int(found[1], 8)), field)

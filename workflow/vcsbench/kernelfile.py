"""Read the small files in which the kernel describes itself and processes."""

from __future__ import annotations

import re
from pathlib import Path


def read(path: str | Path) -> str:
    """Return the content of a file without white space around it; "" if it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def words(path: str | Path) -> list[str]:
    """Return the words of a file in which each ends with a NUL: a command line, an environment."""
    return read(path).split("\0")[:-1]


def unescaped(field: str) -> str:
    r"""Return a field of a mount table without escapes: the kernel writes a space as \040."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda found: chr(int(found[1], 8)), field)

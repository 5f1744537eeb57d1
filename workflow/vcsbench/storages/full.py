"""A storage that takes no more: said in a sentence, whoever met it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from vcsbench.errors import UserError

# With less a file system is full.
LEAST_BYTES = 256 * 1024
_SAYS = {
    errno.ENOSPC: ("is full", "free some space"),
    errno.EDQUOT: ("takes no more of this user: the quota is used up", "raise the quota"),
    errno.EROFS: ("is read-only", "mount it so that it can be written to"),
}
# Subversion says the errno behind an E; SQLite, which keeps its cache of representations, S13.
_SVN = re.compile(r"\bE000(\d{3})\b")
_SQLITE_FULL = re.compile(r"sqlite\[S13\]")


def takes_no_more(folder: str | Path) -> bool:
    """Whether the file system of a folder is full, or has no more files to give."""
    there = os.statvfs(folder)
    return there.f_bavail * there.f_frsize < LEAST_BYTES or bool(
        there.f_files and not there.f_favail
    )


@contextlib.contextmanager
def told(folder: Path, otherwise: str = "") -> Iterator[None]:
    """Turn an OSError into a UserError that names the folder that refused a write.

    `folder` is written to, `otherwise` is another remedy than to make room there.
    """
    try:
        yield
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else ""
        # A file elsewhere, for example in results/, has no remedy here.
        if name and not Path(name).absolute().is_relative_to(folder):
            folder, otherwise = Path(name).parent, ""
        if error.errno not in _SAYS:
            raise UserError(f"{folder}: failed: {error}") from None
        says, remedy = _SAYS[error.errno]
        other = f", or {otherwise}," if otherwise else ""
        raise UserError(f"{folder}: {says}; {remedy}{other} and run again") from None


def raise_said(text: str, path: Path) -> None:
    """Raise the OSError that a program of Subversion's met and put into words, if it is one of these."""
    found = _SVN.search(text)
    number = int(found[1]) if found else errno.ENOSPC if _SQLITE_FULL.search(text) else 0
    if number in _SAYS:
        raise OSError(number, os.strerror(number), str(path))

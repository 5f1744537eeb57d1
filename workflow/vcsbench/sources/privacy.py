"""Find out if other users of the machine can read a source."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from vcsbench.sources.base import UNREACHABLE, local_path

# Below a Subversion repository, a git repository, and a git work tree.
HISTORY = ("db", "db/revs", "db/current", "objects", "HEAD", ".git", ".git/objects", ".git/HEAD")
FILE = "file://"


def is_private(definition: Mapping[str, Any]) -> bool:
    """Return True if a source, by its definition, is not readable by all users of the machine.

    A source behind a server counts as private: the server may have asked for a password.
    """
    if url := definition.get("url"):
        return not str(url).startswith(FILE) or _is_closed(str(url))
    path = definition.get("path")
    return _is_closed(str(path)) if path else False


@cache
def _is_closed(text: str) -> bool:
    try:
        path = Path(os.path.realpath(local_path(text)))
        return not all(map(_can_others_read, _parts(path)))
    except UNREACHABLE:
        return True


def _parts(path: Path) -> Iterator[tuple[Path, int]]:
    """The folders above a source, which others have to enter, and the source, which they have to read."""
    for folder in path.parents:
        yield folder, stat.S_IXOTH
    for file in (path, *(path / name for name in HISTORY)):
        if file.is_dir():
            yield file, stat.S_IXOTH | stat.S_IROTH
        elif file.exists():
            yield file, stat.S_IROTH


def _can_others_read(part: tuple[Path, int]) -> bool:
    path, wanted = part
    return path.stat().st_mode & wanted == wanted

"""Dump files of repositories: made where they are loaded, and what is to be said of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.storages.place import Place
from vcsbench.subjects.repository import fsfs, svnadmin

# Below a place.
FOLDER = "dumps"
CHUNK = 1 << 20


def make(repository: Path, revisions: int, place: Place, name: str) -> dict[str, Any]:
    """Dump the first `revisions` of a repository (0 is one as well) into a file on a place.

    Returns the file's path, state, bytes and its last revision. A UserError where svnadmin fails; the OSError
    that was met where the place takes no more, and nothing is left then.
    """
    path = place.make(FOLDER) / f"{name}.dump"
    try:
        last = min(revisions, fsfs.youngest(repository))
    except (OSError, ValueError, IndexError) as error:
        raise UserError(f"{repository}: cannot be dumped: {error}") from None
    try:
        with path.open("wb") as file:
            svnadmin.reading(
                lambda output: shutil.copyfileobj(output, file, CHUNK),
                *("dump", "-q", "-r", f"0:{last}", repository),
            )
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return {"path": str(path), "state": state(path), "bytes": path.stat().st_size, "last": last}


def is_there(record: Mapping[str, Any], revisions: int) -> bool:
    """Whether the record of a load has a dump file of so many revisions, and the file is as it was made."""
    said = record.get("dump") or {}
    wanted = min(revisions, record.get("revisions", revisions))
    return said.get("last") == wanted and said.get("state") == state(Path(said.get("path", "")))


def state(path: Path) -> list[int]:
    """What changes when a file does; [] where there is none."""
    try:
        seen = os.stat(path)
    except OSError:
        return []
    return [seen.st_size, seen.st_mtime_ns, seen.st_ino]

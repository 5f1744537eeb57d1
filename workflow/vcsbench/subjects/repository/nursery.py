"""Where repositories are loaded and wait to be copied: folders in use, kept until then, or left over."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vcsbench.files import read_json
from vcsbench.storages.place import Place
from vcsbench.subjects.repository import fsfs
from vcsbench.subjects.repository.labels import Variant

# Below a place; in it a folder for each repository.
FOLDER = "loading"


@contextlib.contextmanager
def kept_if_whole(place: Place, repo: str) -> Iterator[Path]:
    """A new folder to load a repository into, marked as in use meanwhile. It is removed if that fails,
    however it fails: much of it may be in RAM."""
    into = place.make(FOLDER, repo)
    lock = os.open(into, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield into
    except BaseException:
        place.remove(FOLDER, repo)
        raise
    finally:
        os.close(lock)


def loaded(record: Mapping[str, Any], variant: Variant) -> Path | None:
    """Where a variant lies that copies can be made from, by the record of a load; None where it is gone or
    was changed, or was loaded from another source."""
    path = Path(record.get("path", ""), f"{variant.format}.{variant.packing}")
    ours = record.get("identity") == variant.identity
    return path if ours and not fsfs.unlike(path, variant.format, variant.packing) else None


def place_of(record: Mapping[str, Any], root: str | Path) -> Place:
    """The place that a repository was loaded on, by the record of the load."""
    return Place(Path(record["path"]).parents[2], root)


def remove_leftovers(places: Sequence[Place], root: str | Path) -> None:
    """Remove what killed loads left: folders that nobody loads into, and that no record of a finished load
    names (results/loaded below `root`)."""
    for place in places:
        folder = place.path / FOLDER
        for into in sorted(folder.glob("*")):
            record = read_json(Path(root, "results", "loaded", f"{into.name}.json"))
            if record.get("path") != str(into) and not _is_in_use(into):
                place.remove(FOLDER, into.name)


def _is_in_use(into: Path) -> bool:
    lock = os.open(into, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False

"""What an FSFS repository on disk looks like: its format, revisions, shards and files."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vcsbench.formats import (
    made_of,
    packed_of,
    read_format,
    read_settings,
    release_settings,
)
from vcsbench.subjects.repository import state

# Everything that belongs to no revision is copied after the last one.
AFTER_ALL_REVISIONS = 1 << 62


def youngest(path: Path) -> int:
    """The youngest revision, read from db/current."""
    return int((path / "db" / "current").read_text().split()[0])


def shard_size(path: Path) -> int:
    """Revisions per shard, or 0 where the layout is linear."""
    return read_format(path).shard


def packed_shards(path: Path) -> int:
    """How many shards of the repository are packed."""
    return packed_of(path, shard_size(path))


NOT_PACKED, PARTLY_PACKED, PACKED = "nopack", "partly", "pack"


class Shape(NamedTuple):
    """What a repository is, as its own files say: its format (f7), its youngest revision, how many of its
    shards are full, how many are packed, and whether its revisions are addressed logically."""

    format: str
    youngest: int
    full: int
    packed: int
    is_logical: bool

    @property
    def packing(self) -> str:
        """Return the value of the axis `packing`."""
        return packing_of(self.full, self.packed)


def packing_of(full: int, packed: int) -> str:
    """Return the value of the axis `packing` by the numbers of full and of packed shards."""
    if not packed:
        return NOT_PACKED
    return PACKED if packed == full else PARTLY_PACKED


def shape(path: Path) -> Shape:
    """Read a few small files of a repository. OSError or ValueError where they are not those of FSFS, or
    its shards are not as they say."""
    kind = (path / "db" / "fs-type").read_text().strip()
    if kind != "fsfs":
        raise ValueError(f"its file system is {kind}")
    number, size, is_logical = read_format(path)
    packed, last = packed_of(path, size), youngest(path)
    revs = os.listdir(path / "db" / "revs")
    there = {name.removesuffix(".pack") for name in revs if name.endswith(".pack")}
    if there != set(map(str, range(packed))):
        raise ValueError(f"it says that {packed} shards are packed, and {len(there)} are")
    return Shape(f"f{number}", last, (last + 1) // size if size else 0, packed, is_logical)


def unlike(path: Path, fmt: str, packing: str, last: int | None = None) -> str:
    """Return in a clause how a repository differs from a format and packing (axis values), or its youngest
    revision from `last`; "" if it does not."""
    try:
        found = shape(path)
    except (OSError, ValueError, IndexError) as error:
        return f"it cannot be read as a repository of {fmt}: {error}"
    made = made_of(fmt)
    if (not made.is_as_is or made.is_upgraded) and found.format != made.format:
        return f"it is of format {found.format}, not of {made.format}"
    # An upgrade leaves the addressing as it was: all that tells an upgraded one from one that was made so.
    if not made.is_as_is and found.is_logical != made.is_logical:
        how = "logically" if found.is_logical else "physically"
        return f"its revisions are addressed {how}, and those of {fmt} are not"
    if found.full and found.packing != packing:
        wanted = {PACKED: "all", PARTLY_PACKED: "some"}.get(packing, "none")
        return f"{found.packed} of its {found.full} full shards are packed, and {wanted} should be"
    settings = release_settings(made)
    if settings and read_settings(path) != settings:
        return f"its db/fsfs.conf has not the settings of {fmt}"
    if last not in (None, found.youngest):
        return f"its youngest revision is {found.youngest}, not {last}"
    return ""


class File(NamedTuple):
    """A file of a repository: the revision that it belongs to, its path there, bytes and permissions."""

    revision: int
    name: str
    size: int
    mode: int


def files(path: Path) -> list[File]:
    """The files of a repository in the order in which a server would have made them.

    A packed shard counts as its last revision, and what belongs to no revision comes last. OSError where
    there is something that is neither file nor folder: Subversion makes none, and a copy could not be
    told to be one.
    """
    size = shard_size(path) or 1
    found = []
    for folder, entries in state.walk(path):
        for name, status in entries:
            relative = state.below(folder, name)
            if stat.S_ISREG(status.st_mode):
                revision = _revision(relative.split("/"), size)
                found.append(File(revision, relative, status.st_size, status.st_mode & 0o777))
            elif not stat.S_ISDIR(status.st_mode):
                raise OSError(f"{path / relative} is neither a file nor a folder")
    return sorted(found)


def _revision(parts: Sequence[str], size: int) -> int:
    if len(parts) < 3 or parts[:1] != ["db"] or parts[1] not in ("revs", "revprops"):
        return AFTER_ALL_REVISIONS
    shard, _, packed = parts[2].partition(".")
    if not shard.isdigit():
        return AFTER_ALL_REVISIONS
    if packed == "pack":
        return (int(shard) + 1) * size - 1
    return int(parts[-1]) if parts[-1].isdigit() else AFTER_ALL_REVISIONS

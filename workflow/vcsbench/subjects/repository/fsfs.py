"""What an FSFS repository on disk looks like: its format, revisions, shards and files."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.storages import full
from vcsbench.subjects.repository import state

# The axis value of a format and the release that `svnadmin create --compatible-version` makes it for.
FORMATS = {"f6": "1.8", "f7": "1.9", "f8": "1.10"}
# Everything that belongs to no revision is copied after the last one.
AFTER_ALL_REVISIONS = 1 << 62


def svnadmin(*arguments: str | Path) -> None:
    """Run svnadmin; a UserError with the last line that it said if it fails, or the OSError that it met
    where the storage takes no more."""
    done = subprocess.run(
        ["svnadmin", *arguments], capture_output=True, text=True, errors="replace"
    )
    if done.returncode != 0:
        full.raise_said(done.stderr, Path(arguments[-1]))
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise UserError(f"svnadmin {arguments[0]} {arguments[-1]} failed: {said[-1]}")


def create(path: Path, fmt: str) -> None:
    """Create an empty repository of format `fmt` (a key of FORMATS)."""
    svnadmin("create", "--fs-type", "fsfs", "--compatible-version", FORMATS[fmt], path)


def youngest(path: Path) -> int:
    """The youngest revision, read from db/current."""
    return int((path / "db" / "current").read_text().split()[0])


def shard_size(path: Path) -> int:
    """Revisions per shard, or 0 where the layout is linear."""
    for line in (path / "db" / "format").read_text().splitlines():
        if line.startswith("layout sharded"):
            return int(line.split()[2])
    return 0


def packed_shards(path: Path) -> int:
    """How many shards of the repository are packed."""
    unpacked = path / "db" / "min-unpacked-rev"
    size = shard_size(path)
    return int(unpacked.read_text()) // size if size and unpacked.exists() else 0


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
            relative = name if folder == "." else f"{folder}/{name}"
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

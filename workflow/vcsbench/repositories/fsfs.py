"""What an FSFS repository on disk looks like: its format, revisions, shards and files."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from vcsbench.errors import UserError

# The axis value of a format and the release that `svnadmin create --compatible-version` makes it for.
FORMATS = {"f6": "1.8", "f7": "1.9", "f8": "1.10"}
# Everything that belongs to no revision is copied after the last one.
AFTER_ALL_REVISIONS = 1 << 62


def svnadmin(*arguments: str | Path) -> None:
    """Run svnadmin; a UserError with the last line that it said if it fails."""
    done = subprocess.run(
        ["svnadmin", *arguments], capture_output=True, text=True, errors="replace"
    )
    if done.returncode != 0:
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


def files(path: Path) -> list[tuple[int, str, int]]:
    """The files of a repository in the order in which a server would have made them.

    Returns (revision, path relative to the repository, bytes); a packed shard counts as its last
    revision, and what belongs to no revision comes last.
    """
    size = shard_size(path) or 1
    found = []
    for folder, _, names in os.walk(path):
        below = os.path.relpath(folder, path)
        for name in names:
            relative = name if below == "." else f"{below}/{name}"
            revision = _revision(relative.split("/"), size)
            found.append((revision, relative, os.lstat(os.path.join(folder, name)).st_size))
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


def digest(path: Path, listed: Sequence[tuple[int, str, int]]) -> str:
    """A digest over the names and the bytes of the listed files."""
    total = hashlib.blake2b(digest_size=16)
    for _, relative, size in listed:
        total.update(f"{relative}\0{size}\0".encode())
        with open(path / relative, "rb", buffering=0) as file:
            while chunk := file.read(1 << 20):
                total.update(chunk)
    return total.hexdigest()

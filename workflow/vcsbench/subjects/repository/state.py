"""What a copy looks like from outside: names, modes, sizes and times, by which a change is noticed.

Writing to a file, replacing it, and chmod all set its ctime, and nobody can set that back. What is
not seen is a device that gives back other bytes than were written: no time changes by that.
"""

from __future__ import annotations

import hashlib
import os
import random
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

Entries = list[tuple[str, os.stat_result]]


def walk(copy: Path) -> Iterator[tuple[str, Entries]]:
    """Every folder of a copy by its path relative to it ("." for the copy itself), with what is in it."""
    waiting = ["."]
    while waiting:
        folder = waiting.pop()
        entries = _entries(os.path.join(copy, folder))
        yield folder, entries
        waiting += [below(folder, name) for name, s in entries if stat.S_ISDIR(s.st_mode)]


def below(folder: str, name: str) -> str:
    """The path of what is in a folder (of walk)."""
    return name if folder == "." else f"{folder}/{name}"


def _entries(folder: str) -> Entries:
    with os.scandir(folder) as there:
        return sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in there)


def of_folder(entries: Entries) -> str:
    """A digest of what a folder has in it: an entry that appears, goes or changes makes it another."""
    said = "\n".join(
        f"{name}\0{s.st_mode} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for name, s in entries
    )
    return hashlib.blake2b(said.encode(errors="surrogateescape"), digest_size=8).hexdigest()


def is_shard(folder: str) -> bool:
    """Whether a folder holds revisions: a thousand files, or of a packed shard, two."""
    return folder.startswith(("db/revs/", "db/revprops/"))


def take(copy: Path) -> dict[str, str]:
    """The state of a copy: a digest by folder."""
    return {folder: of_folder(entries) for folder, entries in walk(copy)}


def changed(copy: Path, state: dict[str, str], shards: int | None = None) -> str:
    """The first folder of a copy that is not as the state has it; "" if there is none.

    `shards`: look into no more than so many of the folders that hold revisions, at random. In all
    others, a file that appeared or went is seen too, but not one that was written to.
    """
    holding = [folder for folder in state if is_shard(folder)]
    if shards is not None and shards < len(holding):
        holding = random.sample(holding, shards)
    for folder in [*(folder for folder in state if not is_shard(folder)), *sorted(holding)]:
        with suppress(OSError):
            if of_folder(_entries(os.path.join(copy, folder))) == state[folder]:
                continue
        return folder
    return "" if state else "."

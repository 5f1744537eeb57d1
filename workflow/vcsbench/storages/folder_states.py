"""List the files of a folder tree, and detect that one of them was changed."""

import hashlib
import os
import random
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from vcsbench.external import CHUNK

# The names in a folder, sorted, with their states.
Entries = list[tuple[str, os.stat_result]]


def walk(repository: Path) -> Iterator[tuple[str, Entries]]:
    """Yield the path of each folder in a repository, such as "db/revs" ("." for the top), and its entries.

    Links are not followed.
    """
    waiting = ["."]
    while waiting:
        folder = waiting.pop()
        entries = _scan(os.path.join(repository, folder))
        yield folder, entries
        for name, status in entries:
            if stat.S_ISDIR(status.st_mode):
                waiting.append(join(folder, name))


def join(folder: str, name: str) -> str:
    """Return the path of an entry of a folder that walk() has yielded: "db/current", or "format" in "."."""
    return name if folder == "." else f"{folder}/{name}"


def _scan(folder: str) -> Entries:
    with os.scandir(folder) as entries:
        return sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)


def folder_state(entries: Entries) -> str:
    """Return a digest of the names, modes, sizes and times in a folder.

    Each write, replacement and chmod changes the digest. Wrong bytes of a device do not: no file is read.
    """
    lines = []
    for name, status in entries:
        # A program can set the mtime of a file back after a change, but not its ctime.
        times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
        # No name has a NUL, so two folders with the same text have the same names.
        lines.append(f"{name}\0{status.st_mode} {status.st_size} {times}")
    text = "\n".join(lines).encode(errors="surrogateescape")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def read_state(repository: Path) -> dict[str, str]:
    """Return the state (folder_state) of each folder in a repository, by its path: {"db/revs": "9f86..."}."""
    return {folder: folder_state(entries) for folder, entries in walk(repository)}


def changed_folder(
    repository: Path,
    state: dict[str, str],
    is_sampled: Callable[[str], bool],
    sample: int | None,
) -> str:
    """Return a folder of a repository that differs from `state`, an earlier read_state(); "" if none does.

    Example: "db/revs/3"; "." is the top folder, also for an unknown `state` ({}). A repository may have very
    many folders of one kind, such as shards of revisions. `is_sampled` is true for such folders, and only
    `sample` random ones are checked (None: all). In unchecked folders, added and removed files are noticed,
    but not changed files.
    """
    if not state:
        return "."
    candidates = [folder for folder in state if is_sampled(folder)]
    always_checked = [folder for folder in state if not is_sampled(folder)]
    sampled = candidates
    if sample is not None and sample < len(candidates):
        sampled = random.sample(candidates, sample)
    # The folder around the candidates is always checked. Its state has their times, which change if a file is
    # added or removed in them.
    for folder in [*always_checked, *sorted(sampled)]:
        try:
            entries = _scan(os.path.join(repository, folder))
        except OSError:
            return folder
        if folder_state(entries) != state[folder]:
            return folder
    return ""


def read_chunks(path: str, size: int) -> Iterator[bytes]:
    """Yield the first `size` bytes of a file in pieces. A shorter file ends earlier."""
    with open(path, "rb", buffering=0) as file:
        while size > 0 and (chunk := file.read(min(size, CHUNK))):
            yield chunk
            size -= len(chunk)


class StoredFile(NamedTuple):
    """A file of a repository. `name` is its path there, and `step` its number in the order of writing."""

    step: int
    name: str
    size: int
    mode: int

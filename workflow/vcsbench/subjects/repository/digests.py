"""Digests of whole repositories, which do not depend on the order in which files are read."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from vcsbench import progress
from vcsbench.subjects.repository import state

CHUNK = 1 << 20
_BITS = 1 << 128


class Total:
    """The sum of the digests of files: each over the file's name and bytes."""

    def __init__(self) -> None:
        self._sum = 0

    def added(self, name: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The bytes of a file as they are; it is added when all were taken."""
        file = hashlib.blake2b(os.fsencode(name) + b"\0", digest_size=16)
        for chunk in chunks:
            file.update(chunk)
            yield chunk
        self._sum = (self._sum + int.from_bytes(file.digest(), "big")) % _BITS

    def hexdigest(self) -> str:
        """The digest of all files that were added."""
        return f"{self._sum:032x}"


class Content(NamedTuple):
    """What reading all of a repository found: its digest, and its state (state.take) then."""

    digest: str
    state: dict[str, str]


def chunks(path: str, size: int) -> Iterator[bytes]:
    """The bytes of a file of this size."""
    file = os.open(path, os.O_RDONLY)
    try:
        # Most files are small: one call reads all, and there is nothing behind it.
        while size > 0 and (chunk := os.read(file, min(size, CHUNK))):
            yield chunk
            size -= len(chunk)
    finally:
        os.close(file)


def read(repository: Path) -> Content:
    """Read all files of a repository."""
    total, seen = Total(), {}
    for folder, entries in state.walk(repository):
        seen[folder] = state.of_folder(entries)
        for name, status in entries:
            if not stat.S_ISDIR(status.st_mode):
                relative = state.below(folder, name)
                file = chunks(f"{repository}/{relative}", status.st_size)
                for _ in total.added(relative, file):
                    pass
    return Content(total.hexdigest(), seen)


def read_all(repositories: Sequence[Path]) -> list[Content]:
    """Content several repositories, on all cores."""
    cores = min(len(os.sched_getaffinity(0)), len(repositories))
    with progress.stage("checking copies", len(repositories), "copies") as at:
        if cores < 2:
            return list(_counted(at, map(read, repositories)))
        with multiprocessing.get_context("fork").Pool(cores) as pool:
            found = list(_counted(at, pool.imap(read, repositories)))
            # Told to end instead, one that has hardly begun may drop what our handler raises, and stay.
            pool.close()
            pool.join()
    return found


def _counted(at: progress.Stage, contents: Iterable[Content]) -> Iterator[Content]:
    for content in contents:
        at.done += 1
        yield content

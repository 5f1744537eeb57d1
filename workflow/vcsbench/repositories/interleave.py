"""Copies repositories onto a storage as if they had grown there side by side, revision by revision."""

from __future__ import annotations

import heapq
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vcsbench.repositories import fsfs

CHUNK = 1 << 20


@dataclass(frozen=True)
class Copying:
    """One copy to be made: from where, to where, and the files as fsfs.files lists them."""

    source: Path
    destination: Path
    files: Sequence[tuple[int, str, int]]


def interleave(copyings: Sequence[Copying], spacers: Path, spacer_kib: float, seed: int) -> None:
    """Make all copies at once: revision by revision, a packed shard at a time, all side by side.

    With `spacer_kib`, a file of random size (0 to twice the mean) goes between any two of these
    steps into the folder `spacers`, as the published study did it; the caller removes that folder.
    """
    sizes = random.Random(seed)
    for copying in copyings:
        _make_folders(copying)
    step = None
    steps = heapq.merge(*map(_steps, copyings, range(len(copyings))))
    for number, (revision, index, relative) in enumerate(steps):
        if spacer_kib and step not in (None, (revision, index)):
            _space(spacers / str(number), round(sizes.uniform(0, 2 * spacer_kib * 1024)))
        step = revision, index
        copy_file(copyings[index].source / relative, copyings[index].destination / relative)


def _steps(copying: Copying, index: int) -> Iterator[tuple[int, int, str]]:
    return ((revision, index, relative) for revision, relative, _ in copying.files)


def _make_folders(copying: Copying) -> None:
    # All folders, empty ones too: Subversion wants its db/transactions.
    for folder, names, _ in os.walk(copying.source):
        target = copying.destination / os.path.relpath(folder, copying.source)
        target.mkdir(parents=True, exist_ok=True)
        names.sort()


def copy_file(source: str | Path, destination: str | Path) -> None:
    """Copy the bytes of a file; most are small, so this is as few system calls as it takes."""
    reading = os.open(source, os.O_RDONLY)
    try:
        writing = os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            while chunk := os.read(reading, CHUNK):
                while len(chunk) > (written := os.write(writing, chunk)):
                    chunk = chunk[written:]
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _space(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for start in range(0, size, CHUNK):
            file.write(os.urandom(min(CHUNK, size - start)))


def make_copies(copyings: Sequence[Copying], spacers: Path, spacer_kib: float, seed: int) -> None:
    """Interleave, then compare each copy's digest with its source's; raises OSError where they differ."""
    interleave(copyings, spacers, spacer_kib, seed)
    os.sync()
    expected: dict[Path, str] = {}
    for copying in copyings:
        if copying.source not in expected:
            expected[copying.source] = fsfs.digest(copying.source, copying.files)
        if fsfs.digest(copying.destination, copying.files) != expected[copying.source]:
            raise OSError(f"{copying.destination} is not the same as {copying.source}")

"""Copies repositories onto a storage as if they had grown there side by side, revision by revision."""

from __future__ import annotations

import heapq
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from vcsbench import progress
from vcsbench.subjects.repository import digests, state
from vcsbench.subjects.repository.digests import CHUNK, Content, Total, chunks
from vcsbench.subjects.repository.fsfs import File

# ext4 puts a file of 16 blocks or more near its folder, and the folders of copies far from each other.
# So large files are made in one folder for all copies, and moved: their bytes stay where they are.
# (A server moves each revision into place from a folder of transactions, too.)
LARGE_BYTES = 48 << 10
# Copies are read by another user, the servers'. The folder of all copies keeps others out.
UMASK, READABLE = 0o022, 0o044


class Copying(NamedTuple):
    """One copy to be made: from where, to where, and the files as fsfs.files lists them."""

    source: Path
    destination: Path
    files: Sequence[File]


def make_copies(
    copyings: Sequence[Copying], work: Path, fragmentation_kib: float, seed: int
) -> list[Content]:
    """Interleave, then compare each copy's digest with its source's; OSError where they differ.

    `work` is a folder on the storage for what is not to stay: the caller removes it. Returns what was
    read of each copy.
    """
    umask = os.umask(UMASK)
    try:
        expected = interleave(copyings, work, fragmentation_kib, seed)
    finally:
        os.umask(umask)
    with progress.stage("writing the copies to the device"):
        os.sync()
    read = digests.read_all([copying.destination for copying in copyings])
    for copying, found in zip(copyings, read, strict=True):
        if found.digest != expected[copying.source]:
            raise OSError(f"{copying.destination} is not the same as {copying.source}")
    return read


def interleave(
    copyings: Sequence[Copying], work: Path, fragmentation_kib: float, seed: int
) -> dict[Path, str]:
    """Make all copies at once: revision by revision, a packed shard at a time, all side by side.

    With `fragmentation_kib`, a file of random size (0 to twice the mean) goes between any two of these
    steps into the folder `work`, as the published study did it. Returns the digest of each source.
    """
    sizes = random.Random(seed)
    for copying in copyings:
        # All folders, empty ones too: Subversion wants its db/transactions.
        for folder, _ in state.walk(copying.source):
            (copying.destination / folder).mkdir(parents=True, exist_ok=True)
    sources = {copying.source: _Source(copying.source) for copying in copyings}
    step = None
    steps = heapq.merge(*map(_steps, copyings, range(len(copyings))))
    with progress.stage("copying", sum(len(c.files) for c in copyings), "files") as at:
        for number, (revision, index, file) in enumerate(steps):
            if fragmentation_kib and step not in (None, (revision, index)):
                _space(
                    work / f"spacer{number}", round(sizes.uniform(0, 2 * fragmentation_kib * 1024))
                )
            at.done = number
            step = revision, index
            copying = copyings[index]
            sources[copying.source].copy(file, f"{copying.destination}/{file.name}", work)
    return {path: source.total.hexdigest() for path, source in sources.items()}


def _steps(copying: Copying, index: int) -> Iterator[tuple[int, int, File]]:
    return ((file.revision, index, file) for file in copying.files)


class _Source:
    """A repository that is copied several times: each of its files is digested once, and small ones are
    read once, since all copies of a revision are made one after another."""

    def __init__(self, path: Path) -> None:
        self.total = Total()
        self._path = path
        self._revision = -1
        # By name the files of the revision that were digested, each with its bytes if it is small.
        self._kept: dict[str, bytes] = {}

    def copy(self, file: File, destination: str, work: Path) -> None:
        """Copy one of its files; the destination must not exist."""
        if file.revision != self._revision:
            self._revision = file.revision
            self._kept.clear()
        read = chunks(f"{self._path}/{file.name}", file.size)
        if file.name not in self._kept:
            read = self.total.added(file.name, read)
            self._kept[file.name] = b"".join(read) if file.size < LARGE_BYTES else b""
        if file.size < LARGE_BYTES:
            _write(destination, [self._kept[file.name]], file.mode | READABLE)
        else:
            _write(f"{work}/large", read, file.mode | READABLE)
            os.rename(f"{work}/large", destination)


def _write(path: str, chunks: Iterable[bytes], mode: int) -> None:
    # Most files are small, so this is as few system calls as it takes.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        for chunk in chunks:
            while len(chunk) > (written := os.write(file, chunk)):
                chunk = chunk[written:]
    finally:
        os.close(file)


def _space(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for start in range(0, size, CHUNK):
            file.write(os.urandom(min(CHUNK, size - start)))

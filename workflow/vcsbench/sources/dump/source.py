"""A dump file as a source."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from vcsbench import progress
from vcsbench.sources.base import Estimate, Facts, Options, Source, digest_of_file
from vcsbench.sources.dump.compressed import DAMAGED, compression, opened
from vcsbench.sources.dump.records import FORMAT
from vcsbench.sources.dump.walk import Walk
from vcsbench.sources.process import CHUNK

# Rough ratios for the estimate: compressed text, and full texts against a repository's deltas.
COMPRESSED_FACTOR = 6
REPOSITORY_FACTOR = 1 / 4
REVISION_BYTES = 100_000
# Where no revision number can be read off the end of the file, it is taken to fill a shard.
SHARD = 1000
TAIL_BYTES = 64 << 20
BLOCK_BYTES = 1 << 20
HEAD_BYTES = 4 << 20
_REVISION = re.compile(rb"^Revision-number: ([0-9]+)\n", re.MULTILINE)


def is_dump(path: Path) -> bool:
    """Whether the file's content begins as a dump stream does."""
    try:
        with opened(path) as file:
            return file.read(len(FORMAT)) == FORMAT
    except (OSError, *DAMAGED):
        return False


class DumpSource(Source):
    """A dump file, plain or compressed, of format 2 or 3, with deltas or without."""

    kind = "dump"

    def __init__(self, name: str, definition: Mapping[str, Any], where: str) -> None:
        self._options = Options(name, definition, where)
        self._options.allow("path", "tree")
        self._path = self._options.path("path")
        self._tree = self._options.tree()
        self._walked: Walk | None = None

    def identity(self) -> str:
        """From the file's path, size and time."""
        self._options.check_file("path", self._path)
        return digest_of_file(self.kind, self._path)

    def check(self) -> None:
        """The file begins as a dump stream does. Its whole content is checked by write()."""
        self._options.check_file("path", self._path)
        if not is_dump(self._path):
            raise self._options.error(
                "path", f"{self._path} is not a Subversion dump file (plain, .gz, .xz or .zst)"
            )

    def describe(self) -> str:
        """One line for reports."""
        return f"Subversion dump file {self._path}"

    @cached_property
    def _estimate(self) -> Estimate:
        """From the file's size, and the last revision number in a plain one."""
        size = self._path.stat().st_size
        last = 0
        if compression(self._path):
            size *= COMPRESSED_FACTOR
        else:
            last = last_revision(self._path)
        return Estimate(last or max(SHARD, size // REVISION_BYTES), int(size * REPOSITORY_FACTOR))

    def write(self, out: BinaryIO) -> Facts:
        """The file's content; UserError, saying where, when it is truncated or corrupt.

        It is read twice: nothing is written before all of it was found to be whole. That costs
        little beside loading it.
        """
        # How long a compressed one is, nobody knows yet.
        size = 0 if compression(self._path) else self._path.stat().st_size
        with opened(self._path) as file:
            walk = Walk(str(self._path), file)
            with progress.stage("checking", unit="bytes", look=lambda: (walk.offset, size)):
                self._walk(walk)
        self._walked = walk
        with opened(self._path) as file:
            shutil.copyfileobj(file, out, CHUNK)
        out.flush()
        return Facts(revisions=walk.revisions)

    @staticmethod
    def _walk(walk: Walk) -> None:
        try:
            walk.run()
        except (OSError, *DAMAGED) as error:
            raise walk.wrong(f"it cannot be read on: {error}") from error

    def coming(self) -> int:
        """Known for sure when the file was checked."""
        return self._walked.revisions if self._walked else 0

    def place(self, revision: int) -> str:
        """The revision's own number and the byte at which it begins; svnadmin load numbers anew."""
        if not self._walked or not 0 < revision <= self._walked.revisions:
            return ""
        number, offset = (a[revision - 1] for a in (self._walked.numbers, self._walked.offsets))
        return f"revision {number} of {self._path}, at byte {offset:,} of the stream"

    def tree(self) -> str:
        """The definition's `tree`, or trunk where the stream soon makes one, or else the root."""
        if self._tree is None:
            with opened(self._path) as file:
                makes_trunk = b"\nNode-path: trunk\n" in file.read(HEAD_BYTES)
            self._tree = "trunk" if makes_trunk else ""
        return self._tree


def last_revision(path: Path) -> int:
    """The last revision number in a plain dump file; 0 when it is not near its end."""
    size = path.stat().st_size
    with path.open("rb") as file:
        for end in range(size, max(0, size - TAIL_BYTES), -BLOCK_BYTES):
            start = file.seek(max(0, end - BLOCK_BYTES))
            if found := _REVISION.findall(file.read(end - start + 100)):
                return int(found[-1])
    return 0

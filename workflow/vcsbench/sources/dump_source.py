"""A dump file as a source."""

import os
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.sources.base import (
    TRUNK,
    Facts,
    SizeEstimate,
    describe_unreachable,
    digest_values,
    readable,
)
from vcsbench.sources.compressed import (
    COMPRESSED,
    DAMAGED,
    Compression,
    detect_compression,
    open_decompressed,
)
from vcsbench.sources.dump_headers import FORMAT
from vcsbench.sources.dump_reader import DumpReader, Part
from vcsbench.sources.svn_tree import SourceWithTree
from vcsbench.storages.file_trees import OddPaths

# For an estimate: a dump per byte of its compressed file, and a repository per byte of its dump.
COMPRESSED_FACTOR = 6
REPOSITORY_FACTOR = 1 / 4
SAMPLE_BYTES = 64 << 20
# Enough records for an exact count of most dumps, within two seconds.
SAMPLE_RECORDS = 50_000
_UNPACK = "Unpack it, and give what is in it."
_GIVE_MIRROR = "is a git bundle. Clone it with `git clone --mirror`, and give the clone."
# What people give in place of a dump, by its first bytes.
OTHER_FORMS = {
    b"BZh": "is compressed with bzip2. Decompress it with bunzip2.",
    b"PK\x03\x04": f"is a .zip archive. {_UNPACK}",
    b"7z\xbc\xaf\x27\x1c": f"is a .7z archive. {_UNPACK}",
    b"# v2 git bundle": _GIVE_MIRROR,
    b"# v3 git bundle": _GIVE_MIRROR,
    b"\xff\xfe": "is UTF-16. Make the dump again without a redirection of PowerShell.",
    b"\xef\xbb\xbf": "begins with a byte order mark. Remove its first three bytes.",
    b"\n": "begins with a blank line. Remove it.",
}
_TAR_AT, _TAR = 257, b"ustar"


def is_dump(path: Path) -> bool:
    try:
        return _read_beginning(path, len(FORMAT)) == FORMAT
    except (UserError, *DAMAGED):
        return False


def why_no_dump(path: Path) -> str | None:
    """Return what a file is instead of a dump, with a remedy: `is a .zip archive. Unpack it, ...`.

    It is the end of a sentence that begins with the path. Return None if the file's first bytes are unknown.
    """
    try:
        beginning = _read_beginning(path, 1024)
    except UserError as error:
        return str(error).removeprefix(f"{path}: ")
    except DAMAGED as error:
        return f"cannot be decompressed: {error}. Get the file again."
    if not beginning:
        return "is empty. Make it again."
    for start, clause in OTHER_FORMS.items():
        if beginning.startswith(start):
            return clause
    if any(beginning.startswith(compression.value) for compression in COMPRESSED):
        return "is compressed twice. Decompress it once."
    if beginning[_TAR_AT:].startswith(_TAR):
        return f"is a .tar archive. {_UNPACK}"
    return None


def _read_beginning(path: Path, length: int) -> bytes:
    with open_decompressed(path) as file:
        return file.read(length)


class DumpSource(SourceWithTree):
    """A dump file, plain or compressed, of format 1 to 3, with or without deltas."""

    kind = "dump"
    # Of the last write().
    _reader: DumpReader | None = None

    def identity(self) -> str:
        """Return a digest of the file's path, size and time, and of the tree."""
        self._check_file()
        state = self._path.stat()
        path = self._path.resolve()
        values: list[object] = [self.kind, path, state.st_size, state.st_mtime_ns]
        if self._tree is not None:
            values.append(self._tree)
        return digest_values(*values)

    def _check_file(self) -> None:
        """Raise UserError if the file cannot be opened."""
        if not self._path.is_file():
            what = "is no file" if self._path.exists() else "does not exist"
            raise self._path_error(f"{what}. Check the path.")
        try:
            self._path.open("rb").close()
        except OSError as error:
            raise self._options.error(
                "path", describe_unreachable(os.fspath(self._path), error)
            ) from error

    def check(self) -> None:
        self._check_file()
        if not is_dump(self._path):
            other = "is not a Subversion dump file. Give one, plain or as .gz, .xz or .zst."
            raise self._path_error(why_no_dump(self._path) or other)

    def describe(self) -> str:
        return f"Subversion dump file {printable(os.fspath(self._path))}"

    @cached_property
    def _is_compressed(self) -> bool:
        return detect_compression(self._path) != Compression.NONE

    @cached_property
    def _sample(self) -> DumpReader:
        """The reader after the first records of the file: of a plain file up to SAMPLE_RECORDS.

        Of a compressed file, it has read at most SAMPLE_BYTES as well. Raise UserError for damage in them.
        """
        name = str(self._path)
        tree = self._tree or TRUNK
        with readable(self._path), open_decompressed(self._path) as file:
            if self._is_compressed:
                # To skip a text in a compressed file, its bytes must be decompressed, which takes time. So
                # the number of bytes is limited, too.
                reader = DumpReader(name, file, tree=tree, skips_texts=True)
                reader.run(Part(SAMPLE_RECORDS, SAMPLE_BYTES))
            else:
                size = self._path.stat().st_size
                reader = DumpReader(name, file, tree=tree, skips_texts=True, size=size)
                reader.run(Part(SAMPLE_RECORDS))
        return reader

    @cached_property
    def _estimate(self) -> SizeEstimate:
        """The estimated size, from the first records of the file.

        If these are all records, the number of revisions is exact. Otherwise it is the number in the first
        records, times the bytes of the file per byte of the records. Of a compressed file, the bytes are a
        guess.
        """
        sample = self._sample
        size = self._path.stat().st_size
        if self._is_compressed:
            size = sample.offset if sample.is_whole else COMPRESSED_FACTOR * size
        revisions = sample.revisions
        if not sample.is_whole and sample.offset:
            # The other records are as long as the records of the sample.
            revisions = revisions * max(size, sample.offset) // sample.offset
        return SizeEstimate(max(1, revisions), int(size * REPOSITORY_FACTOR))

    def odd_paths(self, behind: int = 0) -> OddPaths:
        """Return the numbers of odd paths in the tree that export exports, if they are known.

        They are known if the first records are all of the file, and only for its youngest revision: `behind`
        is 0 then. Otherwise, both numbers are 0.
        """
        paths = self._sample.paths
        if behind or not self._sample.is_whole:
            return OddPaths()
        if self._tree is not None:
            return paths.count_odd_paths(self._tree)
        # Without a `tree` in the definition, tree() will choose trunk if there is one, otherwise the root.
        # None means that trunk is a copy of a path that may be a file, so the choice is not known yet.
        if paths.has_tree is None:
            return OddPaths()
        tree = TRUNK if paths.has_tree else ""
        return paths.count_odd_paths(tree)

    def write(self, out: BinaryIO) -> Facts:
        """Write the file's content. Raise UserError with the place where it cannot be read on."""
        self._check_file()
        with open_decompressed(self._path) as file:
            reader = DumpReader(str(self._path), file, out=out, tree=self._tree or TRUNK)
            # Before it runs: describe_place() needs it after a failure.
            self._reader = reader
            reader.run()
        out.flush()
        return reader.facts()

    def describe_place(self, revision: int) -> str:
        """Return the number and the byte of a revision in the file: svnadmin load renumbers."""
        reader = self._reader
        if not reader or not 0 < revision <= reader.revisions:
            return ""
        number, offset = reader.numbers[revision - 1], reader.offsets[revision - 1]
        return f"revision {number} of {self._path}, at byte {offset:,} of the stream"

    def tree(self, loaded: Path) -> str:
        return self._find_tree(loaded)

"""A dump file as a source."""

from __future__ import annotations

import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.external import parse_number, printable
from vcsbench.sources.base import (
    Definition,
    Facts,
    Options,
    SizeEstimate,
    Source,
    digest_of,
    digest_of_file,
)
from vcsbench.sources.dump_format import CONTENT, FORMAT, NUMBERS, PROPERTIES, REVISION, TEXT
from vcsbench.sources.dump_reader import DumpReader
from vcsbench.sources.streams import CHUNK, DAMAGED, compression, opened
from vcsbench.sources.svn_source import default_tree, has_folder

# Rough ratios for the estimate: compressed text, and full texts relative to a repository's deltas.
COMPRESSED_FACTOR = 6
REPOSITORY_FACTOR = 1 / 4
# The part of a compressed file that the estimate reads.
SAMPLE_BYTES = 64 << 20
# Enough records for an exact count of most dumps, within a second.
SAMPLE_RECORDS = 50_000
LONGEST_LINE = 1 << 16
# The first bytes of files that hold a dump stream in another form, with the remedy.
OTHER_FORMS = {
    b"BZh": ("is compressed with bzip2", "decompress it with bunzip2"),
    b"\x1f\x9d": ("is compressed with compress (.Z)", "decompress it with gzip -d"),
    b"\x04\x22\x4d\x18": ("is compressed with lz4", "decompress it with unlz4"),
    b"LZIP": ("is compressed with lzip", "decompress it with lzip -d"),
    b"\x5d\x00\x00": ("is compressed with lzma", "decompress it with unlzma"),
    b"PK\x03\x04": ("is a .zip archive", "unpack it, and give the dump file in it"),
    b"7z\xbc\xaf\x27\x1c": ("is a .7z archive", "unpack it, and give the dump file in it"),
    b"Rar!": ("is a .rar archive", "unpack it, and give the dump file in it"),
    b"\xff\xfe": ("is UTF-16", "make the dump again without a redirection of PowerShell"),
    b"\xfe\xff": ("is UTF-16", "make the dump again without a redirection of PowerShell"),
    b"\xef\xbb\xbf": ("begins with a byte order mark", "remove its first three bytes"),
    b"\n": ("begins with a blank line", "remove it"),
    b"\r\n": ("begins with a blank line", "remove it"),
}
_TAR_AT, _TAR = 257, b"ustar"


def is_dump(path: Path) -> bool:
    """Return True if a file's content begins as a dump stream."""
    try:
        return _begin(path, len(FORMAT)) == FORMAT
    except (OSError, UserError, *DAMAGED):
        return False


def why_no_dump(path: Path) -> str:
    """Return why a file is no dump that can be read, as a clause with a remedy; "" if that is not known."""
    try:
        begin = _begin(path, 1024)
    except UserError as error:
        return str(error).removeprefix(f"{path}: ")
    except (OSError, *DAMAGED) as error:
        return f"cannot be decompressed: {error}"
    for magic, (what, remedy) in OTHER_FORMS.items():
        if begin.startswith(magic):
            return f"{what}: {remedy}"
    if begin[_TAR_AT:].startswith(_TAR):
        return "is a .tar archive: unpack it, and give the dump file in it"
    return "" if begin else "is empty"


def _begin(path: Path, length: int) -> bytes:
    with opened(path) as file:
        return file.read(length)


class DumpSample(NamedTuple):
    """The beginning of a stream: its revisions without revision 0, its bytes, and whether it is all of it."""

    revisions: int
    bytes: int
    is_all: bool


def read_sample(stream: BinaryIO, can_seek: bool, size: int) -> DumpSample:
    """Count revisions in at most `size` bytes. Contents are skipped by their stated lengths."""
    revisions = at = 0
    for _ in range(SAMPLE_RECORDS):
        headers, length = _headers(stream)
        at += length
        if not headers:
            return DumpSample(revisions, at, length == 0)
        number = {
            key: parse_number(headers.get(key, b""), limit) or 0 for key, limit in NUMBERS.items()
        }
        revisions += bool(number[REVISION])
        content = max(number[CONTENT], number[PROPERTIES] + number[TEXT])
        if at + content > size or not _skip(stream, content, can_seek):
            break
        at += content
    return DumpSample(revisions, at, False)


def _headers(stream: BinaryIO) -> tuple[dict[bytes, bytes], int]:
    """Return the next headers, {} at the end or without headers, and the number of bytes read."""
    headers: dict[bytes, bytes] = {}
    length = 0
    while line := stream.readline(LONGEST_LINE):
        length += len(line)
        if line == b"\n" and headers:
            break
        if headers or line[:1] not in b"\n \t\r":
            key, colon, value = line.rstrip(b"\n").partition(b":")
            if not colon or length > CHUNK:
                return {}, length
            headers[key] = value
    return headers, length if headers else 0


def _skip(stream: BinaryIO, length: int, can_seek: bool) -> bool:
    if can_seek:
        stream.seek(length, 1)
        return True
    while length > 0:
        read = len(stream.read(min(length, CHUNK)))
        if not read:
            return False
        length -= read
    return True


class DumpSource(Source):
    """A dump file, plain or compressed, of format 1 to 3, with or without deltas."""

    kind = "dump"

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        self._options = Options(name, definition, where)
        self._options.allow("path", "tree")
        self._path = self._options.path("path")
        self._tree = self._options.tree()
        self._checked: DumpReader | None = None

    def identity(self) -> str:
        """Return a digest of the file's path, size and time, and of `tree`."""
        self._options.check_file("path", self._path)
        identity = digest_of_file(self.kind, self._path)
        return digest_of(identity, self._tree) if self._tree is not None else identity

    def check(self) -> None:
        """Check that the file begins as a dump stream. write() checks all of it."""
        self._options.check_file("path", self._path)
        if not is_dump(self._path):
            other = "is not a Subversion dump file (plain, .gz, .xz or .zst)"
            raise self._options.error("path", f"{self._path} {why_no_dump(self._path) or other}")

    def describe(self) -> str:
        """Return one line for reports."""
        return f"Subversion dump file {printable(os.fspath(self._path))}"

    @cached_property
    def _estimate(self) -> SizeEstimate:
        """Estimate from the beginning of the file, which is all of a small file."""
        size, can_seek = self._path.stat().st_size, not compression(self._path)
        if not can_seek:
            size *= COMPRESSED_FACTOR
        try:
            with opened(self._path) as file:
                sample = read_sample(file, can_seek, size if can_seek else SAMPLE_BYTES)
        except (OSError, UserError, *DAMAGED):  # write() reports it
            return SizeEstimate(1, int(size * REPOSITORY_FACTOR))
        revisions = sample.revisions
        if sample.is_all:
            size = size if can_seek else sample.bytes
        elif sample.bytes:
            revisions = revisions * max(size, sample.bytes) // sample.bytes
        return SizeEstimate(max(1, revisions), int(size * REPOSITORY_FACTOR))

    def write(self, out: BinaryIO) -> Facts:
        """Write the file's content. Raise UserError with the place where it is truncated or corrupt.

        The file is read twice: all of it is checked before anything is written. That is fast compared to
        loading it.
        """
        # The size of a compressed file is not known.
        size = 0 if compression(self._path) else self._path.stat().st_size
        with opened(self._path) as file:
            reader = DumpReader(str(self._path), file, tree=self._tree or "trunk")
            with progress.stage("checking", unit="bytes", look=lambda: (reader.offset, size)):
                _run(reader)
        self._checked = reader
        if self._tree and reader.folder.exists is False:
            raise self._options.no_tree(self._path, self._tree)
        with opened(self._path) as file:
            if reader.bogus_dates:
                _run(DumpReader(str(self._path), file, out=out, checks_texts=False))
            else:
                shutil.copyfileobj(file, out, CHUNK)
        out.flush()
        return reader.facts()

    def coming(self) -> int:
        """Return the number of revisions after the file was checked, otherwise 0."""
        return self._checked.revisions if self._checked else 0

    def place(self, revision: int) -> str:
        """Return the number and the byte of a revision in the file: svnadmin load renumbers."""
        reader = self._checked
        if not reader or not 0 < revision <= reader.revisions:
            return ""
        number, offset = reader.numbers[revision - 1], reader.offsets[revision - 1]
        return f"revision {number} of {self._path}, at byte {offset:,} of the stream"

    def tree(self, loaded: Path | None = None) -> str:
        """Return the definition's `tree`, or trunk if the youngest revision has one, or the root."""
        if self._tree is not None:
            if loaded and self._tree and not has_folder(loaded, self._tree):
                raise self._options.no_tree(self._path, self._tree)
            return self._tree
        if loaded:
            return default_tree(loaded)
        return "trunk" if self._checked and self._checked.folder.exists else ""


def _run(reader: DumpReader) -> None:
    try:
        reader.run()
    except (OSError, *DAMAGED) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise reader.wrong(f"it cannot be read on: {error}") from error

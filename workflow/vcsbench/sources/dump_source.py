"""A dump file as a source."""

import os
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.sources.base import (
    DAMAGED,
    MAGICS,
    TRUNK,
    Facts,
    SizeEstimate,
    compression,
    digest_of,
    digest_of_file,
    opened,
    readable,
)
from vcsbench.sources.dump_format import FORMAT, is_impossible, is_reserved
from vcsbench.sources.dump_reader import DumpReader
from vcsbench.sources.svn_source import SourceWithTree
from vcsbench.storages.file_trees import OddPaths

COMPRESSED_FACTOR = 6
REPOSITORY_FACTOR = 1 / 4
SAMPLE_BYTES = 64 << 20
# Enough records for an exact count of most dumps, within two seconds.
SAMPLE_RECORDS = 50_000
UNPACK = "Unpack it, and give what is in it."
_GIT_BUNDLE = ("is a git bundle", "Clone it with `git clone --mirror`, and give the clone.")
_NO_POWERSHELL = "Make the dump again without a redirection of PowerShell."
OTHER_FORMS = {
    b"BZh": ("is compressed with bzip2", "Decompress it with bunzip2."),
    b"\x1f\x9d": ("is compressed with compress (.Z)", "Decompress it with gzip -d."),
    b"\x04\x22\x4d\x18": ("is compressed with lz4", "Decompress it with unlz4."),
    b"LZIP": ("is compressed with lzip", "Decompress it with lzip -d."),
    b"\x5d\x00\x00": ("is compressed with lzma", "Decompress it with unlzma."),
    b"PK\x03\x04": ("is a .zip archive", UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("is a .7z archive", UNPACK),
    b"Rar!": ("is a .rar archive", UNPACK),
    **dict.fromkeys(MAGICS, ("is compressed twice", "Decompress it once.")),
    **dict.fromkeys((b"# v2 git bundle", b"# v3 git bundle"), _GIT_BUNDLE),
    b"\xff\xfe": ("is UTF-16", _NO_POWERSHELL),
    b"\xfe\xff": ("is UTF-16", _NO_POWERSHELL),
    b"\xef\xbb\xbf": ("begins with a byte order mark", "Remove its first three bytes."),
    b"\n": ("begins with a blank line", "Remove it."),
    b"\r\n": ("begins with a blank line", "Remove it."),
}
_TAR_AT, _TAR = 257, b"ustar"


def is_dump(path: Path) -> bool:
    try:
        return _begin(path, len(FORMAT)) == FORMAT
    except (UserError, *DAMAGED):
        return False


def why_no_dump(path: Path) -> str:
    """Return why a file is no dump that can be read, as a clause with a remedy; "" if that is unknown."""
    try:
        begin = _begin(path, 1024)
    except UserError as error:
        return str(error).removeprefix(f"{path}: ")
    except DAMAGED as error:
        return f"cannot be decompressed: {error}. Get the file again."
    for magic, (what, remedy) in OTHER_FORMS.items():
        if begin.startswith(magic):
            return f"{what}. {remedy}"
    if begin[_TAR_AT:].startswith(_TAR):
        return f"is a .tar archive. {UNPACK}"
    return "" if begin else "is empty. Make it again."


def _begin(path: Path, length: int) -> bytes:
    with opened(path) as file:
        return file.read(length)


class DumpSource(SourceWithTree):
    """A dump file, plain or compressed, of format 1 to 3, with or without deltas."""

    kind = "dump"
    _reader: DumpReader | None = None

    def identity(self) -> str:
        self._check_file()
        identity = digest_of_file(self.kind, self._path)
        return digest_of(identity, self._tree) if self._tree is not None else identity

    def check(self) -> None:
        self._check_file()
        if not is_dump(self._path):
            other = "is not a Subversion dump file. Give one, plain or as .gz, .xz or .zst."
            raise self._wrong(why_no_dump(self._path) or other)

    def describe(self) -> str:
        return f"Subversion dump file {printable(os.fspath(self._path))}"

    def _size(self) -> int:
        return 0 if compression(self._path) else self._path.stat().st_size

    @cached_property
    def _sample(self) -> DumpReader:
        """The reader of the first records, without their texts. Raise UserError for damage in them."""
        with readable(self._path), opened(self._path) as file:
            reader = DumpReader(str(self._path), file, tree=self._tree or TRUNK, skips_texts=True)
            size = self._size()
            reader.run(SAMPLE_RECORDS, size or SAMPLE_BYTES, is_part=not size)
        return reader

    @cached_property
    def _estimate(self) -> SizeEstimate:
        exact, sample = self._size(), self._sample
        size = exact or COMPRESSED_FACTOR * self._path.stat().st_size
        revisions = sample.revisions
        if sample.is_whole:
            size = exact or sample.offset
        elif sample.offset:
            revisions = revisions * max(size, sample.offset) // sample.offset
        return SizeEstimate(max(1, revisions), int(size * REPOSITORY_FACTOR))

    def odd_paths(self, behind: int = 0) -> OddPaths:
        """Return the numbers of odd paths if the first records are all of the file, otherwise 0."""
        sample, tree = self._sample, self._tree
        if behind or not sample.is_whole or (tree is None and sample.has_tree is None):
            return OddPaths()
        if tree is None:
            tree = TRUNK if sample.has_tree else ""
        above = f"{tree}/".lstrip("/").encode(errors="surrogateescape")
        below = [path.removeprefix(above) for path in sample.odd_paths if path.startswith(above)]
        reserved = sum(is_reserved(path) and not is_impossible(path) for path in below)
        return OddPaths(len(below) - reserved, reserved)

    def write(self, out: BinaryIO) -> Facts:
        """Write the file's content. Raise UserError with the place where it cannot be read on."""
        self._check_file()
        with opened(self._path) as file:
            self._reader = DumpReader(str(self._path), file, out=out, tree=self._tree or TRUNK)
            self._reader.run()
        out.flush()
        return self._reader.facts()

    def place(self, revision: int) -> str:
        """Return the number and the byte of a revision in the file: svnadmin load renumbers."""
        reader = self._reader
        if not reader or not 0 < revision <= reader.revisions:
            return ""
        number, offset = reader.numbers[revision - 1], reader.offsets[revision - 1]
        return f"revision {number} of {self._path}, at byte {offset:,} of the stream"

    def tree(self, loaded: Path) -> str:
        return self._tree_in(loaded)

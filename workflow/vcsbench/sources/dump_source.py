"""A dump file as a source."""

import contextlib
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
    DAMAGED,
    Compression,
    detect_compression,
    open_decompressed,
)
from vcsbench.sources.dump_reader import FORMAT, DumpReader
from vcsbench.sources.svn_tree import SourceWithTree
from vcsbench.storages.file_trees import OddPaths

# For an estimate: bytes of a dump per byte of its file compressed by zstd. For other compressed files, the
# first records show how well they are compressed.
COMPRESSED_FACTOR = 6
# Fewer bytes of first records do not show it, because Python reads up to 128 KiB of the file ahead.
LEAST_SAMPLE_BYTES = 1 << 20
# Bytes of a repository per byte of a dump of source code, which is the least for any dump. Archives and
# images become no smaller in a repository, and deltas only a little smaller. A sample of texts shows that.
REPOSITORY_FACTOR = 1 / 4
# Enough records for an exact count of most dumps, within two seconds. To skip a text in a compressed file,
# its bytes must be decompressed, which takes time, so their number is limited, too.
SAMPLE_RECORDS = 50_000
SAMPLE_BYTES = 64 << 20
_UNPACK = "Unpack it, and give what is in it."
_GIVE_MIRROR = "is a git bundle. Clone it with `git clone --mirror`, and give the clone."
# The first bytes of files that people give in place of a dump, and the end of the error's sentence.
OTHER_FORMS = {
    b"BZh": "is compressed with bzip2. Decompress it with bunzip2.",
    b"PK\x03\x04": f"is a .zip archive. {_UNPACK}",
    b"7z\xbc\xaf\x27\x1c": f"is a .7z archive. {_UNPACK}",
    b"# v2 git bundle": _GIVE_MIRROR,
    b"# v3 git bundle": _GIVE_MIRROR,
    b"\xff\xfe": "is UTF-16. Make the dump again without a redirection of PowerShell.",
    b"\xef\xbb\xbf": "begins with a byte order mark. Remove its first three bytes.",
    b"\n": "begins with a blank line. Remove it.",
    **{form.value: "is compressed twice. Decompress it once." for form in Compression},
}
# The place of this word in the first block of a .tar archive.
_TAR_AT, _TAR = 257, b"ustar"


def is_dump(path: Path) -> bool:
    try:
        return _read_beginning(path, len(FORMAT)) == FORMAT
    except (UserError, *DAMAGED):
        return False


def why_no_dump(path: Path) -> str | None:
    """Return what a file is instead of a dump, with a remedy; None for a file of an unknown form.

    The result continues a sentence that begins with the path: `is a .zip archive. Unpack it, ...`.
    """
    try:
        # In a .tar archive, the word `ustar` is in the first 1,024 bytes.
        beginning = _read_beginning(path, 1024)
    except UserError as error:
        # The caller's sentence begins with the path already.
        return str(error).removeprefix(f"{path}: ")
    except DAMAGED as error:
        # An error of the system has a number. For damage in gzip, Python raises an OSError without a number.
        if isinstance(error, OSError) and error.errno is not None:
            return f"cannot be read: {error.strerror}. Check its permissions and its disk."
        return f"cannot be decompressed: {error}. Get the file again."
    if not beginning:
        return "is empty. Make it again."
    for start, clause in OTHER_FORMS.items():
        if beginning.startswith(start):
            return clause
    if beginning[_TAR_AT:].startswith(_TAR):
        return f"is a .tar archive. {_UNPACK}"
    return None


def _read_beginning(path: Path, length: int) -> bytes:
    with open_decompressed(path) as file:
        return file.read(length)


class DumpSource(SourceWithTree):
    """A dump file, plain or compressed, of format 1 to 3, with or without deltas."""

    kind = "dump"
    # The reader of the last write().
    _reader: DumpReader | None = None
    # The bytes of the compressed file that _sample has read; 0 if they are unknown.
    _compressed_bytes = 0

    def identity(self) -> str:
        """Return a digest of the file's path, size and time, and of the tree."""
        self._check_file()
        state = self._path.stat()
        tree = [] if self._tree is None else [self._tree]
        return digest_values(
            self.kind, self._path.resolve(), state.st_size, state.st_mtime_ns, *tree
        )

    def _check_file(self) -> None:
        """Raise UserError if the file cannot be opened."""
        self._check_exists()
        if not self._path.is_file():
            raise self._path_error("is no file. Check the path.")
        try:
            self._path.open("rb").close()
        except OSError as error:
            reason = describe_unreachable(os.fspath(self._path), error)
            raise self._options.error("path", reason) from error

    def check(self) -> None:
        self._check_file()
        if not is_dump(self._path):
            unknown = "is not a Subversion dump file. Give one, plain or as .gz, .xz or .zst."
            raise self._path_error(why_no_dump(self._path) or unknown)

    def describe(self) -> str:
        return f"Subversion dump file {printable(os.fspath(self._path))}"

    @cached_property
    def _is_compressed(self) -> bool:
        return detect_compression(self._path) is not None

    @cached_property
    def _sample(self) -> DumpReader:
        """A reader that has read the first records of the file. Raise UserError for damage in them."""
        with readable(self._path), open_decompressed(self._path) as file:
            # The size of a compressed stream is unknown.
            size = None if self._is_compressed else self._path.stat().st_size
            tree = self._tree or TRUNK
            reader = DumpReader(str(self._path), file, tree=tree, skips_texts=True, size=size)
            reader.run(SAMPLE_RECORDS, SAMPLE_BYTES if self._is_compressed else None)
            if self._is_compressed:
                # The position in the compressed file. It is a little too large, because Python reads up to
                # 128 KiB ahead. The pipe of the program zstd has no position: lseek() raises an OSError.
                with contextlib.suppress(OSError):
                    self._compressed_bytes = os.lseek(file.fileno(), 0, os.SEEK_CUR)
        return reader

    @cached_property
    def _estimate(self) -> SizeEstimate:
        """The estimated size, from a sample: the first records of the file.

        The other revisions are taken to be as long as those in the sample. Example: a sample of 64 MiB has
        100 revisions, and the stream has 640 MiB. So the stream has about 1,000 revisions.
        """
        sample = self._sample
        stream_bytes = self._estimate_stream_bytes()
        revisions = sample.revisions
        if not sample.is_whole and sample.offset:
            # The estimate of a compressed stream may be less than the bytes that were read.
            revisions = revisions * max(stream_bytes, sample.offset) // sample.offset
        # Bytes of the repository per byte of the stream, such as 0.25 for source code.
        share = sample.texts.estimate_share(REPOSITORY_FACTOR)
        return SizeEstimate(max(1, revisions), int(stream_bytes * share))

    def _estimate_stream_bytes(self) -> int:
        """Return about how many bytes the file has after decompression, if it is compressed.

        All of it is taken to be as well compressed as the sample. Example: the sample of 64 MiB takes 8 MiB
        of a compressed file of 80 MiB. So the stream has 640 MiB.
        """
        sample = self._sample
        file_bytes = self._path.stat().st_size
        if not self._is_compressed:
            return file_bytes
        if sample.is_whole:
            return sample.offset
        # For a file compressed by zstd, the bytes that the sample takes are unknown (0).
        shows_factor = self._compressed_bytes > 0 and sample.offset >= LEAST_SAMPLE_BYTES
        if not shows_factor:
            return COMPRESSED_FACTOR * file_bytes
        # Python reads ahead, so `_compressed_bytes` is a little too large. For archives, which are hardly
        # compressed, the quotient can then be less than 1.
        factor = max(1.0, sample.offset / self._compressed_bytes)
        return int(factor * file_bytes)

    def odd_paths(self, behind: int = 0) -> OddPaths:
        """Return the numbers of odd paths in the youngest tree; 0 unless the sample has all records."""
        sample = self._sample
        if behind or not sample.is_whole:
            return OddPaths()
        paths = sample.paths
        if self._tree is not None:
            return paths.count_odd_paths(self._tree)
        # Without a `tree` in the definition, tree() will choose trunk if there is such a folder, or the root.
        # So _sample has looked for trunk.
        has_trunk = paths.has_tree
        # If trunk is a copy, its record may not state that it is a folder. The choice is unknown then.
        if has_trunk is None:
            return OddPaths()
        return paths.count_odd_paths(TRUNK if has_trunk else "")

    def why_no_update(self, behind: int) -> str:
        # Without all records, the number of revisions is a guess.
        return super().why_no_update(behind) if self._sample.is_whole else ""

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
        """Return the number and the byte that a loaded revision has in the file, which write() has read."""
        # svnadmin load gives new numbers.
        reader = self._reader
        if reader is None or not 0 < revision <= reader.revisions:
            return ""
        number, offset = reader.numbers[revision - 1], reader.offsets[revision - 1]
        return f"revision {number} of {self._path}, at byte {offset:,} of the stream"

    def tree(self, loaded: Path) -> str:
        return self._find_tree(loaded)

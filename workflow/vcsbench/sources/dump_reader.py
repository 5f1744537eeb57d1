"""Read a dump stream for the plan and the reports, and pass it on to svnadmin load.

svnadmin load checks a stream itself, and its reason is printed. The reader finds the revisions, the paths
and the dates that vcsbench needs, and refuses sizes and gaps that would fill the memory of svnadmin.
"""

import os
import re
import sys
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

from vcsbench import words
from vcsbench.errors import UserError
from vcsbench.external import CHUNK
from vcsbench.processes import Program
from vcsbench.sources import dump_format
from vcsbench.sources.base import DAMAGED, Facts
from vcsbench.sources.dump_format import (
    ACTION,
    CONTENT,
    COPY_PATH,
    DATE,
    FORMAT,
    KIND,
    NODE,
    PROPERTIES,
    REVISION,
    TEXT,
    quoted,
)
from vcsbench.storages.file_trees import IMPOSSIBLE_PATHS, PATH_BYTES, RESERVED_PATHS

KNOWN_FORMATS = (1, 2, 3)
# Limits where svnadmin has none, for a header, the headers of a record, and the name of a property.
LONGEST_LINE = 1 << 20
LONGEST_HEADERS = 4 << 20
LONGEST_LENGTH = 32
# svnadmin load holds each property in memory.
LONGEST_VALUE = 256 << 20
# svnadmin load needs about 75 bytes for each skipped revision number.
LARGEST_GAP = 4_000_000
MOST_ODD_PATHS = 1000
BYPASS = "--bypass-prop-validation"
NOTES = {
    "dates": "Subversion cannot read the svn:date of {revisions}, first {first}. The copies have no date "
    "there.",
    "lengths": "{number} blocks of properties do not have the length that their header states.",
    "numbers": "Revision numbers that are not larger than the one before: {number}, first {first}. The "
    "copies have other numbers.",
    "names": f"Paths {IMPOSSIBLE_PATHS}: {{number}}, first {{first}}. A tree with them is not exported, "
    "checked out or updated.",
    "reserved": f"Paths {RESERVED_PATHS}: {{number}}, first {{first}}. A tree with them is not checked out "
    "or updated.",
}
_NAME = re.compile(rb"([KD]) \s*\+?([0-9]{1,18})\n")
_VALUE = re.compile(rb"V \s*\+?([0-9]{1,18})\n")
_TRUNCATED = "it ends in the middle of a record"
_WRONG_LENGTH = "a record's properties are not as long as they say"


class _PartReadError(Exception):
    """The part of a stream to read ends."""


class DumpReader:
    """Reads a stream once.

    - `numbers`, `offsets`: the number of each revision from 1, and the byte at which its record begins.
    - `is_at_end`: True after the last byte. `is_whole`: True after the last record.
    - `has_tree`: True if the history ends with a folder at `tree`, None if that depends on the content of a
      copied folder.
    - `odd_paths`: the first IMPOSSIBLE_PATHS and RESERVED_PATHS at its end, but none in copied folders.
    """

    def __init__(
        self,
        name: str,
        stream: BinaryIO,
        *,
        out: BinaryIO | None = None,
        tree: str = "trunk",
        skips_texts: bool = False,
        remedy: str = "Make the dump again.",
    ) -> None:
        """`name` is the source in errors. All that is read goes to `out`."""
        self._name = name
        self._stream = stream
        self._out = out
        self._tree = tree.encode(errors="surrogateescape")
        self._skips_texts = skips_texts
        self._remedy = remedy
        self.numbers, self.offsets = array("Q"), array("Q")
        self.offset = 0
        self.is_at_end = False
        self.is_whole = False
        self.odd_paths: set[bytes] = set()
        self.has_tree: bool | None = not self._tree
        self._size, self._is_part = sys.maxsize, False
        self._record_at = 0
        self._format = 0
        self._revision: int | None = None
        self._newest = 0
        self._gaps = 0
        self._has_restarted = False
        self.oddities: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self._bogus_dates: list[int] = []

    @property
    def revisions(self) -> int:
        return len(self.numbers)

    def run(
        self, records: int = sys.maxsize, size: int = sys.maxsize, is_part: bool = False
    ) -> None:
        """Read at most so many records. Raise UserError with the place of the first fault.

        `size` is the size of the stream, or with `is_part`, the number of bytes to read.
        """
        self._size, self._is_part = size, is_part
        try:
            line = self._line()
            key, colon, value = line.partition(b":")
            if not colon or key != FORMAT or not line.endswith(b"\n"):
                raise self.wrong("it does not begin with its format's version")
            self._set_format(value)
            for _ in range(records):
                headers = self._headers()
                if not headers:
                    self.is_whole = True
                    break
                self._record(headers)
        except _PartReadError:
            return
        except BrokenPipeError:
            raise
        except DAMAGED as error:
            raise self.wrong(f"it cannot be read on: {error}") from error
        if self.is_whole and not self.numbers:
            raise self.wrong("it has no revision 1")

    def run_on(self, program: Program) -> None:
        """Read the output of a program. If it failed, raise its error, which explains a cut stream."""
        try:
            self.run()
        except UserError:
            if self.is_at_end and program.process.wait() != 0:
                raise program.failed() from None
            raise
        program.finish()

    def facts(self) -> Facts:
        # Without the option, svnadmin load refuses properties of many old histories.
        return Facts(self.revisions, self.notes(NOTES), [BYPASS], self._bogus_dates)

    def notes(self, kinds: Iterable[str]) -> list[str]:
        notes = []
        for kind in kinds:
            number = self.oddities[kind]
            if number:
                revisions = words.count_of(number, "revision")
                first = self._first.get(kind)
                notes.append(NOTES[kind].format(number=number, revisions=revisions, first=first))
        return notes

    def wrong(self, what: str, remedy: str = "") -> UserError:
        place = f"byte {self.offset:,} of the stream"
        if self._revision is not None:
            place = f"revision {self._revision}, {place}"
        return UserError(f"{self._name}: {what} (at {place}). {remedy or self._remedy}")

    def _line(self, limit: int = LONGEST_LINE) -> bytes:
        line = self._stream.readline(limit)
        self.is_at_end = len(line) < limit and not line.endswith(b"\n")
        return self._keep(line)

    def _content(self, length: int) -> Iterator[bytes]:
        while length > 0:
            chunk = self._stream.read(min(length, CHUNK))
            if not chunk:
                self.is_at_end = True
                raise self.wrong(_TRUNCATED)
            length -= len(chunk)
            yield self._keep(chunk)

    def _keep(self, data: bytes) -> bytes:
        self.offset += len(data)
        if self._out is not None:
            self._out.write(data)
        return data

    def _set_format(self, value: bytes) -> None:
        version = dump_format.header_number(FORMAT, value)
        if version not in KNOWN_FORMATS:
            shown = value.strip()[:60].decode("latin-1")
            raise self.wrong(f"it has the unknown format version {shown}")
        self._format = version

    def _headers(self) -> dict[bytes, bytes]:
        """Return the next record's headers, or {} at the end of the stream."""
        headers: dict[bytes, bytes] = {}
        start = self.offset
        while True:
            line = self._line()
            if not line:
                break
            if self.offset - start > LONGEST_HEADERS:
                raise self.wrong(
                    f"a record has more than {LONGEST_HEADERS:,} bytes of headers and blank lines"
                )
            if not headers and line[:1].isspace():  # svnadmin ignores these
                self._skip_line(line)
                continue
            if not line.endswith(b"\n"):
                long = f"a header has more than {LONGEST_LINE:,} bytes"
                raise self.wrong(long if len(line) == LONGEST_LINE else f"{_TRUNCATED}'s header")
            if line == b"\n":
                return headers
            key, colon, rest = line[:-1].partition(b":")
            if not colon:
                raise self.wrong(f"{quoted(line)} is no header of a record")
            if not headers:
                self._record_at = self.offset - len(line)
            # svnadmin skips one character behind the colon, whatever that is.
            headers[key] = rest[1:]
        if any(key in headers for key in (PROPERTIES, TEXT, CONTENT)):
            raise self.wrong(f"{_TRUNCATED}'s header")
        return headers

    def _number(self, headers: Mapping[bytes, bytes], key: bytes) -> int:
        """Return the number of a header, 0 without it."""
        number = dump_format.header_number(key, headers.get(key, b"0"))
        if number is None:
            raise self.wrong(f"{key.decode()} is {quoted(headers[key])}")
        return number

    def _skip_line(self, line: bytes) -> None:
        """Skip a blank line or a comment, as old tools write them between records."""
        while not line.endswith(b"\n"):
            line = self._line()
            if not line:
                raise self.wrong("it ends in the middle of a line")

    def _record(self, headers: dict[bytes, bytes]) -> None:
        if REVISION in headers:
            self._begin_revision(self._number(headers, REVISION))
        elif NODE in headers:
            self._follow(headers)
        elif FORMAT in headers:
            self._set_format(headers[FORMAT])
            self._has_restarted = True
        properties, text = self._number(headers, PROPERTIES), self._number(headers, TEXT)
        whole = self._number(headers, CONTENT) or properties + text
        if properties + text > whole:
            raise self.wrong("the parts of a record are longer than the record")
        if whole and self._format == 1 and not headers.keys() & {PROPERTIES, TEXT}:
            # In format 1, the properties may have no length of their own.
            properties = self._properties(headers)
        elif properties and self._properties(headers, properties) != properties:
            self.oddities["lengths"] += 1
        rest = max(0, whole - properties)
        if self._skips_texts:
            self._check_size(rest)
            if self._stream.seekable():
                self.offset += rest
                if self._stream.seek(rest, os.SEEK_CUR) < self.offset:
                    raise self.wrong(_TRUNCATED)
                return
        for _ in self._content(rest):
            pass

    def _begin_revision(self, number: int) -> None:
        if self._revision is not None:
            if number <= self._revision and not self._has_restarted:
                self._count("numbers", f"revision {number} after revision {self._revision}")
            self._newest = max(self._newest, self._revision)
            self._gaps += max(0, number - self._revision - 1)
            if self._gaps > LARGEST_GAP:
                raise self.wrong(
                    f"revision {number} comes after revision {self._revision}, and more than "
                    f"{LARGEST_GAP:,} missing numbers take too much memory of svnadmin load",
                    "Renumber the revisions with svndumpfilter --drop-empty-revs --renumber-revs.",
                )
        self._has_restarted = False
        self._revision = number
        if number > 0:
            self.numbers.append(number)
            self.offsets.append(self._record_at)

    def _follow(self, headers: Mapping[bytes, bytes]) -> None:
        """Follow the folder that is exported, and the odd paths, through a node."""
        parts = (part for part in headers[NODE].split(b"/") if part not in (b"", b"."))
        path = b"/".join(parts)
        action = headers.get(ACTION, b"change")
        below = path + b"/"
        if not path or action == b"change":
            return
        if action != b"add":
            odd_paths = self.odd_paths
            self.odd_paths = {odd for odd in odd_paths if not (odd + b"/").startswith(below)}
        if action != b"delete":
            is_impossible = dump_format.is_impossible(path.removeprefix(self._tree + b"/"))
            if is_impossible or dump_format.is_reserved(path):
                kind = "names" if is_impossible else "reserved"
                self._count(kind, f"{quoted(path)} in revision {self._revision}")
                if len(self.odd_paths) < MOST_ODD_PATHS:
                    self.odd_paths.add(path[: 2 * PATH_BYTES])
        if path == self._tree:
            kind_of_node = headers.get(KIND)
            is_folder = kind_of_node == b"dir" if kind_of_node else None
            self.has_tree = action != b"delete" and is_folder
        elif self._tree.startswith(below):
            self.has_tree = None if action != b"delete" and COPY_PATH in headers else False

    def _count(self, what: str, first: str) -> None:
        self.oddities[what] += 1
        self._first.setdefault(what, first)

    def _properties(self, headers: Mapping[bytes, bytes], length: int = -1) -> int:
        """Read a block of properties up to its end, as svnadmin does, and return its length."""
        begin = self.offset
        while self.offset - begin != length:
            line = self._property_line()
            if line == dump_format.END:
                break
            match = _NAME.fullmatch(line)
            if not match:
                raise self.wrong(_WRONG_LENGTH)
            name = self._value(match[2], LONGEST_LINE, "the name of a property")
            if match[1] == b"D":  # a deleted property has no value
                continue
            match = _VALUE.fullmatch(self._property_line())
            if not match:
                raise self.wrong(_WRONG_LENGTH)
            is_date = name == DATE and REVISION in headers
            value = self._value(match[1], LONGEST_VALUE, f"the property {quoted(name)}", is_date)
            if is_date and not dump_format.is_date(value):
                self._count("dates", f"revision {self._revision}: {quoted(value)}")
                # svnadmin load gives revisions other numbers, and keeps revision 0 of the first dump only.
                self._bogus_dates.append(self.revisions if self._revision else 0)
        return self.offset - begin

    def _property_line(self) -> bytes:
        line = self._line(LONGEST_LENGTH)
        if not line.endswith(b"\n"):
            raise self.wrong(_WRONG_LENGTH if len(line) == LONGEST_LENGTH else _TRUNCATED)
        return line

    def _value(self, digits: bytes, limit: int, what: str, is_needed: bool = True) -> bytes:
        """Return a name or a value; only the end of one that is not needed."""
        length = int(digits)
        if length > limit:
            raise self.wrong(f"{what} has {length:,} bytes, and {limit:,} are the limit")
        self._check_size(length)
        chunks = self._content(length + 1)
        value = b"".join(chunks if is_needed else deque(chunks, 1))
        if not value.endswith(b"\n"):
            raise self.wrong(_WRONG_LENGTH)
        return value[:-1]

    def _check_size(self, length: int) -> None:
        if self.offset + length > self._size:
            raise _PartReadError if self._is_part else self.wrong(_TRUNCATED)

"""Walking through a dump stream, checking what it says of itself."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from typing import BinaryIO

from vcsbench.errors import UserError
from vcsbench.sources.dump import records
from vcsbench.sources.dump.records import FORMAT, NODE, REVISION, shown

KNOWN_FORMATS = (1, 2, 3)
CHECKSUMS = ("md5", "sha1")
CHUNK = 1 << 18
# Longer than any header that svnadmin writes: paths are the longest part.
LONGEST_LINE = 1 << 16


class Walk:
    """One pass over a stream. `revisions` counts the revisions but revision 0; `numbers` and `offsets`
    have the number of each of them and the byte at which its record begins."""

    def __init__(self, name: str, stream: BinaryIO) -> None:
        """`name` is what errors call the stream."""
        self._name = name
        self._stream = stream
        self._offset = 0
        self._record_at = 0
        self._format = 0
        self._revision: int | None = None
        self.numbers = array("Q")
        self.offsets = array("Q")

    @property
    def offset(self) -> int:
        """The byte that the walk has come to."""
        return self._offset

    @property
    def revisions(self) -> int:
        """How many revisions but revision 0 the walk has come past."""
        return len(self.numbers)

    def run(self) -> None:
        """Walk to the end of the stream; UserError, saying where, at the first thing wrong."""
        first = self._headers()
        if first is None or FORMAT not in first:
            raise self.wrong("it does not begin with its format's version")
        self._format = self._number(first, FORMAT)
        if self._format not in KNOWN_FORMATS:
            raise self.wrong(f"it has the unknown format version {first[FORMAT].decode()}")
        while (headers := self._headers()) is not None:
            self._record(headers)
        if self._revision is None:
            raise self.wrong("it has no revision")

    def wrong(self, what: str) -> UserError:
        """The error that says what is wrong, and where the walk is."""
        place = f"byte {self._offset:,} of the stream"
        if self._revision is not None:
            place = f"revision {self._revision}, {place}"
        return UserError(f"{self._name}: {what} (at {place}); make the dump again")

    def _headers(self) -> dict[bytes, bytes] | None:
        """The next header lines, or None at the end of the stream."""
        headers: dict[bytes, bytes] = {}
        while True:
            line = self._stream.readline(LONGEST_LINE)
            if not line and not headers:
                return None
            if not line.endswith(b"\n"):
                raise self.wrong("it ends in the middle of a record's header")
            self._offset += len(line)
            if line != b"\n":
                key, colon, value = line[:-1].partition(b": ")
                if not colon:
                    raise self.wrong(f"{shown(line)} is no header of a record")
                if what := records.why_wrong(key, value):
                    raise self.wrong(what)
                if not headers:
                    self._record_at = self._offset - len(line)
                headers[key] = value
            elif headers:
                return headers

    @staticmethod
    def _number(headers: dict[bytes, bytes], key: bytes) -> int:
        return int(headers.get(key, b"0"))

    def _record(self, headers: dict[bytes, bytes]) -> None:
        if not any(key in headers for key in records.RECORDS):
            raise self.wrong(f"a record begins with {shown(next(iter(headers)))}")
        if REVISION in headers:
            self._begin(self._number(headers, REVISION))
        elif NODE in headers:
            self._node(headers)
        properties = self._number(headers, b"Prop-content-length")
        text = self._number(headers, b"Text-content-length")
        # Without it, svnadmin goes by the lengths of the parts.
        whole = self._number(headers, b"Content-length") or properties + text
        if properties + text > whole:
            raise self.wrong("the parts of a record are longer than the record")
        if properties + text < whole and self._format > 1:
            raise self.wrong("a record is longer than its parts")
        if properties:
            self._properties(b"".join(self._content(properties)), REVISION in headers)
        if text:
            self._text(text, headers)
        for _ in self._content(whole - properties - text):
            pass  # a text of format 1

    def _begin(self, number: int) -> None:
        """Begin revision `number`."""
        if self._revision is not None and number <= self._revision:
            raise self.wrong(f"revision {number} comes after revision {self._revision}")
        self._revision = number
        if number > 0:
            self.numbers.append(number)
            self.offsets.append(self._record_at)

    def _node(self, headers: dict[bytes, bytes]) -> None:
        if self._revision is None:
            raise self.wrong("a node comes before the first revision")
        if (b"Node-copyfrom-rev" in headers) != (b"Node-copyfrom-path" in headers):
            raise self.wrong(f"{shown(headers[NODE])} is copied from half a place")
        if self._number(headers, b"Node-copyfrom-rev") >= max(1, self._revision):
            raise self.wrong(f"{shown(headers[NODE])} is copied from a revision that is not older")

    def _properties(self, block: bytes, of_revision: bool) -> None:
        properties = records.read_properties(block)
        if properties is None:
            raise self.wrong("a record's properties are not as long as they say")
        date = properties.get(b"svn:date") if of_revision else None
        if date is not None and not records.is_date(date):
            raise self.wrong(f"svn:date is {shown(date)}, which is no date")

    def _text(self, length: int, headers: dict[bytes, bytes]) -> None:
        # The checksums of a delta are those of the text that it makes: svnadmin load checks them.
        delta = headers.get(b"Text-delta") == b"true"
        names = [n for n in CHECKSUMS if not delta and f"Text-content-{n}".encode() in headers]
        digests = [hashlib.new(name, usedforsecurity=False) for name in names]
        for number, chunk in enumerate(self._content(length)):
            if delta and number == 0 and not chunk.startswith(b"SVN"):
                raise self.wrong("a delta does not begin as one")
            for digest in digests:
                digest.update(chunk)
        for name, digest in zip(names, digests, strict=True):
            stated = headers[f"Text-content-{name}".encode()]
            if stated.decode("ascii").lower() != digest.hexdigest():
                path = headers.get(NODE, b"")
                raise self.wrong(f"the text of {shown(path)} does not have its checksum ({name})")

    def _content(self, length: int) -> Iterator[bytes]:
        """The next bytes in chunks."""
        while length > 0:
            chunk = self._stream.read(min(length, CHUNK))
            if not chunk:
                raise self.wrong("it ends in the middle of a record")
            self._offset += len(chunk)
            length -= len(chunk)
            yield chunk

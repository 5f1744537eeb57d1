"""Walking through a dump stream, checking what it says of itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO

from vcsbench.errors import UserError
from vcsbench.sources.dump.properties import is_property_block

FORMAT = b"SVN-fs-dump-format-version"
KNOWN_FORMATS = (1, 2, 3)
# A record has one of these.
RECORDS = (FORMAT, b"UUID", b"Revision-number", b"Node-path")
CHUNK = 1 << 18
# Longer than any header that svnadmin writes: paths are the longest part.
LONGEST_LINE = 1 << 16


class Walk:
    """One pass over a stream. `revisions` counts the revisions but revision 0."""

    def __init__(self, name: str, stream: BinaryIO) -> None:
        """`name` is what errors call the stream."""
        self._name = name
        self._stream = stream
        self._offset = 0
        self._revision: int | None = None
        self.revisions = 0

    def run(self) -> None:
        """Walk to the end of the stream; UserError, saying where, at the first thing wrong."""
        first = self._headers()
        if first is None or FORMAT not in first:
            raise self.wrong("it does not begin with its format's version")
        if self._number(first, FORMAT) not in KNOWN_FORMATS:
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
                    raise self.wrong(f"{_shown(line)} is no header of a record")
                headers[key] = value
            elif headers:
                return headers

    def _number(self, headers: dict[bytes, bytes], key: bytes) -> int:
        value = headers.get(key, b"0")
        if not value.isdigit():
            raise self.wrong(f"{key.decode()} is {_shown(value)}, which is no number")
        return int(value)

    def _record(self, headers: dict[bytes, bytes]) -> None:
        if not any(key in headers for key in RECORDS):
            raise self.wrong(f"a record begins with {_shown(next(iter(headers)))}")
        if b"Revision-number" in headers:
            number = self._number(headers, b"Revision-number")
            if self._revision is not None and number <= self._revision:
                raise self.wrong(f"revision {number} comes after revision {self._revision}")
            self._revision = number
            self.revisions += number > 0
        elif b"Node-path" in headers and self._revision is None:
            raise self.wrong("a node comes before the first revision")
        properties = self._number(headers, b"Prop-content-length")
        text = self._number(headers, b"Text-content-length")
        # Without it, svnadmin goes by the lengths of the parts.
        whole = self._number(headers, b"Content-length") or properties + text
        if properties + text > whole:
            raise self.wrong("the parts of a record are longer than the record")
        if properties and not is_property_block(b"".join(self._content(properties))):
            raise self.wrong("a record's properties are not as long as they say")
        if text:
            self._text(text, headers)
        for _ in self._content(whole - properties - text):
            pass  # what svnadmin passes over; in format 1, all

    def _text(self, length: int, headers: dict[bytes, bytes]) -> None:
        # The checksums of a delta are those of the text that it makes: svnadmin load checks them.
        delta = headers.get(b"Text-delta") == b"true"
        stated = b"" if delta else headers.get(b"Text-content-md5", b"")
        digest = hashlib.md5(usedforsecurity=False)
        first = True
        for chunk in self._content(length):
            if first and delta and not chunk.startswith(b"SVN"):
                raise self.wrong("a delta does not begin as one")
            first = False
            if stated:
                digest.update(chunk)
        if stated and digest.hexdigest().encode("ascii") != stated:
            path = headers.get(b"Node-path", b"")
            raise self.wrong(f"the text of {_shown(path)} does not have its checksum")

    def _content(self, length: int) -> Iterator[bytes]:
        """The next bytes in chunks."""
        while length > 0:
            chunk = self._stream.read(min(length, CHUNK))
            if not chunk:
                raise self.wrong("it ends in the middle of a record")
            self._offset += len(chunk)
            length -= len(chunk)
            yield chunk


def _shown(text: bytes) -> str:
    return repr(text[:60].decode("utf-8", "replace").rstrip("\n"))

"""Read a dump stream, check it, and pass it on to svnadmin load."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from vcsbench.errors import UserError
from vcsbench.external import parse_number
from vcsbench.sources import dump_format
from vcsbench.sources.base import Facts
from vcsbench.sources.dump_format import (
    ACTION,
    CONTENT,
    COPY_PATH,
    COPY_REVISION,
    FORMAT,
    KIND,
    NODE,
    PROPERTIES,
    REVISION,
    TEXT,
    quoted,
)

KNOWN_FORMATS = (1, 2, 3)
CHECKSUMS = ("md5", "sha1")
CHUNK = 1 << 18
# Longer than any header that svnadmin writes: paths are the longest part.
LONGEST_LINE = 1 << 16
LONGEST_HEADERS = 1 << 20
# svnadmin load holds each property in memory.
LONGEST_VALUE = 256 << 20
# Properties of Subversion and of revisions are checked, in memory.
LONGEST_HELD = 64 << 20
# svnadmin load needs about 75 bytes for each skipped revision number.
LARGEST_GAP = 4_000_000
BYPASS = "--bypass-prop-validation"
# svnadmin ignores lines between records that begin with one of these.
_BLANK = b" \t\r"
_NAME = re.compile(rb"([KD]) ([0-9]{1,18})\n")
_VALUE = re.compile(rb"V ([0-9]{1,18})\n")


class FolderTracker:
    """Follows one folder through the records.

    `exists` is True if the history ends with a folder at the path, False if not, and None if that depends on
    the content of a copied folder. Then the loaded repository decides.
    """

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.exists: bool | None = not path

    def add(self, headers: Mapping[bytes, bytes]) -> None:
        """Take the next node into account."""
        path = b"/".join(filter(None, headers[NODE].split(b"/")))
        action = headers.get(ACTION)
        if not path or action == b"change":
            return
        if path == self.path:
            kind = headers.get(KIND)
            self.exists = action != b"delete" and (kind == b"dir" if kind else None)
        elif self.path.startswith(path + b"/"):
            is_copy = action != b"delete" and COPY_PATH in headers
            self.exists = None if is_copy else False


class DumpReader:
    """Reads and checks a stream once.

    `numbers` and `offsets` have the number of each revision, without revision 0, and the byte at which its
    record begins. `offset` is the byte that was reached. `is_at_end` is True after the last byte.
    """

    def __init__(
        self,
        name: str,
        stream: BinaryIO,
        *,
        out: BinaryIO | None = None,
        tree: str = "trunk",
        checks_texts: bool = True,
        remedy: str = "make the dump again",
    ) -> None:
        """`name` is the source in errors. Records go to `out`, without dates that Subversion cannot read."""
        self._name = name
        self._stream = stream
        self._out = out
        self._remedy = remedy
        self._checks_texts = checks_texts
        self.folder = FolderTracker(tree.encode(errors="surrogateescape"))
        self.offset = 0
        self._record_at = 0
        self._format = 0
        self._revision: int | None = None
        self._gaps = 0
        self._has_restarted = False
        self._raw: list[bytes] = []
        self.numbers = array("Q")
        self.offsets = array("Q")
        self.is_at_end = False
        self._bypassed: Counter[str] = Counter()
        self._first_bypassed = ""
        self.bogus_dates = 0
        self.wrong_lengths = 0
        self._first_bogus = ""

    @property
    def revisions(self) -> int:
        """Return the number of revisions so far, without revision 0."""
        return len(self.numbers)

    def run(self) -> None:
        """Read to the end of the stream. Raise UserError with the place of the first fault."""
        self._format = self._begin_stream()
        while (headers := self._headers()) is not None:
            self._record(headers)
        if not self.numbers:
            raise self.wrong("it has no revision 1")

    def facts(self) -> Facts:
        """Return the number of revisions, notes, and the options that svnadmin load needs."""
        notes = []
        if count := sum(self._bypassed.values()):
            of = " and ".join(f"{n} of {what}" for what, n in sorted(self._bypassed.items()))
            notes.append(
                f"svnadmin load needs {BYPASS} for {count} properties ({of}), first for "
                f"{self._first_bypassed}."
            )
        if self.bogus_dates:
            notes.append(
                f"{self.bogus_dates} revisions have a svn:date that Subversion cannot read, first "
                f"{self._first_bogus}. The copies have no date there."
            )
        options = [BYPASS] if notes else []
        if self.wrong_lengths:
            notes.append(
                f"{self.wrong_lengths} blocks of properties do not have the length that their header states."
            )
        return Facts(self.revisions, notes, options)

    def wrong(self, what: str) -> UserError:
        """Return the error for a fault at the current place."""
        place = f"byte {self.offset:,} of the stream"
        if self._revision is not None:
            place = f"revision {self._revision}, {place}"
        return UserError(f"{self._name}: {what} (at {place}); {self._remedy}")

    # Bytes

    def _line(self, limit: int = LONGEST_LINE) -> bytes:
        line = self._stream.readline(limit)
        self.is_at_end = len(line) < limit and not line.endswith(b"\n")
        self.offset += len(line)
        return self._keep(line)

    def _keep(self, data: bytes) -> bytes:
        if self._out is not None:
            self._raw.append(data)
        return data

    def _pass_on(self, record: bytes | None = None) -> None:
        """Write the bytes that were read since the last call, or `record` in their place."""
        if self._out is not None:
            self._out.write(b"".join(self._raw) if record is None else record)
            self._raw.clear()

    def _content(self, length: int) -> Iterator[bytes]:
        """Yield the next bytes in chunks."""
        while length > 0:
            chunk = self._stream.read(min(length, CHUNK))
            if not chunk:
                self.is_at_end = True
                raise self.wrong("it ends in the middle of a record")
            self.offset += len(chunk)
            length -= len(chunk)
            yield self._keep(chunk)

    # Headers

    def _begin_stream(self) -> int:
        line = self._line()
        self._pass_on()
        key, colon, value = line.removesuffix(b"\n").partition(b":")
        if not colon or key != FORMAT or not line.endswith(b"\n"):
            raise self.wrong("it does not begin with its format's version")
        return self._known_format(value)

    def _known_format(self, value: bytes) -> int:
        version = parse_number(value, dump_format.NUMBERS[FORMAT])
        if version not in KNOWN_FORMATS:
            raise self.wrong(
                f"it has the unknown format version {value.strip()[:60].decode('latin-1')}"
            )
        return version

    def _headers(self) -> dict[bytes, bytes] | None:
        """Return the next record's headers, or None at the end of the stream."""
        headers: dict[bytes, bytes] = {}
        size = 0
        while True:
            line = self._line()
            if not line:
                if headers and not _is_whole(headers):
                    raise self.wrong("it ends in the middle of a record's header")
                return headers or None
            if not headers and (line == b"\n" or line[:1] in _BLANK):
                self._skip_line(line)
                continue
            if not line.endswith(b"\n"):
                what = "it ends in the middle of a record's header"
                raise self.wrong("a header is too long" if len(line) == LONGEST_LINE else what)
            if line == b"\n":
                return headers
            key, colon, value = line[:-1].partition(b": ")
            if not colon:
                raise self.wrong(f"{quoted(line)} is no header of a record")
            if what := dump_format.header_fault(key, value):
                raise self.wrong(what)
            if key in headers:
                raise self.wrong(f"a record has the header {quoted(key)} twice")
            if not headers:
                self._record_at = self.offset - len(line)
            size += len(line)
            if size > LONGEST_HEADERS:
                raise self.wrong(f"a record has more than {LONGEST_HEADERS} bytes of headers")
            headers[key] = value

    def _skip_line(self, line: bytes) -> None:
        """Skip a blank line or a comment, as old tools write them between records."""
        if line.strip().partition(b": ")[0] in dump_format.KNOWN:
            raise self.wrong(f"the header {quoted(line)} begins with a space")
        while line and not line.endswith(b"\n"):
            self._pass_on()
            line = self._line()
            if not line:
                raise self.wrong("it ends in the middle of a line")
        self._pass_on()

    @staticmethod
    def _number(headers: dict[bytes, bytes], key: bytes) -> int:
        return parse_number(headers.get(key, b"0"), dump_format.NUMBERS[key]) or 0

    # Records

    def _record(self, headers: dict[bytes, bytes]) -> None:
        if not any(key in headers for key in dump_format.RECORDS):
            raise self.wrong(f"a record begins with {quoted(next(iter(headers)))}")
        if REVISION in headers:
            if NODE in headers:
                raise self.wrong("a record is both a revision and a node")
            self._begin(self._number(headers, REVISION))
        elif NODE in headers:
            self._node(headers)
        elif FORMAT in headers:
            self._format = self._known_format(headers[FORMAT])
            self._has_restarted = True
        properties, text = self._number(headers, PROPERTIES), self._number(headers, TEXT)
        # Without it, svnadmin reads as many bytes as the parts have.
        whole = self._number(headers, CONTENT) or properties + text
        is_old = self._format == 1 and not {PROPERTIES, TEXT} & set(headers)
        if properties + text > whole:
            raise self.wrong("the parts of a record are longer than the record")
        if is_old and whole:
            properties = self._properties(headers, whole, is_old)
        elif properties:
            self._properties(headers, properties)
        self._pass_on()
        if text:
            self._text(text, headers)
        for chunk in self._content(whole - properties - text):
            self._pass_on()  # a text of format 1
            if self._format > 1 and chunk.strip():
                raise self.wrong("a record is longer than its parts")

    def _begin(self, number: int) -> None:
        """Begin a revision."""
        if self._revision is not None:
            if number <= self._revision and not self._has_restarted:
                raise self.wrong(f"revision {number} comes after revision {self._revision}")
            self._gaps += max(0, number - self._revision - 1)
            if self._gaps > LARGEST_GAP:
                raise self.wrong(
                    f"revision {number} comes after revision {self._revision}, and svnadmin load "
                    f"takes memory for each number between; at most {LARGEST_GAP:,} may be left out; "
                    f"renumber the revisions (svndumpfilter --drop-empty-revs --renumber-revs)"
                )
        self._has_restarted = False
        self._revision = number
        if number > 0:
            self.numbers.append(number)
            self.offsets.append(self._record_at)

    def _node(self, headers: dict[bytes, bytes]) -> None:
        path = quoted(headers[NODE])
        if self._revision is None:
            raise self.wrong("a node comes before the first revision")
        if self._revision == 0:
            raise self.wrong(f"{path} is a node of revision 0, which has none")
        if ACTION not in headers:
            raise self.wrong(f"{path} has no {ACTION.decode()}")
        if (COPY_REVISION in headers) != (COPY_PATH in headers):
            raise self.wrong(f"{path} is copied from half a place")
        if self._number(headers, COPY_REVISION) >= max(1, self._revision):
            raise self.wrong(f"{path} is copied from a revision that is not older")
        self.folder.add(headers)

    # Properties

    def _properties(
        self, headers: dict[bytes, bytes], length: int, has_text_behind: bool = False
    ) -> int:
        """Read a block of properties up to its end, as svnadmin does, and return its length."""
        of_revision = REVISION in headers
        begin, held = self.offset, 0
        block: dict[bytes, bytes] = {}
        while (line := self._property_line()) != dump_format.END:
            name, value = self._property(line, of_revision)
            if value is not None:
                self._check(headers, name, value)
                if of_revision:
                    block[name] = value
                    held += len(name) + len(value)
                    if held > LONGEST_HELD:
                        raise self.wrong(
                            f"a revision has more than {LONGEST_HELD} bytes of properties"
                        )
            if not of_revision:
                self._pass_on()
        read = self.offset - begin
        if has_text_behind and read > length:
            raise self._wrong_length()
        self.wrong_lengths += read != length and not has_text_behind
        if of_revision and not dump_format.is_date(
            block.get(dump_format.DATE, b"1970-01-01T0:0:0.0Z")
        ):
            self._leave_date_out(block)
        return read

    def _wrong_length(self) -> UserError:
        return self.wrong("a record's properties are not as long as they say")

    def _property_line(self) -> bytes:
        line = self._line(32)
        if self.is_at_end:
            raise self.wrong("it ends in the middle of a record")
        if not line.endswith(b"\n"):
            raise self._wrong_length()
        return line

    def _property(self, line: bytes, of_revision: bool) -> tuple[bytes, bytes | None]:
        """Return a property's name, and its value if it must be checked."""
        match = _NAME.fullmatch(line)
        if not match or (of_revision and match[1] == b"D"):
            raise self._wrong_length()
        length = int(match[2])
        if length > LONGEST_LINE:
            raise self.wrong(f"the name of a property has {length} bytes")
        name = self._held(length)
        if b"\0" in name:
            raise self.wrong(f"the name {quoted(name)} of a property holds a NUL character")
        if match[1] == b"D":
            return name, None
        match = _VALUE.fullmatch(self._property_line())
        if not match:
            raise self._wrong_length()
        length = int(match[1])
        if length > LONGEST_VALUE:
            raise self.wrong(f"the property {quoted(name)} has {length:,} bytes")
        if of_revision or name.startswith(b"svn:"):
            if length > LONGEST_HELD:
                raise self.wrong(f"the property {quoted(name)} has {length:,} bytes")
            return name, self._held(length)
        end_of_chunk = b""
        for chunk in self._content(length + 1):
            end_of_chunk = chunk[-1:]
            self._pass_on()
        if end_of_chunk != b"\n":
            raise self._wrong_length()
        return name, None

    def _held(self, length: int) -> bytes:
        data = b"".join(self._content(length + 1))
        if not data.endswith(b"\n"):
            raise self._wrong_length()
        return data[:-1]

    def _check(self, headers: dict[bytes, bytes], name: bytes, value: bytes) -> None:
        is_revision = REVISION in headers
        if is_revision and name == dump_format.DATE:
            if not dump_format.is_date(value):
                self.bogus_dates += 1
                self._first_bogus = (
                    self._first_bogus or f"revision {self._revision}: {quoted(value)}"
                )
        elif dump_format.needs_bypass(name, value):
            self._bypassed["revisions" if is_revision else "files and folders"] += 1
            place = "" if is_revision else f" of {quoted(headers[NODE])}"
            self._first_bypassed = self._first_bypassed or (
                f"{name.decode('latin-1')}{place} in revision {self._revision}"
            )

    def _leave_date_out(self, block: dict[bytes, bytes]) -> None:
        """Replace the revision's record by one without its date: svnadmin verify refuses the date."""
        del block[dump_format.DATE]
        assert self._revision is not None
        self._pass_on(dump_format.revision(self._revision, block))

    def _text(self, length: int, headers: dict[bytes, bytes]) -> None:
        # The checksums of a delta belong to the resulting text: svnadmin load checks them.
        delta = headers.get(b"Text-delta") == b"true"
        names = [] if delta or not self._checks_texts else list(CHECKSUMS)
        names = [name for name in names if f"Text-content-{name}".encode() in headers]
        digests = [hashlib.new(name, usedforsecurity=False) for name in names]
        for number, chunk in enumerate(self._content(length)):
            if delta and number == 0 and not chunk.startswith(b"SVN"):
                raise self.wrong("a delta does not begin as one")
            for digest in digests:
                digest.update(chunk)
            self._pass_on()
        for name, digest in zip(names, digests, strict=True):
            stated = headers[f"Text-content-{name}".encode()]
            # Zeros stand for no checksum.
            if stated.strip(b"0") and stated.decode("ascii").lower() != digest.hexdigest():
                path = quoted(headers.get(NODE, b""))
                raise self.wrong(f"the text of {path} does not have its checksum ({name})")


def _is_whole(headers: dict[bytes, bytes]) -> bool:
    """Return True for headers that end with the stream, without the blank line that svnadmin writes."""
    has_content = any(headers.get(key, b"0").strip(b"0 ") for key in (PROPERTIES, TEXT, CONTENT))
    return not has_content and (REVISION in headers or ACTION in headers)

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
from enum import Enum
from typing import BinaryIO

from vcsbench import words
from vcsbench.errors import UserError
from vcsbench.external import CHUNK, parse_number
from vcsbench.processes import Program
from vcsbench.sources import dump_format
from vcsbench.sources.base import Facts
from vcsbench.sources.compressed import DAMAGED
from vcsbench.sources.dump_paths import NODE_PATH, PathTracker
from vcsbench.sources.text_sample import TextSample
from vcsbench.storages.file_trees import IMPOSSIBLE_PATHS, RESERVED_PATHS

# Headers of records.
FORMAT = b"SVN-fs-dump-format-version"
REVISION = b"Revision-number"
PROPERTIES, TEXT = b"Prop-content-length", b"Text-content-length"
CONTENT = b"Content-length"
DELTA = b"Text-delta"
# The largest numbers in headers.
LARGEST_NUMBERS = {FORMAT: 1000, REVISION: 2**40, PROPERTIES: 2**62, TEXT: 2**62, CONTENT: 2**62}
KNOWN_FORMATS = (1, 2, 3)
# Limits where svnadmin has none, for a header, the headers of a record, and the name of a property.
LONGEST_LINE = 1 << 20
LONGEST_HEADERS = 4 << 20
# `K 12`: the length of a property.
LONGEST_LENGTH = 32
# svnadmin load holds each property in memory.
LONGEST_VALUE = 256 << 20
# svnadmin load needs about 75 bytes for each skipped revision number.
LARGEST_GAP = 4_000_000
BYPASS = "--bypass-prop-validation"
DATE = b"svn:date"
# svn_time_from_cstring() ignores what follows, and reads an empty number as 0.
_DATE = re.compile(rb"(\d{0,9})-(\d{0,9})-(\d{0,9})T\d*:\d*:\d*\.\d*Z")
# Before Subversion 0.14: Tue 3 Oct 2000 09:00:00.000 (day 277, dst 1, gmt_off -18000)
_OLD_DATE = re.compile(
    rb"\s*\S{1,3}\s*\d+\s*(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s*(\d{4,9})\s+\d\d?:\s*\d\d?"
    rb":\s*\d\d?\.\s*\d{1,6}\s*\(day\s*\d{1,3},\s*dst\s*\d+,\s*gmt_off\s*-?\d{1,6}"
)
_NAME = re.compile(rb"([KD]) \s*\+?([0-9]{1,18})\n")
_VALUE = re.compile(rb"V \s*\+?([0-9]{1,18})\n")
_TRUNCATED = "it ends in the middle of a record"
_WRONG_LENGTH = "a record's properties are not as long as they say"


class Oddity(Enum):
    """A peculiarity that svnadmin load accepts or changes. Its value is the pattern of a report's note."""

    DATE = "Subversion cannot read the svn:date of {revisions}, first {first}. The copies have no date there."
    NUMBER = (
        "Revision numbers that are not larger than the one before: {number}, first {first}. The copies have "
        "other numbers."
    )
    IMPOSSIBLE = (
        f"Paths {IMPOSSIBLE_PATHS}: {{number}}, first {{first}}. A tree with them is not exported, checked "
        "out or updated."
    )
    RESERVED = (
        f"Paths {RESERVED_PATHS}: {{number}}, first {{first}}. A tree with them is not checked out or "
        "updated."
    )


class _PartReadError(Exception):
    """End run(): the next property or text ends behind the part of the stream that it was called to read."""


class DumpReader:
    """Read a stream once.

    - `numbers`, `offsets`: the number of each revision from 1 on, and the byte at which its record begins.
    - `offset`: the number of bytes that were read or skipped.
    - `is_whole`: True after the last record.
    - `paths`: the exported folder, and the paths that no disk or working copy can hold, at this offset.
    - `texts`: a sample of the texts. It stays empty unless the reader skips texts.
    """

    def __init__(
        self,
        name: str,
        stream: BinaryIO,
        *,
        out: BinaryIO | None = None,
        tree: str = "trunk",
        skips_texts: bool = False,
        size: int | None = None,
        remedy: str = "Make the dump again.",
    ) -> None:
        """Prepare to read `stream`; run() reads it. All that is read goes to `out`, unless `out` is None.

        `name` is the source in errors, such as /srv/x.dump, and `remedy` their last sentence. `tree` is the
        folder that will be exported. With `skips_texts`, the reader seeks over the texts (the contents of
        files), and reads only the beginnings of some, which the sample `texts` needs. `size` is the stream's
        size in bytes. A file can be sought beyond its end, so only its size shows a cut text.
        """
        self._name = name
        self._stream = stream
        self._out = out
        self._skips_texts = skips_texts
        self._size = sys.maxsize if size is None else size
        self._remedy = remedy
        # The part of the stream to read has this number of bytes (run).
        self._most_bytes = sys.maxsize
        self.offset = 0
        # The byte at which the current record begins.
        self._record_at = 0
        self.is_whole = False
        # True if the stream has ended. A program that fails ends its output early (run_on).
        self._is_at_end = False
        # The version of the format: 1 to 3; 0 before the first line is read.
        self._format = 0
        # The number of the current revision in the stream.
        self._revision: int | None = None
        # True between the head of a further dump in the stream and its first revision.
        self._has_restarted = False
        # An entry of these arrays takes eight bytes: a history may have millions of revisions.
        self.numbers = array("Q")
        self.offsets = array("Q")
        self.paths = PathTracker(tree)
        self.texts = TextSample()
        # How many revision numbers the stream has skipped: revision 9 after revision 6 skips 7 and 8.
        self._skipped_numbers = 0
        self._oddities: Counter[Oddity] = Counter()
        self._first_places: dict[Oddity, str] = {}
        # The revisions whose date Subversion cannot read, by their numbers in the loaded repository. svnadmin
        # load may give them other numbers than the stream.
        self._bogus_dates: list[int] = []

    @property
    def revisions(self) -> int:
        return len(self.numbers)

    def run(self, most_records: int = sys.maxsize, most_bytes: int | None = None) -> None:
        """Read the stream, or at most `most_records` records, and set the public attributes of the reader.

        With `most_bytes`, stop before a property, or a skipped text, that ends behind this number of bytes.
        Raise UserError with the revision and the byte of the first fault: damage, a size over a limit, or a
        whole stream without a revision above 0.
        """
        self._most_bytes = sys.maxsize if most_bytes is None else most_bytes
        try:
            # The first line, such as `SVN-fs-dump-format-version: 2`.
            line = self._read_line()
            key, colon, value = line.partition(b":")
            if not colon or key != FORMAT or not line.endswith(b"\n"):
                raise self.error("it does not begin with its format's version")
            self._set_format(value)
            for _ in range(most_records):
                headers = self._read_headers()
                if not headers:
                    self.is_whole = True
                    break
                self._read_record(headers)
        except _PartReadError:
            # More than `most_bytes` would be needed.
            return
        except BrokenPipeError:
            # The program that reads `out` has ended. BrokenPipeError is an OSError, so the next branch would
            # blame the source.
            raise
        except DAMAGED as error:
            raise self.error(f"it cannot be read on: {error}") from error
        if self.is_whole and not self.numbers:
            raise self.error("it has no revision 1")

    def run_on(self, program: Program) -> None:
        """Read the output of a program. Raise UserError if the program failed or its output has a fault."""
        try:
            self.run()
        except UserError:
            # The error of a program that failed explains why its output is cut. Before the end of its output,
            # the program may wait to write more, and wait() would never return.
            if self._is_at_end and program.process.wait() != 0:
                raise program.failed() from None
            raise
        # The output has no fault, but the program may still have failed.
        program.finish()

    def facts(self) -> Facts:
        # Without the option, svnadmin load refuses properties of many old histories.
        return Facts(self.revisions, self.notes(Oddity), [BYPASS], self._bogus_dates)

    def notes(self, oddities: Iterable[Oddity]) -> list[str]:
        """Return a sentence for reports on each of the `oddities` that the stream has."""
        notes = []
        for oddity in oddities:
            number = self._oddities[oddity]
            if number:
                revisions = words.count_of(number, "revision")
                first = self._first_places[oddity]
                notes.append(oddity.value.format(number=number, revisions=revisions, first=first))
        return notes

    def error(self, fault: str, remedy: str = "") -> UserError:
        """Return the error of a fault at the current place.

        Such as `/srv/x.dump: <fault> (at revision 7, byte 1,234 of the stream). Make the dump again.`
        """
        position = f"byte {self.offset:,} of the stream"
        if self._revision is not None:
            position = f"revision {self._revision}, {position}"
        return UserError(f"{self._name}: {fault} (at {position}). {remedy or self._remedy}")

    def _read_line(self, limit: int = LONGEST_LINE) -> bytes:
        """Return the next line, or as much of it as the limit allows; b"" at the end of the stream."""
        line = self._stream.readline(limit)
        self._is_at_end = len(line) < limit and not line.endswith(b"\n")
        return self._pass_on(line)

    def _read_content(self, length: int) -> Iterator[bytes]:
        """Yield the next `length` bytes in chunks, so that a large text takes little memory."""
        while length > 0:
            chunk = self._stream.read(min(length, CHUNK))
            if not chunk:
                self._is_at_end = True
                raise self.error(_TRUNCATED)
            length -= len(chunk)
            yield self._pass_on(chunk)

    def _pass_on(self, data: bytes) -> bytes:
        """Advance `offset` by the read bytes, write them to `out`, if there is one, and return them."""
        self.offset += len(data)
        if self._out is not None:
            self._out.write(data)
        return data

    def _set_format(self, value: bytes) -> None:
        """Set the version of the format, such as b" 2". Raise UserError for an unknown version."""
        version = _header_number(FORMAT, value)
        if version not in KNOWN_FORMATS:
            version_text = value.strip()[:60].decode("latin-1")
            raise self.error(f"it has the unknown format version {version_text}")
        self._format = version

    def _read_headers(self) -> dict[bytes, bytes]:
        """Return the headers of the next record, such as {b"Revision-number": b"7"}; {} at the end.

        Raise UserError for a line that is no header, for headers over the limits, and for a stream that ends
        in a header, or before the properties or the text that the headers announce.
        """
        # The limit on the length of headers includes the lines before them.
        start = self.offset
        line = self._read_header_line(start)
        # Old tools write blank lines and comments, such as ` ## text`, between records.
        while line[:1].isspace():
            # `line` may be only the beginning of a line that is longer than LONGEST_LINE.
            while not line.endswith(b"\n"):
                line = self._read_line()
                if not line:
                    raise self.error("it ends in the middle of a line")
            line = self._read_header_line(start)
        # The record begins with the line that was just read.
        self._record_at = self.offset - len(line)
        headers = {}
        # A blank line, or the end of the stream, ends the headers.
        while line not in (b"", b"\n"):
            if not line.endswith(b"\n"):
                if len(line) == LONGEST_LINE:
                    raise self.error(f"a header has more than {LONGEST_LINE:,} bytes")
                raise self.error(f"{_TRUNCATED}'s header")
            key, colon, value = line[:-1].partition(b":")
            if not colon:
                raise self.error(f"{_quote(line)} is no header of a record")
            # svnadmin skips one character behind the colon, whatever that is.
            headers[key] = value[1:]
            line = self._read_header_line(start)
        # At the end of the stream, the blank line may be missing. svnadmin accepts this for a record with
        # neither properties nor text, such as a deletion.
        if not line and any(key in headers for key in (PROPERTIES, TEXT, CONTENT)):
            raise self.error(f"{_TRUNCATED}'s header")
        return headers

    def _read_header_line(self, start: int) -> bytes:
        """Return the next line. Raise UserError if the headers from byte `start` on are too long."""
        line = self._read_line()
        if self.offset - start > LONGEST_HEADERS:
            raise self.error(
                f"a record has more than {LONGEST_HEADERS:,} bytes of headers and blank lines"
            )
        return line

    def _parse_number(self, headers: Mapping[bytes, bytes], key: bytes) -> int:
        """Return the number in a header, 0 if the header is missing. Raise UserError for another text."""
        number = _header_number(key, headers.get(key, b"0"))
        if number is None:
            raise self.error(f"{key.decode()} is {_quote(headers[key])}")
        return number

    def _read_record(self, headers: dict[bytes, bytes]) -> None:
        """Update the reader's attributes by a record's headers, and then read its properties and its text.

        The record is a revision, a path, or the head of another dump in the stream. A record of another kind,
        such as `UUID`, changes no attribute by its headers.
        """
        if REVISION in headers:
            self._begin_revision(self._parse_number(headers, REVISION))
        elif NODE_PATH in headers:
            odd_path = self.paths.follow(headers)
            if odd_path is not None:
                oddity = Oddity.IMPOSSIBLE if odd_path.is_impossible else Oddity.RESERVED
                self._count(oddity, f"{_quote(odd_path.path)} in revision {self._revision}")
        elif FORMAT in headers:
            # A second dump in the same file: its revisions begin again, so its first number may be small.
            self._set_format(headers[FORMAT])
            self._has_restarted = True
        property_bytes = self._parse_number(headers, PROPERTIES)
        text_bytes = self._parse_number(headers, TEXT)
        content_bytes = self._parse_number(headers, CONTENT)
        # Content-length is the sum of the other two lengths. Other tools than svnadmin leave it out.
        if not content_bytes:
            content_bytes = property_bytes + text_bytes
        has_only_sum = content_bytes > 0 and PROPERTIES not in headers and TEXT not in headers
        if has_only_sum and self._format == 1:
            # In format 1, such a content begins with properties of unknown length, up to a line PROPS-END. In
            # later formats, all of it counts as text.
            property_bytes = self._read_properties(headers)
        elif property_bytes:
            # If the properties end earlier than stated, svnadmin still goes on by the stated length.
            self._read_properties(headers, property_bytes)
        # The rest of the content is the text. In a damaged record, the properties may be longer than the
        # whole content: then there is no text.
        is_delta = headers.get(DELTA) == b"true"
        self._read_or_skip_text(max(0, content_bytes - property_bytes), is_delta)

    def _read_or_skip_text(self, length: int, is_delta: bool) -> None:
        """Go to the end of a text of `length` bytes: by reading it or, with `skips_texts`, mostly by seeking.

        Raise UserError if the stream ends within the text.
        """
        if not self._skips_texts:
            self._read_past(length)
            return
        self._check_bounds(length)
        # Before the seek, the beginning of some texts is read for the sample of texts. count() decides at
        # random, and returns 0 bytes for a text that is not in the sample. compress() then does nothing.
        head_bytes = self.texts.count(length, is_delta=is_delta)
        head = b"".join(self._read_content(head_bytes))
        self.texts.compress(head, length, is_delta=is_delta)
        rest = length - head_bytes
        # A pipe, for example, cannot seek.
        if not self._stream.seekable():
            self._read_past(rest)
            return
        # Reading advances `offset` itself (_pass_on), and seeking does not.
        self.offset += rest
        position = self._stream.seek(rest, os.SEEK_CUR)
        # A compressed stream cannot be sought beyond its end, so it stops there.
        if position < self.offset:
            raise self.error(_TRUNCATED)

    def _read_past(self, length: int) -> None:
        """Read the next `length` bytes only to pass them on (_pass_on)."""
        for _ in self._read_content(length):
            pass

    def _begin_revision(self, number: int) -> None:
        """Make a revision the current one, and append its number and byte to `numbers` and `offsets`.

        Raise UserError if the stream has skipped more than LARGEST_GAP numbers so far.
        """
        if self._revision is not None:
            # svnadmin load numbers revisions in the order of the stream, so a number that is not larger than
            # the one before is no error. At the beginning of another dump, a small number is usual.
            if number <= self._revision and not self._has_restarted:
                self._count(Oddity.NUMBER, f"revision {number} after revision {self._revision}")
            # Revision 9 after revision 6 skips two numbers, 7 and 8. A smaller number skips none.
            self._skipped_numbers += max(0, number - self._revision - 1)
            if self._skipped_numbers > LARGEST_GAP:
                raise self.error(
                    f"revision {number} comes after revision {self._revision}, and more than "
                    f"{LARGEST_GAP:,} missing numbers take too much memory of svnadmin load",
                    "Renumber the revisions with svndumpfilter --drop-empty-revs --renumber-revs.",
                )
        self._has_restarted = False
        self._revision = number
        # svnadmin load makes no revision 0: every repository has it from its beginning.
        if number > 0:
            self.numbers.append(number)
            self.offsets.append(self._record_at)

    def _count(self, oddity: Oddity, place: str) -> None:
        """Count an oddity. The note of a report shows the first `place`, such as "revision 3: 'monday'"."""
        self._oddities[oddity] += 1
        self._first_places.setdefault(oddity, place)

    def _read_properties(self, headers: Mapping[bytes, bytes], length: int | None = None) -> int:
        """Read a record's properties, count an unreadable svn:date, and return their length in bytes.

        A property is `K 3`, its name, `V 2` and its value, or `D 3` and its name if it is deleted. The
        numbers are lengths. The properties end behind the line PROPS-END, or after exactly `length` bytes.
        """
        begin = self.offset
        # Without a `length`, only PROPS-END ends the loop. The same is true after a property that goes beyond
        # `length`: svnadmin compares by `!=`, too.
        while self.offset - begin != length:
            line = self._read_length_line()
            if line == dump_format.END:
                break
            name_line = _NAME.fullmatch(line)
            if not name_line:
                raise self.error(_WRONG_LENGTH)
            name = self._read_value(name_line[2], LONGEST_LINE, "the name of a property")
            is_deleted = name_line[1] == b"D"
            if is_deleted:
                continue
            value_line = _VALUE.fullmatch(self._read_length_line())
            if not value_line:
                raise self.error(_WRONG_LENGTH)
            # Only the date of a revision is checked. All other values are just passed on to `out`.
            is_date = name == DATE and REVISION in headers
            value = self._read_value(
                value_line[1], LONGEST_VALUE, f"the property {_quote(name)}", is_needed=is_date
            )
            if is_date and not _is_date(value):
                self._count(Oddity.DATE, f"revision {self._revision}: {_quote(value)}")
                # The date is deleted after the load. By then, the revisions above 0 have the numbers 1, 2, 3,
                # ... in the order of the stream. So this revision has the number of revisions so far.
                loaded_revision = self.revisions if self._revision else 0
                self._bogus_dates.append(loaded_revision)
        return self.offset - begin

    def _read_length_line(self) -> bytes:
        """Return the next line of a block of properties, such as b"K 12" and a line end."""
        line = self._read_line(LONGEST_LENGTH)
        if line.endswith(b"\n"):
            return line
        if len(line) == LONGEST_LENGTH:
            raise self.error(_WRONG_LENGTH)
        raise self.error(_TRUNCATED)

    def _read_value(
        self, digits: bytes, limit: int, subject: str, *, is_needed: bool = True
    ) -> bytes:
        """Read the name or the value of a property, and return it without the line end behind it.

        `digits` is the stated length, such as b"12", and `subject` the name of what is read, for errors.
        Return b"" for a value that is not needed: it may have 256 MiB, and is not held in memory. Raise
        UserError if the length is above `limit`, or if no line end follows.
        """
        length = int(digits)
        if length > limit:
            raise self.error(f"{subject} has {length:,} bytes, and {limit:,} are the limit")
        self._check_bounds(length)
        # One more byte, because a line end follows each name and value.
        chunks: Iterable[bytes] = self._read_content(length + 1)
        if not is_needed:
            # A deque of length 1 drops all chunks but the last one, which has the line end.
            chunks = deque(chunks, 1)
        content = b"".join(chunks)
        if not content.endswith(b"\n"):
            raise self.error(_WRONG_LENGTH)
        return content[:-1] if is_needed else b""

    def _check_bounds(self, length: int) -> None:
        """Raise an error if the next `length` bytes end behind the part to read, or behind the stream.

        The end of the part to read is no fault of the stream, so that error is a _PartReadError, after which
        run() returns.
        """
        end = self.offset + length
        if end > self._most_bytes:
            raise _PartReadError
        if end > self._size:
            raise self.error(_TRUNCATED)


def _header_number(key: bytes, value: bytes) -> int | None:
    """Return the number in the value of a header; None for another text, or a number that is too large."""
    digits = value.strip()
    # svnadmin accepts `+1`, and refuses `++1`.
    if digits[:1] == b"+" and digits[1:2].isdigit():
        digits = digits[1:]
    return parse_number(digits, LARGEST_NUMBERS[key])


def _is_date(text: bytes) -> bool:
    """Return True if Subversion reads a text as a date. It accepts a 32nd day, and nothing before 1970."""
    # Subversion reads a string of C, which ends at a NUL.
    text = text.partition(b"\0")[0]
    match = _DATE.match(text)
    if match:
        year, month, day = (int(number or b"0") for number in match.groups())
        return 1 <= month <= 12 and (year, month, day) >= (1970, 1, 1)
    old_match = _OLD_DATE.match(text)
    return old_match is not None and int(old_match[1]) >= 1970


def _quote(text: bytes) -> str:
    # A text may have megabytes.
    return repr(text[:60].decode("utf-8", "replace").rstrip("\n"))

"""Estimate the number of revisions of a dump file from its headers."""

from __future__ import annotations

from typing import BinaryIO, NamedTuple

from vcsbench.external import parse_number
from vcsbench.sources.dump.records import CONTENT, NUMBERS, PROPERTIES, REVISION, TEXT

# Enough for an exact count of most dumps, within a second.
RECORDS = 50_000
LONGEST_LINE = 1 << 16
CHUNK = 1 << 20


class Sample(NamedTuple):
    """The beginning of a stream: its revisions without revision 0, its bytes, and whether it is all of it."""

    revisions: int
    bytes: int
    is_all: bool


def read_sample(stream: BinaryIO, can_seek: bool, size: int) -> Sample:
    """Read headers at the places of headers, in at most `size` bytes. Contents are skipped, not searched."""
    revisions = at = 0
    for _ in range(RECORDS):
        headers, length = _headers(stream)
        at += length
        if not headers:
            return Sample(revisions, at, length == 0)
        number = parse_number(headers.get(REVISION, b""), NUMBERS[REVISION])
        revisions += bool(number)
        content = max(
            _length(headers, CONTENT), _length(headers, PROPERTIES) + _length(headers, TEXT)
        )
        if at + content > size or not _skip(stream, content, can_seek):
            break
        at += content
    return Sample(revisions, at, False)


def _headers(stream: BinaryIO) -> tuple[dict[bytes, bytes], int]:
    """Return the next headers, {} at the end or where there are none, and the bytes that were read."""
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


def _length(headers: dict[bytes, bytes], key: bytes) -> int:
    return parse_number(headers.get(key, b""), NUMBERS[key]) or 0


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

"""Read a tar archive as a stream: v7, ustar, GNU and pax. Each header is read with a limit.

Python's tarfile reads headers of any size into memory, and writes members by following links.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from vcsbench.contained import ArchiveError, shown

BLOCK = 512
CHUNK = 2**18
# Long names and pax headers. Linux limits all extended attributes of a file to 64 KiB each.
HEADER_BYTES = 2**20
# Headers in front of one member: two long names and a pax header, at most.
HEADERS = 8

FILE, FOLDER, LINK, HARD_LINK, SPECIAL = "file", "folder", "link", "hard link", "special"
_KINDS = {
    **dict.fromkeys((b"0", b"\0", b"7"), FILE),
    **dict.fromkeys((b"5", b"D"), FOLDER),
    **dict.fromkeys((b"3", b"4", b"6"), SPECIAL),
    b"1": HARD_LINK,
    b"2": LINK,
}
_LONG = {b"L": b"path", b"K": b"linkpath"}
# The records of pax headers that matter here; of sparse files, only that they are sparse.
SPARSE = b"GNU.sparse."
_KEPT_RECORDS = {b"path", b"linkpath", b"size", SPARSE}


class Readable(Protocol):
    """A binary stream."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes."""


@dataclass
class Member:
    """One member: its name and target in bytes, its mode, and its content as chunks."""

    name: bytes
    kind: str
    size: int
    mode: int
    target: bytes
    content: Iterator[bytes] = field(repr=False)


def is_tar(start: bytes) -> bool:
    """Return True if 512 bytes are the first header of an archive, or the end mark of an empty one."""
    return len(start) == BLOCK and (not any(start) or _has_checksum(start))


def read_members(stream: Readable) -> Iterator[Member]:
    """Yield the members of an archive in order. Raise ArchiveError if it is damaged or cut short.

    The content of a member can be read until the next member is asked for.
    """
    globally: dict[bytes, bytes] = {}
    own: dict[bytes, bytes] = {}
    headers = 0
    while True:
        block = _exactly(stream, BLOCK)
        if not any(block):
            _read_rest(stream)
            return
        if not _has_checksum(block):
            raise ArchiveError("the checksum of a tar header is wrong")
        kind, size = block[156:157], _number(block[124:136])
        if kind in (b"L", b"K", b"x", b"X", b"g"):
            headers += 1
            if headers > HEADERS or size > HEADER_BYTES:
                raise ArchiveError(f"a tar header is larger than {HEADER_BYTES} bytes")
            text = _exactly(stream, size)
            _exactly(stream, -size % BLOCK)
            if kind in _LONG:
                own[_LONG[kind]] = text.split(b"\0")[0]
            else:
                (globally if kind == b"g" else own).update(_pax(text))
            continue
        member = _member(stream, block, {**globally, **own})
        own, headers = {}, 0
        if member:
            yield member
            for _ in member.content:
                pass


def _member(stream: Readable, block: bytes, given: Mapping[bytes, bytes]) -> Member | None:
    """Return the member of a header; None for a volume's label."""
    letter = block[156:157]
    name = block[:100].split(b"\0")[0]
    prefix = block[345:500].split(b"\0")[0] if block[257:263] == b"ustar\0" else b""
    name = given.get(b"path", prefix + b"/" + name if prefix else name)
    if letter == b"V":
        return None
    if letter == b"S" or SPARSE in given:
        raise ArchiveError(f"{shown(name)} is stored as a sparse file")
    if letter not in _KINDS:
        raise ArchiveError(f"{shown(name)} has the unknown type {shown(letter)}")
    kind = _KINDS[letter]
    if kind == FILE and name.endswith(b"/"):  # how v7 marks a folder
        kind = FOLDER
    size = _decimal(given[b"size"]) if b"size" in given else _number(block[124:136])
    # Tars of some programs give a size to links and folders, with no content behind the header.
    stored = size if kind == FILE or letter == b"D" else 0
    return Member(
        name,
        kind,
        stored,
        _number(block[100:108], lenient=True),
        given.get(b"linkpath", block[157:257].split(b"\0")[0]),
        _content(stream, stored),
    )


def _content(stream: Readable, size: int) -> Iterator[bytes]:
    left = size
    while left:
        chunk = stream.read(min(left, CHUNK))
        if not chunk:
            raise ArchiveError("the archive ends in the middle of a file")
        left -= len(chunk)
        yield chunk
    _exactly(stream, -size % BLOCK)


def _exactly(stream: Readable, size: int) -> bytes:
    parts = []
    while size:
        part = stream.read(size)
        if not part:
            raise ArchiveError("the archive ends before its end mark")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _read_rest(stream: Readable) -> None:
    """Read what follows the end mark, so that a compressed file's checksum is checked."""
    for _ in range(64):
        if not stream.read(CHUNK):
            return


def _has_checksum(block: bytes) -> bool:
    blank = block[:148] + b" " * 8 + block[156:]
    digits = block[148:156].strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        return False
    total = int(digits, 8)
    # Some old programs summed signed bytes.
    return total in (sum(blank), sum(blank) - 256 * sum(byte > 127 for byte in blank))


def _number(text: bytes, lenient: bool = False) -> int:
    """Return a number of a header: octal, or GNU's base 256."""
    if text[:1] == b"\x80":
        return int.from_bytes(text[1:], "big")
    digits = text.strip(b" \0")
    if digits.strip(b"01234567"):
        if lenient:
            return 0
        raise ArchiveError(f"a size in a tar header is {shown(text)}, which is not a number")
    return int(digits or b"0", 8)


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > 20:
        raise ArchiveError(f"a size in a pax header is {shown(text)}, which is not a number")
    return int(text)


def _pax(text: bytes) -> dict[bytes, bytes]:
    """Return the records of a pax header, each `LENGTH KEY=VALUE\\n`."""
    records = {}
    at = 0
    while at < len(text) and text[at]:
        digits = text[at : at + 9].split(b" ")[0]
        length = int(digits) if digits.isdigit() else 0
        record = text[at + len(digits) + 1 : at + length]
        key, equals, value = record.partition(b"=")
        if not equals or not record.endswith(b"\n") or at + length > len(text):
            raise ArchiveError("a pax header is damaged")
        if key.startswith(SPARSE):
            key = SPARSE
        if key in _KEPT_RECORDS:
            records[key] = value[:-1]
        at += length
    return records

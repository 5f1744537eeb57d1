"""Read tar archives, and write members of archives into a folder that they cannot leave.

Each folder is opened by its single name with O_NOFOLLOW, relative to the one above it. A name has no slash
and is not `..`. Unlike openat2(RESOLVE_BENEATH), this works on each kernel and with paths longer than
PATH_MAX.

Python's tarfile reads headers of any size into memory, and writes members by following links.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vcsbench.external import one_line
from vcsbench.files import MAX_DEPTH
from vcsbench.storages.filesystems import free_bytes

NAME_BYTES = 255
PATH_BYTES = 4095
MEMBERS = 2_000_000
MEMBER_BYTES = 512
# At most this many bytes, or this many times the archive's own size.
EXPANDED_BYTES = 256 * 2**20
EXPANDED_FACTOR = 100

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Parts = tuple[bytes, ...]

BLOCK = 512
CHUNK = 2**18
# Linux limits all extended attributes of a file to 64 KiB each.
HEADER_BYTES = 2**20
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
SPARSE = b"GNU.sparse."
_KEPT_RECORDS = {b"path", b"linkpath", b"size", SPARSE}


class ArchiveError(Exception):
    """A member is refused; the message names it."""


def split_name(name: bytes) -> Parts:
    """Return the components of a member's name without `.` and empty ones.

    Raise ArchiveError for absolute names, `..`, NUL, and names that are too long or too deep.
    """
    if b"\0" in name:
        raise ArchiveError(f"the name of {shown(name)} has a NUL byte")
    if name.startswith(b"/"):
        raise ArchiveError(f"{shown(name)} has an absolute path")
    if len(name) > PATH_BYTES:
        raise ArchiveError(f"the path of {shown(name)} is longer than {PATH_BYTES} bytes")
    parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
    if b".." in parts:
        raise ArchiveError(f"{shown(name)} has `..` in its path")
    if any(len(part) > NAME_BYTES for part in parts):
        raise ArchiveError(f"{shown(name)} has a name longer than {NAME_BYTES} bytes")
    if len(parts) > MAX_DEPTH:
        raise ArchiveError(f"{shown(name)} is nested deeper than {MAX_DEPTH} folders")
    return parts


def shown(name: bytes | str) -> str:
    return f"'{one_line(name, 80)}'"


class ContainedFolder:
    """Write files, folders and links below an existing folder, within limits.

    close() creates symbolic links, after all files, so that no member can be written through one. The
    members may have EXPANDED_FACTOR times `archive_bytes` in total, or `expanded`. `replaced` counts files
    that a later member replaced.
    """

    def __init__(self, path: Path, archive_bytes: int, expanded: int | None = None) -> None:
        self._root = os.open(path, _FOLDER)
        self._limit = max(expanded or EXPANDED_BYTES, EXPANDED_FACTOR * archive_bytes)
        self._free = free_bytes(path)
        self._bytes = self._members = 0
        self._links: dict[Parts, bytes] = {}
        self.replaced = 0

    def __enter__(self) -> ContainedFolder:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._root)

    def add_folder(self, parts: Parts) -> None:
        self.count_member()
        with self._open(parts):
            pass

    def add_file(self, parts: Parts, chunks: Iterable[bytes], *, mode: int = 0o644) -> None:
        self.count_member()
        if not parts or parts in self._links:
            raise ArchiveError(f"{_joined(parts)} is a file, and a folder or link too")
        with self._open(parts[:-1]) as folder:
            self._make_room(folder, parts)
            file = os.open(parts[-1], _NEW_FILE, 0o600, dir_fd=folder)
            with os.fdopen(file, "wb") as out:
                for chunk in chunks:
                    self._count_bytes(len(chunk))
                    out.write(chunk)
                os.fchmod(out.fileno(), mode)

    def add_link(self, parts: Parts, target: bytes) -> None:
        self.count_member(len(target))
        if not target or b"\0" in target or len(target) > PATH_BYTES:
            raise ArchiveError(
                f"the link {_joined(parts)} has an empty target, or one with a NUL byte, or over "
                f"{PATH_BYTES} bytes"
            )
        if not parts:
            raise ArchiveError("the folder of the archive is a link")
        with self._open(parts[:-1]) as folder:
            _refuse_existing(folder, parts)
        self._links[parts] = target

    def add_hard_link(self, parts: Parts, first: Parts) -> None:
        """Create a second name of an earlier file, or a second link.

        Its size counts again, because a repository stores it again.
        """
        if first in self._links:
            self.add_link(parts, self._links[first])
            return
        if not parts or not first or parts in self._links or parts == first:
            raise ArchiveError(f"{_joined(parts)} is a hard link to itself, a folder or a link")
        with self._open(first[:-1]) as first_folder, self._open(parts[:-1]) as folder:
            state = _state(first_folder, first[-1])
            if not state or not stat.S_ISREG(state.st_mode):
                raise ArchiveError(
                    f"{_joined(parts)} is a hard link to {_joined(first)}, and no file of that name "
                    "comes before it"
                )
            self.count_member(state.st_size)
            self._make_room(folder, parts)
            os.link(
                first[-1],
                parts[-1],
                src_dir_fd=first_folder,
                dst_dir_fd=folder,
                follow_symlinks=False,
            )

    def close(self) -> None:
        for parts, target in self._links.items():
            with self._open(parts[:-1]) as folder:
                _refuse_existing(folder, parts)
                os.symlink(target, parts[-1], dir_fd=folder)

    def count_member(self, size: int = 0) -> None:
        self._members += 1
        if self._members > MEMBERS:
            raise ArchiveError(f"it has more than {MEMBERS} members")
        self._count_bytes(MEMBER_BYTES + size)

    def _count_bytes(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limit:
            raise ArchiveError(
                f"it expands to more than {self._limit >> 20} MiB, too much for an archive of its size"
            )
        if self._bytes > self._free:
            raise ArchiveError(f"it expands to more than the {self._free >> 20} MiB that are free")

    def _make_room(self, folder: int, parts: Parts) -> None:
        state = _state(folder, parts[-1])
        if state and not stat.S_ISREG(state.st_mode):
            raise ArchiveError(f"{_joined(parts)} is a file, and a folder or link too")
        if state:
            os.unlink(parts[-1], dir_fd=folder)
            self.replaced += 1

    @contextmanager
    def _open(self, parts: Parts) -> Iterator[int]:
        folder = os.dup(self._root)
        try:
            for part in parts:
                try:
                    inner = os.open(part, _FOLDER, dir_fd=folder)
                except FileNotFoundError:
                    self.count_member()
                    os.mkdir(part, 0o700, dir_fd=folder)
                    inner = os.open(part, _FOLDER, dir_fd=folder)
                    os.fchmod(inner, 0o755)
                except NotADirectoryError:
                    raise ArchiveError(
                        f"{_joined(parts)} is a folder, and a file or link too"
                    ) from None
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)


def _state(folder: int, name: bytes) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None


def _refuse_existing(folder: int, parts: Parts) -> None:
    if _state(folder, parts[-1]):
        raise ArchiveError(f"{_joined(parts)} is a link, and a file or folder too")


def _joined(parts: Parts) -> str:
    return shown(b"/".join(parts))


Stream = BinaryIO | BufferedIOBase


class Member(NamedTuple):
    """One member: name and target in bytes, mode, and content as chunks."""

    name: bytes
    kind: str
    size: int
    mode: int
    target: bytes
    content: Iterator[bytes]


def is_tar(start: bytes) -> bool:
    return len(start) == BLOCK and (not any(start) or _has_checksum(start))


def read_members(stream: Stream) -> Iterator[Member]:
    """Yield the members in order. Raise ArchiveError if the archive is damaged or cut short.

    The content of a member can be read until the next member is asked for.
    """
    global_records: dict[bytes, bytes] = {}
    records: dict[bytes, bytes] = {}
    headers = 0
    while True:
        block = _exactly(stream, BLOCK)
        if not any(block):
            for _ in range(64):
                if not stream.read(CHUNK):
                    return
            return
        if not _has_checksum(block):
            raise ArchiveError("the checksum of a tar header is wrong")
        kind, size = block[156:157], _number(block[124:136])
        if kind in (b"L", b"K", b"x", b"X", b"g", b"V"):
            headers += 1
            if headers > HEADERS or size > HEADER_BYTES:
                raise ArchiveError(f"a tar header is larger than {HEADER_BYTES} bytes")
            if kind == b"V":  # a volume's label, without content
                continue
            text = _exactly(stream, size)
            _exactly(stream, -size % BLOCK)
            if kind in _LONG:
                records[_LONG[kind]] = text.split(b"\0")[0]
            else:
                (global_records if kind == b"g" else records).update(_pax(text))
            continue
        member = _member(stream, block, {**global_records, **records})
        records, headers = {}, 0
        yield member
        for _ in member.content:
            pass


def _member(stream: Stream, block: bytes, records: Mapping[bytes, bytes]) -> Member:
    letter = block[156:157]
    name = block[:100].split(b"\0")[0]
    prefix = block[345:500].split(b"\0")[0] if block[257:263] == b"ustar\0" else b""
    name = records.get(b"path", prefix + b"/" + name if prefix else name)
    if letter == b"S" or SPARSE in records:
        raise ArchiveError(f"{shown(name)} is stored as a sparse file")
    if letter not in _KINDS:
        raise ArchiveError(f"{shown(name)} has the unknown type {shown(letter)}")
    kind = _KINDS[letter]
    if kind == FILE and name.endswith(b"/"):
        kind = FOLDER
    size = _number(block[124:136])
    if (decimal := records.get(b"size")) is not None:
        if not decimal.isdigit() or len(decimal) > 20:
            raise ArchiveError(f"a size in a pax header is {shown(decimal)}, which is not a number")
        size = int(decimal)
    # Some programs give a size to links and folders, with no content behind the header.
    stored = size if kind == FILE or letter == b"D" else 0
    return Member(
        name,
        kind,
        stored,
        _number(block[100:108], lenient=True),
        records.get(b"linkpath", block[157:257].split(b"\0")[0]),
        _content(stream, stored),
    )


def _content(stream: Stream, size: int) -> Iterator[bytes]:
    unread = size
    while unread:
        chunk = stream.read(min(unread, CHUNK))
        if not chunk:
            raise ArchiveError("the archive ends in the middle of a file")
        unread -= len(chunk)
        yield chunk
    _exactly(stream, -size % BLOCK)


def _exactly(stream: Stream, size: int) -> bytes:
    parts = []
    while size:
        part = stream.read(size)
        if not part:
            raise ArchiveError("the archive ends before its end mark")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


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


def _pax(text: bytes) -> dict[bytes, bytes]:
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

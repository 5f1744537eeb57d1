"""Read tar archives, and write members of archives into a folder that they cannot leave.

Each folder is opened by its single name with O_NOFOLLOW, relative to the folder above it. A name has no slash
and is not `..`. Unlike openat2(RESOLVE_BENEATH), this works on each kernel and with paths longer than
PATH_MAX.

tarfile reads the headers of a .tar. It would write members by following links.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from vcsbench.errors import UserError
from vcsbench.external import CHUNK, one_line
from vcsbench.storages.file_trees import MAX_DEPTH
from vcsbench.storages.filesystems import free_bytes

NAME_BYTES = 255
PATH_BYTES = 4095
MEMBERS = 3_000_000
MEMBER_BYTES = 512
# At most this many bytes, or this many times the archive's own size.
EXPANDED_BYTES = 256 * 2**20
EXPANDED_FACTOR = 100

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Parts = tuple[bytes, ...]

BLOCK = 512
# Of one member. Linux limits all extended attributes of a file to 64 KiB.
HEADER_BYTES = 2**17
# tarfile has no name for the types of a folder with a list of files and of a volume's label.
DUMPED_FOLDER, LABEL = b"D", b"V"

FILE, FOLDER, LINK, HARD_LINK, SPECIAL = "file", "folder", "link", "hard link", "special"
_KINDS = {
    **dict.fromkeys(tarfile.REGULAR_TYPES, FILE),
    **dict.fromkeys((tarfile.DIRTYPE, DUMPED_FOLDER), FOLDER),
    **dict.fromkeys((tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE), SPECIAL),
    tarfile.LNKTYPE: HARD_LINK,
    tarfile.SYMTYPE: LINK,
}


class ArchiveError(UserError):
    """A member is refused; the message names it."""


def split_name(name: bytes) -> Parts:
    """Return the components of a member's name without `.` and empty ones.

    Raise ArchiveError for absolute names, `..`, NUL, and names that are too long or too deep.
    """
    parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
    faults = {
        "a NUL byte in its name": b"\0" in name,
        "an absolute path": name.startswith(b"/"),
        "`..` in its path": b".." in parts,
        f"a path of over {PATH_BYTES} bytes": len(name) > PATH_BYTES,
        f"a name of over {NAME_BYTES} bytes": any(len(part) > NAME_BYTES for part in parts),
        f"over {MAX_DEPTH} folders in its path": len(parts) > MAX_DEPTH,
    }
    for fault, is_present in faults.items():
        if is_present:
            raise ArchiveError(f"{shown(name)} has {fault}")
    return parts


def shown(name: bytes | str) -> str:
    return f"'{one_line(name, 80)}'"


class ContainedFolder:
    """Write files, folders and links below an existing folder, within limits.

    close() creates symbolic links, after all files, so that no member can be written through one. As in tar,
    a member replaces a file, a link or an empty folder of its name; `replaced` counts the files and links.
    A folder with content, and a file or link in the place of a member's folder, raise OSError. The members
    may have EXPANDED_FACTOR times `archive_bytes` in total, or `expanded`.
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
        if parts:
            with self._parent(parts) as (folder, name), suppress(IsADirectoryError):
                self._remove_file(parts, folder, name)
        with self._open(parts):
            pass

    def add_file(self, parts: Parts, chunks: Iterable[bytes], *, mode: int = 0o644) -> None:
        self.count_member()
        with self._parent(parts) as (folder, name):
            self._remove(parts, folder, name)
            file = os.open(name, _NEW_FILE, 0o600, dir_fd=folder)
            with os.fdopen(file, "wb") as out:
                for chunk in chunks:
                    self._count_bytes(len(chunk))
                    out.write(chunk)
                os.fchmod(out.fileno(), mode)

    def add_link(self, parts: Parts, target: bytes) -> None:
        self.count_member(len(target))
        if not target or b"\0" in target or len(target) > PATH_BYTES:
            raise ArchiveError(
                f"the target of the link {shown(b'/'.join(parts))} is empty, too long, or has a NUL byte"
            )
        if self._links.get(parts) != target:
            with self._parent(parts) as (folder, name):
                self._remove(parts, folder, name)
        self._links[parts] = target

    def add_hard_link(self, parts: Parts, first: Parts) -> None:
        """Create a second name of an earlier file, or a second link.

        Its size counts again, because a repository stores it again.
        """
        if first in self._links:
            self.add_link(parts, self._links[first])
            return
        with self._parent(first) as (source, old), self._parent(parts) as (folder, new):
            self.count_member(os.lstat(old, dir_fd=source).st_size)
            if first == parts:  # GNU tar writes a file that it packs again as a link to itself
                return
            self._remove(parts, folder, new)
            os.link(old, new, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)

    def close(self) -> None:
        for parts, target in self._links.items():
            with self._parent(parts) as (folder, name):
                os.symlink(target, name, dir_fd=folder)

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

    def _remove(self, parts: Parts, folder: int, name: bytes) -> None:
        try:
            self._remove_file(parts, folder, name)
        except IsADirectoryError:
            os.rmdir(name, dir_fd=folder)

    def _remove_file(self, parts: Parts, folder: int, name: bytes) -> None:
        if self._links.pop(parts, None):
            self.replaced += 1
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
            self.replaced += 1

    @contextmanager
    def _parent(self, parts: Parts) -> Iterator[tuple[int, bytes]]:
        if not parts:
            raise ArchiveError("its own folder is a file or a link")
        with self._open(parts[:-1]) as folder:
            yield folder, parts[-1]

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
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)


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
    """Return True for the first block of a .tar. An empty one is zeros only."""
    try:
        tarfile.TarInfo.frombuf(start, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return len(start) == BLOCK and not any(start)
    return True


class _TarStream:
    """The file of a TarFile. It limits the memory of headers, and is only read, not sought in."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._at = 0
        self.unread = HEADER_BYTES
        self.last = b""

    def tell(self) -> int:
        return self._at

    def read(self, size: int) -> bytes:
        self.unread -= size
        if self.unread < 0:
            raise ArchiveError(f"the headers of a member are larger than {HEADER_BYTES} bytes")
        self.last = b"".join(self.content(size))
        # Python before 3.11.10 searches them in quadratic time.
        if re.search(rb"[0-9]{999}", self.last):
            raise ArchiveError("a tar header has a number of 999 digits")
        return self.last

    def content(self, size: int) -> Iterator[bytes]:
        while size > 0:
            chunk = self._stream.read(min(size, CHUNK))
            if not chunk:
                raise ArchiveError("the archive ends before its end mark")
            self._at += len(chunk)
            size -= len(chunk)
            yield chunk

    def padded(self, size: int) -> Iterator[bytes]:
        yield from self.content(size)
        for _ in self.content(-size % BLOCK):
            pass


def read_members(stream: Stream) -> Iterator[Member]:
    """Yield the members in order. Raise ArchiveError if the archive is damaged or cut short.

    The content of a member can be read until the next member is asked for.
    """
    file = _TarStream(stream)
    try:
        archive = tarfile.TarFile(
            fileobj=cast(BinaryIO, file), encoding="utf-8", errors="surrogateescape"
        )
        header = archive.next()
        while header:
            if header.type != LABEL:
                file.unread = HEADER_BYTES
                member = _member(header, file)
                yield member
                for _ in member.content:
                    pass
            # next() would keep all headers in memory, and take a damaged one for the end.
            header = tarfile.TarInfo.fromtarfile(archive)
    except tarfile.TarError as error:
        if any(file.last):
            raise ArchiveError("a tar header is damaged") from error
    # A compressed stream has its checksum at its end.
    for _ in range(16):
        if not stream.read(CHUNK):
            break


def _member(member: tarfile.TarInfo, file: _TarStream) -> Member:
    name, target = (
        text.encode("utf-8", "surrogateescape") for text in (member.name, member.linkname)
    )
    if member.issparse():
        raise ArchiveError(f"{shown(name)} is stored as a sparse file")
    if member.type not in _KINDS:
        raise ArchiveError(f"{shown(name)} has the unknown type {shown(member.type)}")
    kind = _KINDS[member.type]
    if kind == FILE and name.endswith(b"/"):
        kind = FOLDER
    # Some programs give a size to links and folders, with no content behind the header.
    size = member.size if kind == FILE or member.type == DUMPED_FOLDER else 0
    if size < 0:
        raise ArchiveError(f"the size of {shown(name)} is negative")
    return Member(name, kind, size, member.mode, target, file.padded(size))

"""Write the members of an archive into one folder that the kernel keeps them inside.

Each folder on the way is opened by its single name with O_NOFOLLOW, relative to the one above it. A name has
no slash and is not `..`, so no call can leave the folder. Unlike openat2(RESOLVE_BENEATH), this works on each
kernel and with paths longer than PATH_MAX.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vcsbench.external import printable

NAME_BYTES = 255
PATH_BYTES = 4095
# shutil.rmtree and os.walk of Python 3.11 recurse once per folder.
DEPTH = 256
MEMBERS = 2_000_000
# A member costs an inode and a directory entry, also when it is empty.
MEMBER_BYTES = 512
# An archive may expand to this many bytes, or to this many times its own size.
EXPANDED_BYTES = 256 * 2**20
EXPANDED_FACTOR = 100

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Parts = tuple[bytes, ...]


class ArchiveError(Exception):
    """Report a member that is refused; the message names it."""


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
    if len(parts) > DEPTH:
        raise ArchiveError(f"{shown(name)} is nested deeper than {DEPTH} folders")
    return parts


def shown(name: bytes | str) -> str:
    """Return a name in quotes, printable on one line and at most 80 characters long."""
    text = printable(name).replace("\n", "\\n")
    return f"'{text if len(text) <= 80 else text[:77] + '...'}'"


class ContainedFolder:
    """Write files, folders and links below an existing folder, within limits.

    Symbolic links are created by close(), after all files, so that no member can be written through one.
    `archive_bytes` is the size of the archive. The members may have EXPANDED_FACTOR times as many bytes in
    total, or `expanded`, by default EXPANDED_BYTES.
    """

    def __init__(self, path: Path, archive_bytes: int, expanded: int | None = None) -> None:
        self._root = os.open(path, _FOLDER)
        room = os.fstatvfs(self._root)
        self._limit = max(expanded or EXPANDED_BYTES, EXPANDED_FACTOR * archive_bytes)
        self._room = room.f_bavail * room.f_frsize
        self._bytes = self._members = 0
        self._links: dict[Parts, bytes] = {}
        self.replaced = 0

    def __enter__(self) -> ContainedFolder:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._root)

    def add_folder(self, parts: Parts) -> None:
        """Create a folder and those above it."""
        self._count(MEMBER_BYTES, 1)
        with self._open(parts):
            pass

    def add_file(self, parts: Parts, chunks: Iterable[bytes], *, mode: int = 0o644) -> None:
        """Create a file from its chunks. A file of the same name is replaced, as tar does."""
        self._count(MEMBER_BYTES, 1)
        if not parts or parts in self._links:
            raise ArchiveError(f"{_joined(parts)} is a file, and a folder or link too")
        with self._open(parts[:-1]) as folder:
            self._make_room(folder, parts)
            file = os.open(parts[-1], _NEW_FILE, 0o600, dir_fd=folder)
            with os.fdopen(file, "wb") as out:
                for chunk in chunks:
                    self._count(len(chunk), 0)
                    out.write(chunk)
                # The umask of the caller and the set-uid bits of the archive take no part.
                os.fchmod(out.fileno(), mode)

    def add_link(self, parts: Parts, target: bytes) -> None:
        """Remember a symbolic link, which close() creates."""
        self._count(MEMBER_BYTES + len(target), 1)
        if not target or b"\0" in target or len(target) > PATH_BYTES:
            raise ArchiveError(
                f"the link {_joined(parts)} has an empty target, or one with a NUL byte, or over "
                f"{PATH_BYTES} bytes"
            )
        if not parts:
            raise ArchiveError("the folder of the archive is a link")
        with self._open(parts[:-1]) as folder:
            if _state(folder, parts[-1]):
                raise ArchiveError(f"{_joined(parts)} is a link, and a file or folder too")
        self._links[parts] = target

    def add_hard_link(self, parts: Parts, first: Parts) -> None:
        """Create a second name of a file, or a second link, that the archive has before.

        Its size counts again, because a repository stores it again.
        """
        if first in self._links:
            self.add_link(parts, self._links[first])
            return
        if not parts or not first or parts in self._links or parts == first:
            raise ArchiveError(f"{_joined(parts)} is a hard link to itself, a folder or a link")
        with self._open(first[:-1]) as there, self._open(parts[:-1]) as folder:
            state = _state(there, first[-1])
            if not state or not stat.S_ISREG(state.st_mode):
                raise ArchiveError(
                    f"{_joined(parts)} is a hard link to {_joined(first)}, and no file of that name "
                    "comes before it"
                )
            self._count(MEMBER_BYTES + state.st_size, 1)
            self._make_room(folder, parts)
            os.link(
                first[-1], parts[-1], src_dir_fd=there, dst_dir_fd=folder, follow_symlinks=False
            )

    def count_left_out(self) -> None:
        """Count a member that is not written, for the limits."""
        self._count(MEMBER_BYTES, 1)

    def close(self) -> None:
        """Create the symbolic links."""
        for parts, target in self._links.items():
            with self._open(parts[:-1]) as folder:
                if _state(folder, parts[-1]):
                    raise ArchiveError(f"{_joined(parts)} is a link, and a file or folder too")
                os.symlink(target, parts[-1], dir_fd=folder)

    def _count(self, size: int, members: int) -> None:
        self._members += members
        self._bytes += size
        if self._members > MEMBERS:
            raise ArchiveError(f"it has more than {MEMBERS} members")
        if self._bytes > self._limit:
            raise ArchiveError(
                f"it expands to more than {self._limit >> 20} MiB, too much for an archive of its size"
            )
        if self._bytes > self._room:
            raise ArchiveError(f"it expands to more than the {self._room >> 20} MiB that are free")

    def _make_room(self, folder: int, parts: Parts) -> None:
        """Remove an earlier file of the same name."""
        state = _state(folder, parts[-1])
        if state and not stat.S_ISREG(state.st_mode):
            raise ArchiveError(f"{_joined(parts)} is a file, and a folder or link too")
        if state:
            os.unlink(parts[-1], dir_fd=folder)
            self.replaced += 1

    @contextmanager
    def _open(self, parts: Parts) -> Iterator[int]:
        """Yield the descriptor of a folder below the root; it and those above it are created."""
        folder = os.dup(self._root)
        try:
            for part in parts:
                try:
                    inner = os.open(part, _FOLDER, dir_fd=folder)
                except FileNotFoundError:
                    self._count(MEMBER_BYTES, 1)
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


def _joined(parts: Parts) -> str:
    return shown(b"/".join(parts))

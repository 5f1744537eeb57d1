"""A directory as a source: one commit to trunk."""

import os
import shutil
import stat
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import CHUNK, one_line, open_regular, printable
from vcsbench.sources import dump_format
from vcsbench.sources.base import (
    TRUNK,
    Facts,
    Head,
    LocalSource,
    SizeEstimate,
    can_others_read,
    check_space,
    digest_of,
    notes_of,
    readable,
)
from vcsbench.storages.file_trees import PATH_BYTES, entries

REVISIONS = 1
# A constant, because the same tree must give the same bytes.
DATE = b"2000-01-01T00:00:00.000000Z"
REPOSITORY_FACTOR = 0.5
# Not set-uid: a copy belongs to the user who runs vcsbench, and a stranger's program would run as that
# user.
MODE_BITS = 0o777
ADMINISTRATIVE = "Administrative folders of version control systems left out"
SPECIAL = "Pipes, devices and sockets left out"
LINKED = "Hard links made separate files"
NO_FILES = "has no files, apart from folders of version control systems, pipes and devices"


class NamedEntry(NamedTuple):
    """A folder, file or link below a root. `name` is its relative path as Subversion can have it."""

    path: str
    name: bytes
    state: os.stat_result


def _list_tree(root: Path, counts: Counter[str]) -> Iterator[NamedEntry]:
    administrative = Counter[str]()
    for path, state in entries(root, administrative):
        kind = stat.S_IFMT(state.st_mode)
        if kind not in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
            counts[SPECIAL] += 1
            continue
        old = os.fsencode(os.path.relpath(path, root))
        name = dump_format.subversion_path(old)
        counts[dump_format.RENAMED] += name != old
        if len(name) > PATH_BYTES:
            raise UserError(
                f"{printable(os.fspath(root))}: a path is longer than {PATH_BYTES} bytes: "
                f"{printable(name[:60])}... . Choose a folder further down."
            )
        yield NamedEntry(path, name, state)
    counts[ADMINISTRATIVE] += administrative.total()


def _has_files(root: Path) -> bool:
    return any(stat.S_ISREG(s.st_mode) or stat.S_ISLNK(s.st_mode) for _, s in entries(root))


def has_closed_entry(root: Path) -> bool:
    return any(
        not can_others_read(state)
        for _, state in entries(root)
        if stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)
    )


def _tree_records(root: Path, counts: Counter[str]) -> Iterator[bytes]:
    top = TRUNK.encode()
    yield dump_format.directory(top)
    seen = set[tuple[int, int]]()
    for path, name, state in _list_tree(root, counts):
        at = top + b"/" + name
        if stat.S_ISDIR(state.st_mode):
            yield dump_format.directory(at)
        elif stat.S_ISLNK(state.st_mode):
            properties, text = dump_format.link(os.readlink(os.fsencode(path)))
            counts[dump_format.LINKS] += not properties
            yield dump_format.file(at, b"add", properties=properties, text=text)
        else:
            counts[LINKED] += (state.st_dev, state.st_ino) in seen
            seen.add((state.st_dev, state.st_ino))
            properties = dump_format.EXECUTABLE if state.st_mode & stat.S_IXUSR else {}
            with open(open_regular(path, follow_links=False), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                chunks = _read(file, size, path)
                yield from dump_format.file_records(at, b"add", b"", properties, size, chunks)


def _read(file: BinaryIO, size: int, path: str) -> Iterator[bytes]:
    while size > 0:
        chunk = file.read(min(size, CHUNK))
        if not chunk:
            break
        size -= len(chunk)
        yield chunk
    if size > 0:
        raise UserError(f"{printable(path)}: the file became shorter while it was read. Run again.")


def copy_directory(source: Path, folder: Path) -> list[str]:
    """Copy the tree of a directory to a new folder and return notes on changes and omissions.

    Names are as in the loaded history. Modes, times and hard links stay.
    """
    counts = Counter[str]()
    with readable(source):
        sizes = (s.st_size for _, s in entries(source) if stat.S_ISREG(s.st_mode))
        check_space(sum(sizes), folder.parent, one_line(source))
        folder.mkdir(mode=0o700)
        folders = [(os.stat(source), os.fsencode(folder))]
        copies = dict[tuple[int, int], bytes]()
        for path, name, state in _list_tree(source, counts):
            at = os.fsencode(folder) + b"/" + name
            if stat.S_ISDIR(state.st_mode):
                os.mkdir(at, 0o700)
                folders.append((state, at))
                continue
            first = copies.setdefault((state.st_dev, state.st_ino), at)
            if first != at:
                os.link(first, at, follow_symlinks=False)
            elif stat.S_ISREG(state.st_mode):
                _copy_file(path, at)
            else:
                target = os.readlink(os.fsencode(path))
                if dump_format.is_link_target(target):
                    os.symlink(target, at)
                    _copy_times(state, at)
                else:
                    counts[dump_format.LINKS] += 1
                    Path(os.fsdecode(at)).write_bytes(target)
        # Last, because a folder may be read-only.
        for state, at in reversed(folders):
            os.chmod(at, state.st_mode & MODE_BITS)
            _copy_times(state, at)
    return notes_of(counts)


def _copy_file(path: str, at: bytes) -> None:
    with open(open_regular(path, follow_links=False), "rb") as file, open(at, "xb") as copy:
        shutil.copyfileobj(file, copy)
        state = os.fstat(file.fileno())
        os.fchmod(copy.fileno(), state.st_mode & MODE_BITS)
    _copy_times(state, at)


def _copy_times(state: os.stat_result, at: bytes) -> None:
    os.utime(at, ns=(state.st_atime_ns, state.st_mtime_ns), follow_symlinks=False)


class DirectorySource(LocalSource):
    """A directory."""

    kind = "directory"

    def identity(self) -> str:
        self.check()
        with readable(self._path):
            states = [
                (os.path.relpath(path, self._path), s.st_mode, s.st_size, s.st_mtime_ns)
                for path, s in entries(self._path)
            ]
        return digest_of("directory", self._path.resolve(), states)

    def check(self) -> None:
        if not self._path.is_dir():
            what = "is no folder" if self._path.exists() else "does not exist"
            raise self._wrong(f"{what}. Check the path.")
        if not os.access(self._path, os.R_OK | os.X_OK):
            raise self._wrong("cannot be read. Check its permissions.")
        with readable(self._path):
            if not _has_files(self._path):
                raise self._wrong(f"{NO_FILES}. Give another folder.")

    def describe(self) -> str:
        return f"the directory {self._path}, as one commit"

    def head(self) -> Head:
        return {"kind": self.kind, "path": str(self._path)}

    def coming(self) -> int:
        return REVISIONS

    def tree(self, loaded: Path | None = None) -> str:
        return TRUNK

    @cached_property
    def _estimate(self) -> SizeEstimate:
        sizes = [entry.state.st_size for entry in _list_tree(self._path, Counter())]
        return SizeEstimate(REVISIONS, int(sum(sizes) * REPOSITORY_FACTOR), len(sizes), sum(sizes))

    def write(self, out: BinaryIO) -> Facts:
        counts = Counter[str]()
        with readable(self._path):
            out.write(dump_format.header(str(uuid.uuid5(uuid.NAMESPACE_OID, self.identity()))))
            for number in range(REVISIONS + 1):
                out.write(dump_format.revision(number, {b"svn:date": DATE}))
            out.writelines(_tree_records(self._path, counts))
            out.flush()
        return Facts(REVISIONS, notes_of(counts))

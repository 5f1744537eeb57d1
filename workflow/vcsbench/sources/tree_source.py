"""A directory, or an archive that is unpacked for it, as a source: one commit to trunk."""

import os
import shutil
import stat
import struct
import uuid
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import CHUNK, one_line, open_regular, printable
from vcsbench.sources import archives, dump_format
from vcsbench.sources.archives import ArchiveError, ContainedFolder, Parts, shown, split_name
from vcsbench.sources.base import (
    DAMAGED,
    TRUNK,
    Facts,
    Head,
    LocalSource,
    SizeEstimate,
    can_others_read,
    check_space,
    digest_of,
    digest_of_file,
    notes_of,
    opened,
    readable,
)
from vcsbench.sources.dump_source import why_no_dump
from vcsbench.storages.file_trees import PATH_BYTES, entries
from vcsbench.storages.workdir import run_folder

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
SPECIAL_MEMBER = "Pipes, devices and sockets of the archive left out"
REPLACED = "Files and links replaced by a later member of the same name in the archive"
NO_ARCHIVE = "is no archive. Give a .tar, plain or as .gz, .xz or .zst, or a .zip."
NO_FILES = "has no files, apart from folders of version control systems, pipes and devices"
# The first member of a .zip, a .zip without members, and the first part of several.
_ZIP_STARTS = (b"PK\3\4", b"PK\5\6", b"PK\7\x08")
_ENCRYPTED, _UTF_8 = 1, 0x800
_MADE_ON_UNIX = (3, 19)
_DAMAGED = (
    *(*DAMAGED, zipfile.BadZipFile, struct.error, MemoryError, RuntimeError),
    *(ValueError, LookupError, ArithmeticError, TypeError),
)


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
    while size and (chunk := file.read(min(size, CHUNK))):
        size -= len(chunk)
        yield chunk
    if size:
        raise UserError(f"{printable(path)}: the file became shorter while it was read. Run again.")


def extract_tree(kind: str, source: Path, folder: Path, temporary: Path) -> list[str]:
    """Write the tree of a directory or archive to a new folder and return notes on changes and omissions.

    Names are as in the loaded history. Modes, times and hard links stay. `temporary` is an empty folder on
    the same file system, for the archive.
    """
    counts = Counter[str]()
    with readable(source):
        root = unpack(source, temporary, counts) if kind == ArchiveSource.kind else source
        write_file = _copy_file if root == source else os.rename
        if root == source:
            sizes = (s.st_size for _, s in entries(root) if stat.S_ISREG(s.st_mode))
            check_space(sum(sizes), folder.parent, one_line(source))
        folder.mkdir(mode=0o700)
        folders = [(os.stat(root), os.fsencode(folder))]
        copies = dict[tuple[int, int], bytes]()
        for path, name, state in _list_tree(root, counts):
            at = os.fsencode(folder) + b"/" + name
            if stat.S_ISDIR(state.st_mode):
                os.mkdir(at, 0o700)
                folders.append((state, at))
                continue
            first = copies.setdefault((state.st_dev, state.st_ino), at)
            if first != at:
                os.link(first, at, follow_symlinks=False)
            elif stat.S_ISREG(state.st_mode):
                write_file(path, at)
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


class _TreeSource(LocalSource):
    def describe(self) -> str:
        return f"the {self.kind} {self._path}, as one commit"

    def head(self) -> Head:
        return {"kind": self.kind, "path": str(self._path)}

    def coming(self) -> int:
        return REVISIONS

    def tree(self, loaded: Path | None = None) -> str:
        return TRUNK

    @contextmanager
    def _open(self, counts: Counter[str]) -> Iterator[Path]:
        yield self._path

    @cached_property
    def _estimate(self) -> SizeEstimate:
        """Measure the tree. An archive is unpacked for that, so a damaged one is refused before a run."""
        with self._open(Counter()) as root:
            sizes = [entry.state.st_size for entry in _list_tree(root, Counter())]
        return SizeEstimate(REVISIONS, int(sum(sizes) * REPOSITORY_FACTOR), len(sizes), sum(sizes))

    def write(self, out: BinaryIO) -> Facts:
        counts = Counter[str]()
        with readable(self._path), self._open(counts) as root:
            out.write(dump_format.header(str(uuid.uuid5(uuid.NAMESPACE_OID, self.identity()))))
            for number in range(REVISIONS + 1):
                out.write(dump_format.revision(number, {b"svn:date": DATE}))
            out.writelines(_tree_records(root, counts))
            out.flush()
            return Facts(REVISIONS, notes_of(counts))


class DirectorySource(_TreeSource):
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


class ArchiveSource(_TreeSource):
    """An archive: .tar, .tar.gz, .tar.xz, .tar.zst or .zip, recognised by its first bytes.

    A single folder at its top is left out.
    """

    kind = "archive"

    def identity(self) -> str:
        self.check()
        return digest_of_file(self.kind, self._path)

    def check(self) -> None:
        self._check_file()
        if not is_archive(self._path):
            raise self._wrong(why_no_dump(self._path) or NO_ARCHIVE)

    @contextmanager
    def _open(self, counts: Counter[str]) -> Iterator[Path]:
        with run_folder(os.getcwd()) as folder:
            yield unpack(self._path, folder, counts)


def is_archive(path: Path) -> bool:
    if _is_zip(path):
        return True
    try:
        with opened(path) as file:
            return archives.is_tar(file.read(archives.BLOCK))
    except DAMAGED:
        return False


def unpack(path: Path, folder: Path, counts: Counter[str] | None = None) -> Path:
    """Unpack an archive into an empty folder and return the folder of its tree.

    That is `folder`, or the single folder in it, which is then called `tree`. Count omissions and
    replacements in `counts`. Nothing is written outside `folder`. Raise UserError for damaged archives.
    """
    counts = Counter() if counts is None else counts
    try:
        with ContainedFolder(folder, path.stat().st_size) as contained:
            (_unzip if _is_zip(path) else _untar)(path, contained, counts)
            contained.close()
            counts[REPLACED] += contained.replaced
    except (ArchiveError, *_DAMAGED) as error:
        text = one_line(str(error)).rstrip(".")[:200] or type(error).__name__
        if isinstance(error, OSError) and error.errno:
            text = f"{shown(error.filename2 or error.filename or path.name)}: {os.strerror(error.errno)}"
        raise UserError(
            f"{one_line(path)}: cannot be unpacked: {text}. Pack the tree again as a plain .tar."
        ) from error
    if not _has_files(folder):
        raise UserError(f"{one_line(path)}: cannot be unpacked: it {NO_FILES}. Give another one.")
    (first, *others) = folder.iterdir()
    if others or first.is_symlink() or not first.is_dir():
        return folder
    # A name that a program can print, whatever the archive calls it.
    return first.rename(folder / "tree")


def _is_zip(path: Path) -> bool:
    """Return True if a file begins as .zip. A .tar that ends in a .zip is a .tar."""
    with open(open_regular(path), "rb") as file:
        return file.read(4).startswith(_ZIP_STARTS)


def _untar(path: Path, contained: ContainedFolder, counts: Counter[str]) -> None:
    special = set[Parts]()
    with opened(path) as file:
        for member in archives.read_members(file):
            parts = split_name(member.name)
            if member.kind == archives.SPECIAL:
                contained.count_member()
                special.add(parts)
                counts[SPECIAL_MEMBER] += 1
            elif member.kind == archives.FOLDER:
                contained.add_folder(parts)
            elif member.kind == archives.LINK:
                contained.add_link(parts, member.target)
            elif member.kind == archives.FILE:
                contained.add_file(parts, member.content, mode=_mode(member.mode))
            elif (first := split_name(member.target)) in special:
                counts[SPECIAL_MEMBER] += 1
            else:
                contained.add_hard_link(parts, first)


def _unzip(path: Path, contained: ContainedFolder, counts: Counter[str]) -> None:
    are_links = dict[Parts, bool]()
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = _name_in_zip(member)
            parts = split_name(name)
            mode = member.external_attr >> 16 if member.create_system in _MADE_ON_UNIX else 0
            kind = stat.S_IFMT(mode)
            is_link = kind == stat.S_IFLNK
            if are_links.setdefault(parts, is_link) != is_link:
                raise ArchiveError(f"{shown(name)} is a link, and also a file or folder")
            if name.endswith(b"/") or kind == stat.S_IFDIR:
                contained.add_folder(parts)
            elif kind not in (0, stat.S_IFREG, stat.S_IFLNK):
                contained.count_member()
                counts[SPECIAL_MEMBER] += 1
            elif member.flag_bits & _ENCRYPTED:
                raise ArchiveError(f"{shown(name)} is encrypted with a password")
            elif is_link:
                with archive.open(member) as file:
                    contained.add_link(parts, file.read(archives.PATH_BYTES + 1))
            else:
                contained.add_file(parts, _chunks(archive, member), mode=_mode(mode))


def _name_in_zip(member: zipfile.ZipInfo) -> bytes:
    """Return the name of a member, with slashes. Programs on Unix store the bytes of the name."""
    # ZipInfo.filename is cut at a NUL byte.
    name = member.orig_filename
    if member.create_system in _MADE_ON_UNIX:
        return name.encode("utf-8" if member.flag_bits & _UTF_8 else "cp437")
    return name.replace("\\", "/").encode()


def _mode(mode: int) -> int:
    return 0o755 if mode & stat.S_IXUSR else 0o644


def _chunks(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(member) as file:
        while chunk := file.read(CHUNK):
            yield chunk

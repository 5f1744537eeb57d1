"""Unpack archives. `python -m vcsbench.sources.tree.unpack ARCHIVE FOLDER` prints the folder of the tree."""

from __future__ import annotations

import lzma
import os
import stat
import struct
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from vcsbench.contained import PATH_BYTES, ArchiveError, ContainedFolder, Parts, shown, split_name
from vcsbench.errors import UserError
from vcsbench.external import open_regular, printable
from vcsbench.sources.dump.compressed import DAMAGED, opened
from vcsbench.sources.tree import tarstream

LEFT_OUT = "a pipe, device or socket in the archive was left out"
REPLACED = "a file was replaced by a later one of the same name in the archive"
# The first member, an archive without members, and the first part of several.
_ZIP_STARTS = (b"PK\3\4", b"PK\5\6", b"PK\7\x08")
_ENCRYPTED = 1
_MADE_ON_UNIX = (3, 19)
# The errors that zipfile raises for damaged, encrypted and unknown members.
_DAMAGED = (
    *DAMAGED,
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, MemoryError, RecursionError),
    *(RuntimeError, NotImplementedError, ValueError, LookupError, ArithmeticError, TypeError),
)


def is_archive(path: Path) -> bool:
    """Return True if a file begins like an archive that unpack() reads."""
    if _is_zip(path):
        return True
    try:
        with opened(path) as file:
            return tarstream.is_tar(file.read(tarstream.BLOCK))
    except (EOFError, OSError, *DAMAGED):
        return False


def unpack(path: Path, folder: Path, counts: Counter[str] | None = None) -> Path:
    """Unpack an archive into an empty folder and return the folder of its tree.

    That is `folder`, or the single folder in it, which is then called `tree`. Add members that were left out
    or replaced to `counts`. Nothing is written outside `folder`. Raise UserError for damaged archives.
    """
    counts = Counter() if counts is None else counts
    try:
        with ContainedFolder(folder, path.stat().st_size) as contained:
            (_unzip if _is_zip(path) else _untar)(path, contained, counts)
            contained.close()
            counts[REPLACED] += contained.replaced
    except UserError:
        raise
    except (ArchiveError, OSError, *_DAMAGED) as error:
        raise UserError(
            f"{shown_path(path)}: cannot be unpacked: {_reason(error)}. Pack the tree again as a plain .tar."
        ) from error
    inside = list(folder.iterdir())
    if not inside:
        raise UserError(f"{shown_path(path)}: cannot be unpacked: it has no files.")
    if len(inside) > 1 or inside[0].is_symlink() or not inside[0].is_dir():
        return folder
    # A name that a program can print, whatever the archive calls it.
    return inside[0].rename(folder / "tree")


def shown_path(path: Path) -> str:
    """Return a path that is safe to print."""
    return printable(os.fspath(path)).replace("\n", "\\n")


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    text = printable(str(error)).replace("\n", "\\n").rstrip(".")
    return text[:200] or type(error).__name__


def _is_zip(path: Path) -> bool:
    """Return True if a file begins as .zip. A .tar that ends in a .zip is a .tar."""
    with open(open_regular(path), "rb") as file:
        return file.read(4).startswith(_ZIP_STARTS)


def _untar(path: Path, contained: ContainedFolder, counts: Counter[str]) -> None:
    special = set[Parts]()
    with opened(path) as file:
        for member in tarstream.read_members(file):
            parts = split_name(member.name)
            mode = _mode(member.mode)
            if member.kind == tarstream.SPECIAL:
                contained.count_left_out()
                special.add(parts)
                counts[LEFT_OUT] += 1
            elif member.kind == tarstream.FOLDER:
                contained.add_folder(parts)
            elif member.kind == tarstream.LINK:
                contained.add_link(parts, member.target)
            elif member.kind == tarstream.FILE:
                contained.add_file(parts, member.content, mode=mode)
            elif (first := split_name(member.target)) in special:
                counts[LEFT_OUT] += 1
            else:
                contained.add_hard_link(parts, first)


def _unzip(path: Path, contained: ContainedFolder, counts: Counter[str]) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            # ZipInfo.filename is cut at a NUL byte.
            name = member.orig_filename.encode("utf-8", "surrogateescape")
            parts = split_name(name)
            mode = member.external_attr >> 16 if member.create_system in _MADE_ON_UNIX else 0
            kind = stat.S_IFMT(mode)
            if name.endswith(b"/") or kind == stat.S_IFDIR:
                contained.add_folder(parts)
            elif kind not in (0, stat.S_IFREG, stat.S_IFLNK):
                contained.count_left_out()
                counts[LEFT_OUT] += 1
            elif member.flag_bits & _ENCRYPTED:
                raise ArchiveError(f"{shown(name)} is encrypted with a password")
            elif kind == stat.S_IFLNK:
                contained.add_link(parts, _target(archive, member))
            else:
                chunks = _chunks(archive, member)
                contained.add_file(parts, chunks, mode=_mode(mode))


def _mode(mode: int) -> int:
    """Return the mode of a file: only the right to execute is kept."""
    return 0o755 if mode & stat.S_IXUSR else 0o644


def _target(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the target of a link; one byte too much shows that it is too long."""
    with archive.open(member) as file:
        return file.read(PATH_BYTES + 1)


def _chunks(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(member) as file:
        while chunk := file.read(tarstream.CHUNK):
            yield chunk


if __name__ == "__main__":
    try:
        print(unpack(Path(sys.argv[1]), Path(sys.argv[2])), end="")
    except UserError as error:
        sys.exit(str(error))

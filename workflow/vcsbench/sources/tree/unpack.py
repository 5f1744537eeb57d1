"""Unpacks archives; python -m vcsbench.sources.tree.unpack ARCHIVE FOLDER prints where the tree is then."""

from __future__ import annotations

import os
import stat
import sys
import zipfile
from pathlib import Path

from backports import tarfile

from vcsbench.errors import UserError
from vcsbench.sources.dump.compressed import DAMAGED, opened

# Where tar's magic is in its first block.
_MAGIC_AT = 257


def is_archive(path: Path) -> bool:
    """Whether a file begins as an archive does that can be unpacked."""
    if zipfile.is_zipfile(path):
        return True
    try:
        with opened(path) as file:
            return file.read(_MAGIC_AT + 5)[_MAGIC_AT:] == b"ustar"
    except (EOFError, *DAMAGED):
        return False


def unpack(path: Path, folder: Path) -> Path:
    """Unpack an archive into an empty folder; nothing gets outside of it. Returns the tree: what is in it, or
    the only folder in it. A UserError where the archive is damaged."""
    try:
        _unzip(path, folder) if zipfile.is_zipfile(path) else _untar(path, folder)
    except (OSError, tarfile.TarError, zipfile.BadZipFile, *DAMAGED) as error:
        raise UserError(f"{path}: cannot be unpacked: {error}") from error
    inside = list(folder.iterdir())
    alone = len(inside) == 1 and inside[0].is_dir() and not inside[0].is_symlink()
    return inside[0] if alone else folder


def _untar(path: Path, folder: Path) -> None:
    with opened(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
        # Links out of the tree stay links: they are only ever read as such.
        archive.extractall(folder, filter=_inside)


def _inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    if member.issym():
        there = os.path.realpath(os.path.join(folder, os.path.dirname(member.name)))
        return member if (there + os.sep).startswith(os.path.realpath(folder) + os.sep) else None
    if not (member.isreg() or member.isdir() or member.islnk()):
        return None
    return tarfile.data_filter(member, folder)


def _unzip(path: Path, folder: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            if stat.S_ISLNK(mode):
                target = folder / member.filename
                if folder.resolve() in target.resolve().parents:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.symlink_to(os.fsdecode(archive.read(member)))
                continue
            there = archive.extract(member, folder)
            if mode & stat.S_IXUSR and os.path.isfile(there):
                os.chmod(there, 0o755)


if __name__ == "__main__":
    try:
        print(unpack(Path(sys.argv[1]), Path(sys.argv[2])), end="")
    except UserError as error:
        sys.exit(str(error))

"""Find configured files and compute their digests, by names and contents."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

# The server configuration next to all others that has the files that these leave out.
DEFAULTS = "default"


def files_digest(folder: Path, names: Sequence[str]) -> str:
    """Return a digest of the files and folders of these names in a folder. Missing ones are left out."""
    return _digest(_files(folder, names))


def server_files(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Return the files of a server configuration, by their paths in it: its own, or the default ones.

    `names` are files and folders.
    """
    own, defaults = dict(_files(folder, names)), dict(_files(folder.parent / DEFAULTS, names))
    return {**defaults, **own}


def server_file(folder: Path, name: str) -> Path:
    """Return one file of a server configuration: its own, or the default one."""
    return server_files(folder, [name]).get(name, folder / name)


def server_files_digest(folder: Path, names: Sequence[str]) -> str:
    """Return a digest of all files that a server configuration uses, the default ones included."""
    files = server_files(folder, names)
    return _digest([pair for name in names for pair in _sorted(files, name)])


def _sorted(files: dict[str, Path], name: str) -> list[tuple[str, Path]]:
    below = [file for file in files if Path(file).parts[0] == name]
    return [(file, files[file]) for file in sorted(below, key=Path)]


def _files(folder: Path, names: Sequence[str]) -> list[tuple[str, Path]]:
    paths = [
        path
        for name in names
        for path in (
            sorted((folder / name).rglob("*")) if (folder / name).is_dir() else [folder / name]
        )
    ]
    return [(str(path.relative_to(folder)), path) for path in paths if path.is_file()]


def _digest(files: Sequence[tuple[str, Path]]) -> str:
    total = hashlib.sha256()
    for name, path in files:
        total.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]

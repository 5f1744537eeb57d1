"""Find and read the files of server configurations, and compute digests of configured files."""

import hashlib
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.external import read_bytes

CONFIGURATION_BYTES = 1 << 20
DEFAULTS = "default"


def files_digest(folder: Path, names: Sequence[str]) -> str:
    return _digest(_list(folder, names))


def server_files(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    return {**dict(_list(folder.parent / DEFAULTS, names)), **dict(_list(folder, names))}


def server_file(folder: Path, name: str) -> Path:
    return server_files(folder, [name]).get(name, folder / name)


def server_files_digest(folder: Path, names: Sequence[str]) -> str:
    return _digest([*server_files(folder, names).items()])


def read_arguments(path: Path) -> list[str]:
    """Return the options in a file of a server configuration. A # starts a comment."""
    try:
        return shlex.split(path.read_text(), comments=True)
    except FileNotFoundError:
        raise missing_server_file(path) from None
    except ValueError as error:
        raise UserError(f"{path}: cannot be read as options: {error}. Correct the file.") from None


def missing_server_file(path: Path) -> UserError:
    """Return the error about a missing file of a server configuration."""
    return UserError(f"{path}: no such file, which the server configuration needs. Add it.")


def _list(folder: Path, names: Sequence[str]) -> list[tuple[str, Path]]:
    paths: list[Path] = []
    for name in names:
        path = folder / name
        if os.path.lexists(path) and not path.is_file() and not path.is_dir():
            raise UserError(f"{path}: this is not a regular file. Replace it, or remove it.")
        paths += path.rglob("*") if path.is_dir() else [path]
    return [(str(path.relative_to(folder)), path) for path in paths if path.is_file()]


def _digest(files: Sequence[tuple[str, Path]]) -> str:
    total = hashlib.sha256()
    for name, path in sorted(files):
        content = read_bytes(path, CONFIGURATION_BYTES)
        try:
            is_text = "\0" not in content.decode()
        except UnicodeDecodeError:
            is_text = False
        if not is_text:
            raise UserError(f"{path}: the file is not text in UTF-8. Save it as UTF-8.")
        total.update(f"{name}\0".encode() + content + b"\0")
    return total.hexdigest()[:16]

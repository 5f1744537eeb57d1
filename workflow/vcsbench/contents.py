"""Digests of configured files, by their names and contents."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path


def files_digest(folder: Path, names: Sequence[str]) -> str:
    """A digest of the files and folders of these names in a folder; what is not there has no part in it."""
    total = hashlib.sha256()
    for name in names:
        path = folder / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                total.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes() + b"\0")
    return total.hexdigest()[:16]

"""What a working copy takes on its file system, by the extents of its files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from vcsbench.storages.extents import NotAsked, use_of


def of(path: Path) -> dict[str, int | None]:
    """`exclusive_bytes` and `shared_bytes` of its files, each shared block counted once; None where the file
    system does not say."""
    try:
        use = use_of(_files(path))
    except NotAsked:
        return {"exclusive_bytes": None, "shared_bytes": None}
    return {"exclusive_bytes": use.exclusive, "shared_bytes": use.shared}


def _files(path: Path) -> Iterator[str]:
    for folder, _, names in os.walk(path):
        for name in names:
            if not os.path.islink(found := os.path.join(folder, name)):
                yield found

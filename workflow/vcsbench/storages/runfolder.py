"""The private folder of a measurement, and what is left of those that were killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vcsbench.processes import command_line
from vcsbench.storages.place import Place, owner_of


@contextmanager
def run_folder(root: str | Path) -> Iterator[Path]:
    """A temporary folder for one measurement of the checkout `root`; its name tells whose it is."""
    with tempfile.TemporaryDirectory(
        prefix=f"{_prefix(root)}{os.getpid()}-", ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def remove_abandoned(root: str | Path, places: Iterable[Place]) -> list[Path]:
    """Remove what measurements of a checkout have left that were killed: their folders, and what their
    commands wrote on the places. Returns what was removed."""
    prefix = _prefix(root)
    found = Path(tempfile.gettempdir()).glob(f"{prefix}*")
    pids = {path: path.name.removeprefix(prefix).split("-")[0] for path in found}
    for place in places:
        pids |= {path: path.name for path in (place.path / "targets").glob("*")}
    removed = []
    for path, pid in pids.items():
        if pid.isdigit() and not _is_measuring(pid) and _is_ours(path):
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


def abandoned_places(storage: Path) -> list[Place]:
    """The places on a storage whose checkout is no more, as after it was moved."""
    found = []
    for path in storage.glob("vcsbench-*"):
        owner = owner_of(path)
        if owner and Place(storage, owner).path == path and not os.path.lexists(owner):
            found.append(Place(storage, owner))
    return found


def _prefix(root: str | Path) -> str:
    return f"{Place('/', root).path.name}-"


def _is_measuring(pid: str) -> bool:
    return any("vcsbench" in word for word in command_line(int(pid)))


def _is_ours(path: Path) -> bool:
    # Anybody may make anything in a folder for temporary files.
    return path.is_dir() and not path.is_symlink() and path.lstat().st_uid == os.geteuid()

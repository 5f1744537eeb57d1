"""Check the folders of a checkout that a session writes to."""

import os
import shlex
from pathlib import Path

from vcsbench.errors import UserError

STATE_FOLDER = ".vcsbench"
WRITTEN = (STATE_FOLDER, ".snakemake", "results", "reports")


def check_session_folders(root: Path, *, allows_dead_links: bool = False) -> None:
    """Raise UserError if a file, or a dead link unless allowed, is in place of a folder of a session."""
    for name in WRITTEN:
        path = root / name
        # For a dead link, a link to nothing, exists() is False and lexists() is True.
        is_there = path.exists() if allows_dead_links else os.path.lexists(path)
        if is_there and not path.is_dir():
            raise UserError(
                f"{path}: this is no folder, and vcsbench writes there. Move it elsewhere."
            )


def check_session_rights(root: Path) -> None:
    """Raise UserError if this user cannot write a folder of a session, or a folder in it."""
    # `make clean` removes dead links.
    check_session_folders(root, allows_dead_links=True)
    folders = [root]
    for name in WRITTEN:
        folders.append(root / name)
        # An earlier session of root may have made a folder in it, which this user cannot write.
        folders += [path for path in (root / name).glob("*") if path.is_dir()]
    for folder in folders:
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            raise UserError(f"{folder}: cannot be written. {how_to_write(folder)}")


def how_to_write(path: Path) -> str:
    """Return the remedy, a sentence, for a path that cannot be written. The path may not exist yet."""
    existing = path if path.exists() else path.parent
    flags = os.statvfs(existing).f_flag if existing.exists() else 0
    if flags & os.ST_RDONLY:
        return "Its file system is read-only: run in a copy of the checkout elsewhere."
    return f"Run as its owner, or give yourself the rights: ls -ld {shlex.quote(str(existing))}."

"""What a copy of a tree has lost of it that most strategies cannot carry."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from vcsbench.files import entries

# By `no-` and these words a flag says so.
MODES, FOLDERS, LINKS = "modes", "empty-folders", "hard-links"


def lost(source: Path, built: Path) -> dict[str, int]:
    """How many files have other permissions than in the source (who may execute them is compared elsewhere),
    how many of its empty folders are not there, and how many names of one file are files of their own."""
    found = {MODES: 0, FOLDERS: 0, LINKS: 0}
    theirs = dict[tuple[int, int], tuple[int, int]]()
    for path, state in entries(source):
        copy = built / os.path.relpath(path, source)
        if stat.S_ISDIR(state.st_mode):
            found[FOLDERS] += not copy.is_dir()
        elif stat.S_ISREG(state.st_mode):
            its = os.lstat(copy)
            found[MODES] += stat.S_IMODE(its.st_mode) != stat.S_IMODE(state.st_mode)
            first = theirs.setdefault((state.st_dev, state.st_ino), (its.st_dev, its.st_ino))
            found[LINKS] += first != (its.st_dev, its.st_ino)
    return found

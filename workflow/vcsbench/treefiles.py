"""A tree of files on disk: what is in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# What version control systems keep in a tree of theirs is no part of it; Subversion could not check out .svn.
ADMINISTRATIVE = {".svn", ".git", ".hg", ".bzr", ".jj", "_darcs", "CVS", "_FOSSIL_", ".fslckout"}


def entries(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The path and the state of all that is below a folder, a folder before what is in it, in an order that
    is always the same."""
    with os.scandir(root) as found:
        inside = sorted(found, key=lambda entry: os.fsencode(entry.name))
    for entry in inside:
        if entry.name in ADMINISTRATIVE:
            continue
        yield entry.path, entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            yield from entries(Path(entry.path))

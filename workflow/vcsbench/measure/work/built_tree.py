"""The fingerprint of a tree that a strategy has built of another one: of its files and links."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from vcsbench.measure.work import tree
from vcsbench.measure.work.kind import Fingerprint, Kind
from vcsbench.measure.work.neutral import Neutral

# What version control systems put beside a tree, at its top.
THEIRS = (b".svn", b".git", b".hg", b".bzr", b".jj", b".fslckout", b"_FOSSIL_")


def look(target: Path, neutral: Neutral) -> Fingerprint:
    """files, symlinks, bytes in files, and the digest of names, contents, the executable bit and where
    symlinks lead. Folders are what the files lie in: which strategies carry empty ones is told elsewhere."""
    found = tree.fingerprint(_of_tree(target), neutral)
    return {name: value for name, value in found.items() if name != "directories"}


def _of_tree(target: Path) -> Iterator[tuple[bytes, bytes, int]]:
    for name, path, mode in tree.entries(target):
        if not stat.S_ISDIR(mode) and name.partition(b"/")[0] not in THEIRS:
            yield name, path, mode


KIND = Kind("the files and links that each timed run has built", look=look)

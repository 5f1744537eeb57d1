"""List the files of a tree on disk."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.external import printable

# Administrative folders of version control systems are not part of a tree. Subversion cannot check out .svn.
ADMINISTRATIVE = {".svn", ".git", ".hg", ".bzr", ".jj", "_darcs", "CVS", "_FOSSIL_", ".fslckout"}
# shutil.rmtree and os.walk of Python 3.11 recurse once per folder.
DEPTH = 256


def entries(
    root: Path, left_out: Counter[str] | None = None
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and state of everything below a folder, each folder before its content, sorted by name.

    Administrative folders are left out, and counted by name in `left_out`. Raise UserError if folders are
    nested deeper than DEPTH.
    """
    waiting = [_sorted(os.fspath(root))]
    while waiting:
        entry = next(waiting[-1], None)
        if entry is None:
            waiting.pop()
            continue
        if entry.name in ADMINISTRATIVE:
            if left_out is not None:
                left_out[entry.name] += 1
            continue
        yield entry.path, entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            if len(waiting) > DEPTH:
                raise UserError(
                    f"{printable(os.fspath(root))}: folders are nested deeper than {DEPTH}. Choose a folder "
                    "further down, or remove the deepest folders."
                )
            waiting.append(_sorted(entry.path))


def _sorted(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return iter(sorted(found, key=lambda entry: os.fsencode(entry.name)))

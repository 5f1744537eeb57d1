"""List, copy and remove trees of files, and count the paths that a disk or a working copy cannot hold."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vcsbench.errors import UserError, printable
from vcsbench.processes import run_program
from vcsbench.storages.filesystems import raise_write_error

if TYPE_CHECKING:
    from vcsbench.recipe_types import Recipe

# Not part of a tree: Subversion cannot check out .svn.
ADMINISTRATIVE = {".svn", ".git", ".hg", ".bzr", ".jj", "_darcs", "CVS", "_FOSSIL_", ".fslckout"}
NAME_BYTES = 255
# svn export and checkout first write a link under its name with `.tmp`.
LINK_NAME_BYTES = NAME_BYTES - len(".tmp")
# Linux's limit, without the folder of an export.
PATH_BYTES = 3500
# shutil.rmtree and os.walk of Python 3.11 recurse once per folder.
MAX_DEPTH = 256
IMPOSSIBLE_PATHS = (
    f"that no disk can hold (a name over {NAME_BYTES} bytes; a path over {PATH_BYTES:,} bytes; over "
    f"{MAX_DEPTH} folders)"
)
RESERVED_PATHS = "named .svn, which a working copy cannot hold"


class OddPaths(NamedTuple):
    """The numbers of a tree's IMPOSSIBLE_PATHS, and of its other RESERVED_PATHS."""

    impossible: int = 0
    reserved: int = 0


def entries(
    root: Path, left_out: Counter[str] | None = None
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and state of everything below a folder, folders before their content, sorted by name.

    Administrative folders are left out, and counted by name in `left_out`. Raise UserError if folders are
    nested deeper than MAX_DEPTH.
    """
    waiting = [_scan(os.fspath(root))]
    while waiting:
        entry = next(waiting[-1], None)
        if entry is None:
            waiting.pop()
        elif entry.name in ADMINISTRATIVE:
            if left_out is not None:
                left_out[entry.name] += 1
        else:
            yield entry.path, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                if len(waiting) > MAX_DEPTH:
                    raise UserError(
                        f"{printable(os.fspath(root))}: folders are nested deeper than {MAX_DEPTH}. Choose a "
                        "folder further down, or remove the deepest folders."
                    )
                waiting.append(_scan(entry.path))


def _scan(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as scanned:
        return iter(sorted(scanned, key=lambda entry: os.fsencode(entry.name)))


def remove_path(path: Path, ignore_errors: bool = False) -> None:
    """Remove a folder, a file or a link, if it exists. Links are not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors)
    else:
        path.unlink(missing_ok=True)


def copy_tree(source: str | Path, path: Path) -> None:
    """Copy a tree to a new path: contents, modes, times, symbolic and hard links, without shared blocks."""
    try:
        run_program(["cp", "-aT", "--reflink=never", source, path])
    except UserError as error:
        raise_write_error(str(error), path)
        raise


def older_revision(youngest: int, behind: int) -> int:
    """Return the revision of a working copy that is `behind` the youngest revision."""
    return max(min(2, youngest), youngest - behind)


def why_not_on_disk(recipe: Recipe, count: Callable[[], OddPaths], behind: int = 0) -> str:
    """Return in a clause why a cell cannot write the tree of its repository; "" if it can.

    `count` is called only if the cell writes it. An export writes RESERVED_PATHS. `behind`: the tree is that
    of an older revision.
    """
    subjects = {recipe["input"], recipe["output"]}
    exports = "target" in subjects and "{tree}" in recipe["argv"]
    if not exports and not subjects & {"working_copy", "tree", "built_tree"}:
        return ""
    (number, reserved), kind, done = count(), IMPOSSIBLE_PATHS, "written"
    checks_out = exports and {"checkout", "co"} & {*recipe["argv"].split()}
    if not number and ("working_copy" in subjects or checks_out):
        number, kind, done = reserved, RESERVED_PATHS, "checked out"
    paths = "1 path" if number == 1 else f"{number:,} paths"
    name = recipe["repository"]["name"]
    if behind:
        name += f", {behind:,} revisions before its youngest,"
    return f"{name} has {paths} {kind}, so its tree cannot be {done}" if number else ""

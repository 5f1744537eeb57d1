"""Clones of pristines: made for a working copy that was copied, and counted where the client makes them."""

from __future__ import annotations

import fcntl
import filecmp
import os
import re
import sqlite3
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.subjects.subject import Recipe

# linux/fs.h
FICLONE = 0x40049409
# What the library writes at the end of each run of a client that installed files (workflow/native).
FILE = "reflinks"
_SAID = re.compile(r"cloned=(\d+) passed_on=(\d+) failed=(\d+) errno=(\d+)")
_FILES = (
    "SELECT local_relpath, checksum FROM nodes "
    "WHERE op_depth = 0 AND kind = 'file' AND presence = 'normal'"
)


def clone_working_files(path: Path) -> None:
    """Make each working file that equals its pristine a clone of that, its times kept: as a client with
    reflinks would have left them."""
    database = sqlite3.connect(f"file:{path}/.svn/wc.db?mode=ro", uri=True)
    try:
        files = database.execute(_FILES).fetchall()
    finally:
        database.close()
    for name, checksum in files:
        digest = checksum.rpartition("$")[2]
        pristine, working = path / f".svn/pristine/{digest[:2]}/{digest}.svn-base", path / name
        if os.path.islink(working) or not filecmp.cmp(pristine, working, shallow=False):
            continue
        times = os.stat(working)
        with open(pristine, "rb") as source, open(working, "r+b") as target:
            fcntl.ioctl(target, FICLONE, source.fileno())
        os.utime(working, ns=(times.st_atime_ns, times.st_mtime_ns))


def told(run: Path, recipe: Recipe) -> list[int] | None:
    """How many files each of the timed runs has cloned; None where none was to. A UserError where one has
    cloned none: it was measured as something that it is not."""
    if "reflink" not in recipe:
        return None
    file = run / FILE
    said = [tuple(map(int, s)) for s in _SAID.findall(file.read_text())] if file.exists() else []
    of_runs = said[-recipe["runs"] :]
    if len(of_runs) < recipe["runs"]:
        raise UserError(
            "the library that clones files did nothing in some run: the client did not load it, or installs "
            "files in another way than it knows (it knows that of Subversion 1.8 to 1.14)"
        )
    for cloned, _, failed, number in of_runs:
        if not cloned:
            raise UserError(
                f"a run cloned no file: this file system refuses ({os.strerror(number)}, {failed} times)"
                if failed
                else "a run cloned no file: all that it installed were translated (svn:eol-style, "
                "svn:keywords) or merged, and so no copies of their pristines"
            )
    return [cloned for cloned, *_ in of_runs]

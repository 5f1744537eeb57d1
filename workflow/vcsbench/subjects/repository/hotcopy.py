"""Copies the user's own repository by `svnadmin hotcopy`: deltas, packing and settings stay as they are."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import IO

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.formats import AS_IS, has_memcached
from vcsbench.sources import dump_format
from vcsbench.subjects.repository import fsfs, svnadmin
from vcsbench.urls import file_url, pegged

# Their content is the user's alone: programs, passwords, access rules. A copy is served without them.
LEFT_OUT = ("hooks", "conf")
_COPIED = re.compile(r"\* Copied revisions? (?:from \d+ to )?(\d+)")
_MEMCACHED = re.compile(r"^\[memcached-servers\][^\[]*", re.MULTILINE)
_REVISION = re.compile(rb'\s*revision="(\d+)"')
_DATE = re.compile(rb"<date>(.*)</date>\n")
MEMCACHED_NOTE = "The servers of memcached in its db/fsfs.conf are not used."


def hotcopy(own: Path, into: Path) -> tuple[Path, list[str]]:
    """Copy a repository into the folder `into` and return the path of the copy, with notes on changes.

    The copy is named by its packing: a live repository may have been packed since the run began. Commits that
    arrive in the meantime are not in it. The source is only read, and none of its hooks runs.
    """
    copy = into / f"{AS_IS}.new"
    youngest = fsfs.youngest(own)
    with progress.stage("copying the repository", youngest, "revisions") as at:

        def hears(line: str) -> None:
            if found := _COPIED.match(line):
                at.done = int(found[1])

        svnadmin.run("hotcopy", own, copy, hears=hears)
    for name in LEFT_OUT:
        shutil.rmtree(copy / name, ignore_errors=True)
        (copy / name).mkdir()
    notes = []
    if has_memcached(copy):
        configuration = copy / "db" / "fsfs.conf"
        text = configuration.read_text(errors="surrogateescape")
        configuration.write_text(_MEMCACHED.sub("", text), errors="surrogateescape")
        notes.append(MEMCACHED_NOTE)
    _open_modes(copy)
    notes += _remove_bogus_dates(copy)
    return copy.rename(into / f"{AS_IS}.{fsfs.shape(copy).packing}"), notes


def _remove_bogus_dates(copy: Path) -> list[str]:
    """Remove dates that Subversion cannot read, because `svnadmin verify` and `svn log` fail there.

    Return a note.
    """

    def read(output: IO[bytes]) -> dict[str, str]:
        revision, bogus = "", {}
        for line in output:
            if found := _REVISION.match(line):
                revision = found[1].decode()
            elif line.startswith(b"<date>"):
                date = _DATE.fullmatch(line)
                if not date or not dump_format.is_date(date[1]):
                    bogus[revision] = dump_format.quoted(date[1] if date else line)
        return bogus

    options = ("log", "--xml", "--quiet", "-r", "0:HEAD")
    bogus = svnadmin.reading(read, *options, pegged(file_url(copy)), program="svn")
    for revision in bogus:
        svnadmin.run("delrevprop", "-r", revision, copy, "svn:date")
    if not bogus:
        return []
    first, date = next(iter(bogus.items()))
    return [
        f"{len(bogus)} revisions have a svn:date that Subversion cannot read, first revision {first}: "
        f"{date}. The copies have no date there."
    ]


def check_packing(copy: Path, wanted: set[str]) -> None:
    """Raise UserError if a planned packing can no longer be made: svnadmin packs, and cannot unpack."""
    packing = copy.name.rpartition(".")[2]
    if wanted - {packing, fsfs.PACKED}:
        raise UserError(
            f"The repository was packed since this run began: it is {packing} now. Run again."
        )


def _open_modes(copy: Path) -> None:
    """Set the modes of a repository that svnadmin makes: hotcopy keeps the modes of the source."""
    for folder, _, names in os.walk(copy):
        os.chmod(folder, 0o755)
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                writable = os.stat(path).st_mode & 0o200
                os.chmod(path, 0o644 if writable else 0o444)

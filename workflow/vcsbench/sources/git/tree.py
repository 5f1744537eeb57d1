"""List the tree of a commit, and write it to a folder, with the same rules as for a history."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.sources import names
from vcsbench.sources.git.changes import EXECUTABLE, FOLDER, SUBMODULE, SYMLINK
from vcsbench.sources.git.command import Git
from vcsbench.sources.git.objects import Content, Objects
from vcsbench.sources.process import CHUNK
from vcsbench.treefiles import DEPTH

# Trees may hold themselves many times over: a few kilobytes become billions of files.
MOST_ENTRIES = 3_000_000
# Linux's limit for a path, less the folder of the export.
LONGEST_PATH = 3500
# Linux's limit for the target of a symbolic link.
LONGEST_TARGET = 4095
SUBMODULES = "Submodules left out"
TARGETS = (
    "Targets of symbolic links escaped, as in ?\\010, because Subversion refuses control characters and what "
    "is not UTF-8"
)
IMPOSSIBLE = "Symbolic links made plain files, because no link can have such a target"


class Entry(NamedTuple):
    """A file, folder, link or submodule of a tree."""

    mode: bytes
    name: bytes
    path: bytes


def link_target(target: bytes) -> bytes | None:
    """Return the target that a link can have, or None where no link can have one like it."""
    escaped = names.escape(target)
    return escaped if 0 < len(escaped) <= LONGEST_TARGET else None


def list_tree(git: Git, commit: str) -> Iterator[Entry]:
    """Yield everything in the tree of a commit, folders before their content.

    Raise UserError for trees that no file system can hold.
    """
    with git.start("ls-tree", "-r", "-t", "-z", "--full-tree", commit) as listing:
        rest = b""
        count = 0
        while chunk := listing.stdout.read1(CHUNK):
            *lines, rest = (rest + chunk).split(b"\0")
            for line in lines:
                head, _, path = line.partition(b"\t")
                mode, _, name = head.split(b" ")
                count += 1
                if count > MOST_ENTRIES:
                    raise UserError(
                        f"{git.layout.shown}: the tree of {commit[:12]} has more than {MOST_ENTRIES} "
                        "files and folders. Choose another branch."
                    )
                check_path(path, git.layout.shown)
                yield Entry(mode, name, path)
        listing.finish()


def check_path(path: bytes, where: str) -> None:
    """Raise UserError if folders are nested too deep, or the path is too long for an export."""
    if path.count(b"/") > DEPTH:
        raise UserError(
            f"{where}: folders are nested deeper than {DEPTH}: {printable(path[:60])}... . "
            "Choose another branch."
        )
    if len(path) > LONGEST_PATH:
        raise UserError(
            f"{where}: a path is longer than {LONGEST_PATH} bytes: {printable(path[:60])}... . "
            "Choose another branch."
        )


def blob_sizes(git: Git, blobs: Iterator[bytes]) -> Iterator[int]:
    """Yield the size of each blob, in order. Raise UserError if one is missing."""
    with tempfile.TemporaryFile() as requests:
        for name in blobs:
            requests.write(name + b"\n")
        requests.seek(0)
        with git.start("cat-file", "--batch-check", "--buffer", stdin=requests) as answers:
            for line in answers.stdout:
                words = line.split()
                if len(words) != 3:
                    raise missing(git.layout.shown, words[0].decode(errors="replace"))
                yield int(words[2])
            answers.finish()


def missing(where: str, name: str) -> UserError:
    """Return the error about an object that a repository lacks."""
    return UserError(
        f"{where}: the object {name} is missing: the clone is partial or damaged. "
        "Clone it again, without --filter."
    )


def write_tree(git: Git, commit: str, folder: Path) -> list[str]:
    """Write the tree of a commit to a new folder and return notes on what was renamed or left out.

    Files have the bytes of the commit's blobs. Every folder is made here, so no link is followed.
    """
    counts = Counter[str]()
    folder.mkdir()
    folder.chmod(0o755)
    made = {b""}
    files = list[tuple[Entry, bytes]]()
    for entry in list_tree(git, commit):
        if entry.mode == SUBMODULE:
            counts[SUBMODULES] += 1
            continue
        at, reasons = names.file_path(entry.path)
        counts.update(reasons)
        above = at.rpartition(b"/")[0]
        if at in made or above not in made:
            raise UserError(
                f"{git.layout.shown}: the tree of {commit[:12]} is damaged at {printable(entry.path)}: "
                "two entries of one name, or one outside of its folder. `git fsck` lists more."
            )
        if entry.mode == FOLDER:
            made.add(at)
            os.mkdir(_inside(folder, at))
            os.chmod(_inside(folder, at), 0o755)
        else:
            files.append((entry, at))
    seen = set[bytes]()
    with git.start("cat-file", "--batch", stdin=subprocess.PIPE) as program:
        contents = Objects(program, git.layout.shown).read([entry.name for entry, _ in files])
        for (entry, at), content in zip(files, contents, strict=True):
            if at in seen or at in made:
                raise UserError(
                    f"{git.layout.shown}: the tree of {commit[:12]} has {printable(entry.path)} twice. "
                    "`git fsck` lists more."
                )
            seen.add(at)
            _write_file(entry.mode, content, _inside(folder, at), counts)
    return [f"{what}: {n}." for what, n in counts.items() if n]


def _inside(folder: Path, path: bytes) -> bytes:
    return os.fsencode(folder) + b"/" + path


def _write_file(mode: bytes, content: Content, path: bytes, counts: Counter[str]) -> None:
    chunks: Iterator[bytes] = content.chunks()
    if mode == SYMLINK and content.size <= LONGEST_TARGET:
        target = content.whole()
        if target and b"\0" not in target:
            os.symlink(target, path)
            return
        chunks = iter([target])
    counts[IMPOSSIBLE] += mode == SYMLINK
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        for chunk in chunks:
            file.write(chunk)
        os.fchmod(file.fileno(), 0o755 if mode == EXECUTABLE else 0o644)

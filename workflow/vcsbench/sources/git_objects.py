"""Read commits, changes and trees of a git repository, and write a tree to a folder."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.files import MAX_DEPTH
from vcsbench.sources import dump_format
from vcsbench.sources.base import CHUNK, Program
from vcsbench.sources.dump_format import IMPOSSIBLE, LONGEST_TARGET, TARGETS, link_target
from vcsbench.sources.git_repository import Git

# Modes of git. ABSENT stands for no entry.
EXECUTABLE, SYMLINK, SUBMODULE = b"100755", b"120000", b"160000"
FOLDER, ABSENT = b"040000", b"000000"
# More is only possible in a tree that holds itself many times: a few kilobytes become billions of files.
MAX_ENTRIES = 3_000_000
# Renames are searched among 400 files at most: the effort grows with the square of their number.
DIFF_TREE = ("diff-tree", "--stdin", "-r", "-t", "--raw", "-z", "--no-abbrev", "-M", "-l400")
# The requests and the headers of their answers must fit into a pipe, or both sides wait for each other.
REQUESTS = 256
# Linux's limit for a path, without the folder of the export.
LONGEST_PATH = 3500
# The last date that Subversion can store.
LAST_SECOND = 253402300799
# Control characters except tab and line feed, and code points that are no characters.
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
# Notes of a report.
SUBMODULES = "Submodules left out"


@dataclass(frozen=True)
class Change:
    """A file or directory that a commit adds, deletes or changes.

    Modes are git's. `source` is the path before a rename or copy, otherwise `path`. `moved` is True if the
    source of a rename is gone.
    """

    path: bytes
    source: bytes
    old_mode: bytes
    new_mode: bytes
    old_object: bytes
    new_object: bytes
    moved: bool = False


def _field(pipe: BufferedReader) -> bytes:
    """Read up to the next NUL."""
    field = b""
    while (end := (seen := pipe.peek()).find(b"\0")) < 0:
        if not seen:
            raise EOFError("git diff-tree ended in the middle of a change")
        field += pipe.read(len(seen))
    return field + pipe.read(end + 1)[:-1]


def read_changes(pipe: BufferedReader) -> Iterator[list[Change]]:
    """Yield the changes of each pair of trees from the output of DIFF_TREE.

    A pair begins with a line of the two trees. A change is
    `:<old mode> <new mode> <old object> <new object> <status>`, NUL, path, NUL. A rename (status R and a
    percentage) has the old and the new path. If one file became several, the others have the status C.
    """
    while pipe.readline():
        changes = []
        while pipe.peek()[:1] == b":":
            old_mode, new_mode, old, new, status = _field(pipe)[1:].split(b" ")
            source = path = _field(pipe)
            if status[:1] in b"RC":
                path = _field(pipe)
            moved = status[:1] == b"R"
            changes.append(Change(path, source, old_mode, new_mode, old, new, moved))
            if len(changes) > MAX_ENTRIES:
                raise UserError(
                    f"a commit changes more than {MAX_ENTRIES} files. Choose another branch."
                )
        yield changes


class Blob:
    """The content of an object, to be read before the next object's."""

    def __init__(self, program: Program, size: int) -> None:
        self._program = program
        self.size = self._unread = size

    def chunks(self) -> Iterator[bytes]:
        """Yield the content in chunks."""
        while self._unread > 0:
            chunk = self._program.stdout.read(min(self._unread, CHUNK))
            if not chunk:
                raise self._program.failed()
            self._unread -= len(chunk)
            yield chunk

    def read_all(self) -> bytes:
        """Return the content."""
        return b"".join(self.chunks())


class Objects:
    """Reads objects through one `git cat-file --batch`. Requests are sent ahead of the answers."""

    def __init__(self, program: Program, where: str) -> None:
        self._program = program
        self.where = where

    def read(self, names: Sequence[bytes]) -> Iterator[Blob]:
        """Yield the contents of the objects in order."""
        requests = self._program.process.stdin
        assert requests is not None
        for start in range(0, len(names), REQUESTS):
            part = names[start : start + REQUESTS]
            try:
                requests.write(b"".join(name + b"\n" for name in part))
                requests.flush()
            except BrokenPipeError:
                raise self._program.failed() from None
            for name in part:
                header = self._program.stdout.readline().split()
                if not header:
                    raise self._program.failed()
                if len(header) != 3:
                    raise missing(self.where, name.decode())
                blob = Blob(self._program, int(header[2]))
                yield blob
                for _ in blob.chunks():
                    pass
                self._program.stdout.read(1)

    def read_one(self, name: bytes) -> bytes:
        """Return the content of one object."""
        for blob in self.read([name]):
            text = blob.read_all()
        return text


def missing(where: str, name: str) -> UserError:
    """Return the error about an object that a repository lacks."""
    return UserError(
        f"{where}: the object {name} is missing: the clone is partial or damaged. "
        "Clone it again, without --filter."
    )


@dataclass(frozen=True)
class Message:
    """The author, the date (seconds since 1970) and the text of a commit or tag."""

    author: str
    seconds: int
    text: str

    def properties(self, seconds: int) -> dict[bytes, bytes]:
        """Return the properties of a revision with the date `seconds`."""
        date = dump_format.date(datetime.fromtimestamp(seconds, UTC))
        properties = {b"svn:log": self.text.encode("utf-8"), b"svn:date": date}
        if self.author:
            properties[b"svn:author"] = self.author.encode("utf-8")
        return properties


def parse_object(data: bytes) -> Message:
    """Return the message of a raw commit or annotated tag, with the committer's date."""
    head, _, body = data.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key:  # a line that begins with a space continues a signature
            fields.setdefault(key, value)
    encoding = fields.get(b"encoding", b"utf-8").decode("ascii", "replace")
    tagger = fields.get(b"tagger", b"")
    author = _decode(fields.get(b"author", tagger).partition(b"<")[0], encoding)
    date = fields.get(b"committer", tagger).rpartition(b">")[2].split()
    try:
        seconds = min(max(int(date[0]), 0), LAST_SECOND)
    except (IndexError, ValueError):
        seconds = 0
    text = _decode(body, encoding).replace("\r\n", "\n").replace("\r", "\n")
    return Message(
        author=" ".join(_REFUSED.sub(" ", author).split()),
        seconds=seconds,
        text=_REFUSED.sub("\N{REPLACEMENT CHARACTER}", text),
    )


def _decode(data: bytes, encoding: str) -> str:
    """Decode text. The stated encoding may be unknown or wrong."""
    try:
        return data.decode(encoding)
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


class TreeEntry(NamedTuple):
    """A file, folder, link or submodule of a tree."""

    mode: bytes
    name: bytes
    path: bytes


def list_tree(git: Git, commit: str) -> Iterator[TreeEntry]:
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
                if count > MAX_ENTRIES:
                    raise UserError(
                        f"{git.layout.shown}: the tree of {commit[:12]} has more than {MAX_ENTRIES} "
                        "files and folders. Choose another branch."
                    )
                check_path(path, git.layout.shown)
                yield TreeEntry(mode, name, path)
        listing.finish()


def check_path(path: bytes, where: str) -> None:
    """Raise UserError if folders are nested too deep, or the path is too long for an export."""
    if path.count(b"/") > MAX_DEPTH:
        what = f"folders are nested deeper than {MAX_DEPTH}"
    elif len(path) > LONGEST_PATH:
        what = f"a path is longer than {LONGEST_PATH} bytes"
    else:
        return
    raise UserError(f"{where}: {what}: {printable(path[:60])}... . Choose another branch.")


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


def write_tree(git: Git, commit: str, folder: Path) -> list[str]:
    """Write the tree of a commit to a new folder and return notes on renames and omissions.

    Names and link targets are the same as in the loaded history: both studies measure the same tree. Files
    have the bytes of the commit's blobs. Every folder is created here, so no link is followed.
    """
    counts = Counter[str]()
    folder.mkdir()
    folder.chmod(0o755)
    folders = {b""}
    files = dict[bytes, TreeEntry]()
    for entry in list_tree(git, commit):
        if entry.mode == SUBMODULE:
            counts[SUBMODULES] += 1
            continue
        path, reasons = dump_format.rename(entry.path)
        counts.update(reasons)
        if path in folders or path in files or path.rpartition(b"/")[0] not in folders:
            raise UserError(
                f"{git.layout.shown}: the tree of {commit[:12]} is damaged at {printable(entry.path)}: "
                "two entries of one name, or one outside of its folder. `git fsck` lists more."
            )
        if entry.mode == FOLDER:
            folders.add(path)
            os.mkdir(_inside(folder, path))
            os.chmod(_inside(folder, path), 0o755)
        else:
            files[path] = entry
    with git.start("cat-file", "--batch", stdin=subprocess.PIPE) as program:
        blobs = Objects(program, git.layout.shown).read([entry.name for entry in files.values()])
        for (path, entry), blob in zip(files.items(), blobs, strict=True):
            _write_file(entry.mode, blob, _inside(folder, path), counts)
    return [f"{what}: {n}." for what, n in counts.items() if n]


def _inside(folder: Path, path: bytes) -> bytes:
    return os.fsencode(folder) + b"/" + path


def _write_file(mode: bytes, blob: Blob, path: bytes, counts: Counter[str]) -> None:
    chunks: Iterator[bytes] = blob.chunks()
    if mode == SYMLINK and blob.size <= LONGEST_TARGET:
        target = blob.read_all()
        escaped = link_target(target)
        if escaped is not None:
            counts[TARGETS] += escaped != target
            os.symlink(escaped, path)
            return
        chunks = iter([target])
    counts[IMPOSSIBLE] += mode == SYMLINK
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        for chunk in chunks:
            file.write(chunk)
        os.fchmod(file.fileno(), 0o755 if mode == EXECUTABLE else 0o644)

"""Read the output of git: objects, commits, changes and messages."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedReader
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import parse_number, printable
from vcsbench.sources.base import CHUNK, Program
from vcsbench.sources.dump_format import subversion_path
from vcsbench.storages.trees import MAX_DEPTH, PATH_BYTES

EXECUTABLE, SYMLINK, SUBMODULE = b"100755", b"120000", b"160000"
FOLDER, ABSENT = b"040000", b"000000"
NO_NODE = (ABSENT, SUBMODULE)
# Renames are searched among 400 files at most: the effort grows with the square of their number.
DIFF_TREE = (
    *("diff-tree", "--stdin", "-r", "-t", "--raw", "-z", "--no-abbrev", "-M", "-l400"),
    *("--root", "--always", "--encoding=UTF-8", "--pretty=tformat:commit%x00%an%x00%B"),
)
# Only a tree that holds itself many times has more: a few kilobytes become billions of files.
MAX_ENTRIES = 3_000_000
LAST_SECOND = 253402300799
# Control characters except tab and line feed, and code points that are no characters.
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
# Requests and the headers of their answers must fit into a pipe, or both sides wait for each other.
REQUESTS = 256


class Blob(NamedTuple):
    """The size and the content of an object, which is read before the next object."""

    size: int
    chunks: Iterator[bytes]

    def read_all(self) -> bytes:
        return b"".join(self.chunks)


class Objects:
    """Reads objects through one `git cat-file --batch`. Requests are sent ahead of the answers."""

    def __init__(self, program: Program, where: str) -> None:
        self._program = program
        self.where = where
        # The last request of each part. An object with its answer is damaged: git does not compare the size
        # of a loose object with its content.
        self._last = b"z" + secrets.token_hex(16).encode()
        self._end = self._last + b" missing"

    def read(self, names: Sequence[bytes]) -> Iterator[Blob]:
        """Yield blobs in order. Raise UserError if one is missing, damaged or of another kind."""
        requests = self._program.process.stdin
        assert requests is not None
        for start in range(0, len(names), REQUESTS):
            part = names[start : start + REQUESTS]
            try:
                requests.write(b"".join(name + b"\n" for name in (*part, self._last)))
                requests.flush()
            except BrokenPipeError:
                raise self._program.failed() from None
            for name in part:
                answer = self._program.stdout.readline().split()
                if not answer:
                    raise self._program.failed()
                size = size_of(answer, self.where)
                chunks = self._chunks(name, size)
                yield Blob(size, chunks)
                for _ in chunks:
                    pass
            self._program.stdout.readline()

    def _chunks(self, name: bytes, size: int) -> Iterator[bytes]:
        damaged = _damaged(self.where, name, "its content has another size than it states")
        last, length = b"", len(self._end)
        while size > 0:
            chunk = self._program.stdout.read1(min(size, CHUNK))
            if not chunk:
                raise self._program.failed()
            last = last[-length:] + chunk[-length - 1 :]
            if self._end in last:
                raise damaged
            size -= len(chunk)
            yield chunk
        if self._program.stdout.read(1) != b"\n":
            raise damaged


def size_of(answer: Sequence[bytes], where: str) -> int:
    """Return the size in an answer of `git cat-file`.

    Raise UserError if the object is missing or no blob.
    """
    if len(answer) != 3:
        raise missing(where, answer[0].decode(errors="replace"))
    name, actual, size = answer
    if actual != b"blob":
        raise _damaged(where, name, f"it is a {actual.decode()}, not a blob")
    return int(size)


def _damaged(where: str, name: bytes, what: str) -> UserError:
    return UserError(
        f"{where}: the object {name.decode()} is damaged: {what}. `git fsck` lists such objects."
    )


def missing(where: str, name: str) -> UserError:
    return UserError(
        f"{where}: the object {name} is missing: the clone is partial or damaged. "
        "Clone it again, without --filter."
    )


class Commit(NamedTuple):
    """A commit: its name, its tree, its date (seconds since 1970), and the indices of its parents."""

    name: bytes
    tree: bytes
    seconds: int
    parents: tuple[int, ...]


def read_commits(lines: Iterable[bytes]) -> list[Commit]:
    """Return commits from lines of commit, tree, date and parents, parents first.

    Parents that are not listed, which a shallow clone lacks, are left out.
    """
    index: dict[bytes, int] = {}
    commits: list[Commit] = []
    for line in lines:
        # The date of a damaged commit is empty.
        name, tree, seconds, *parents = line.rstrip(b"\n").split(b" ")
        listed = tuple(index[parent] for parent in parents if parent in index)
        index[name] = len(commits)
        commits.append(Commit(name, tree, parse_number(seconds, LAST_SECOND) or 0, listed))
    return commits


class Change(NamedTuple):
    """A file or directory that a commit adds, deletes or changes.

    Modes are git's. `source` is the path before a rename or copy, otherwise `path`. `is_moved` is True if
    the source of a rename is gone.
    """

    path: bytes
    source: bytes
    old_mode: bytes
    new_mode: bytes
    old_object: bytes
    new_object: bytes
    is_moved: bool


def _field(pipe: BufferedReader) -> bytes:
    parts = []
    while (end := (seen := pipe.peek()).find(b"\0")) < 0:
        if not seen:
            raise EOFError("git diff-tree ended in the middle of a commit")
        parts.append(pipe.read(len(seen)))
    return b"".join(parts) + pipe.read(end + 1)[:-1]


def read_changes(pipe: BufferedReader, where: str) -> list[Change]:
    """Return the changes of a commit or of a pair of trees from the output of DIFF_TREE.

    A change is `:<old mode> <new mode> <old object> <new object> <status>`, NUL, path, NUL. A rename (status
    R and a percentage) has both paths. If one file became several, the others have the status C.
    """
    changes = list[Change]()
    while pipe.peek()[:1] == b":":
        old_mode, new_mode, old, new, status = _field(pipe)[1:].split(b" ")
        source = path = _field(pipe)
        if status[:1] in b"RC":
            path = _field(pipe)
        is_moved = status[:1] == b"R"
        changes.append(Change(path, source, old_mode, new_mode, old, new, is_moved))
        if len(changes) > MAX_ENTRIES:
            raise UserError(
                f"{where}: a commit changes more than {MAX_ENTRIES} files. Choose another branch."
            )
    _check(changes, where)
    return changes


class Revision(NamedTuple):
    """The author, the text and the changes of a commit."""

    author: str
    text: str
    changes: list[Change]


def read_revisions(pipe: BufferedReader, where: str) -> Iterator[Revision]:
    while _field(pipe) == b"commit":
        author, text = _field(pipe).decode("utf-8", "replace"), _text(_field(pipe))
        author = " ".join(_REFUSED.sub(" ", author).split())
        if pipe.peek()[:1] == b"\n":
            pipe.read(1)
        yield Revision(author, text, read_changes(pipe, where))


def _check(changes: list[Change], where: str) -> None:
    """Raise UserError if a path is too long or too deep, or if a tree is damaged."""
    # DIFF_TREE lists the folders of all changes.
    folders = {b"", *(change.path for change in changes if change.new_mode == FOLDER)}
    added = set[bytes]()
    for change in changes:
        if change.new_mode in NO_NODE:
            continue
        path = subversion_path(change.path)  # an escaped one is longer
        if path.count(b"/") > MAX_DEPTH or len(path) > PATH_BYTES:
            raise UserError(
                f"{where}: a path is longer than {PATH_BYTES} bytes, or deeper than {MAX_DEPTH} folders: "
                f"{printable(path[:60])}... . Choose another branch."
            )
        if change.path in added or change.path.rpartition(b"/")[0] not in folders:
            raise UserError(
                f"{where}: a tree is damaged at {printable(change.path[:200])}: two entries of one name, or "
                "one outside of its folder. `git fsck` lists such trees."
            )
        added.add(change.path)


def _text(message: bytes) -> str:
    text = message.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return _REFUSED.sub("\N{REPLACEMENT CHARACTER}", text)

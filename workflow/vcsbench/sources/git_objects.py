"""Read what git prints: objects, commits, changes and messages."""

from __future__ import annotations

import codecs
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from io import BufferedReader
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import parse_number, printable
from vcsbench.files import MAX_DEPTH, PATH_BYTES
from vcsbench.sources.base import CHUNK, Program
from vcsbench.sources.dump_format import subversion_path

EXECUTABLE, SYMLINK, SUBMODULE = b"100755", b"120000", b"160000"
FOLDER, ABSENT = b"040000", b"000000"
NO_NODE = (ABSENT, SUBMODULE)
# Renames are searched among 400 files at most: the effort grows with the square of their number.
DIFF_TREE = ("diff-tree", "--stdin", "-r", "-t", "--raw", "-z", "--no-abbrev", "-M", "-l400")
# Only a tree that holds itself many times has more: a few kilobytes become billions of files.
MAX_ENTRIES = 3_000_000
# Decoding takes time with the square of the length. No program writes them.
SLOW_ENCODINGS = ("idna", "punycode")
LAST_SECOND = 253402300799
# Control characters except tab and line feed, and code points that are no characters.
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
# Requests and the headers of their answers must fit into a pipe, or both sides wait for each other.
REQUESTS = 256
MESSAGE_BYTES = 1 << 26
BLOBS, MESSAGES = (b"blob",), (b"commit", b"tag")


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

    def read(self, names: Sequence[bytes], kinds: tuple[bytes, ...] = BLOBS) -> Iterator[Blob]:
        """Yield objects in order. Raise UserError if one is missing, damaged or of another kind."""
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
                size = size_of(answer, kinds, self.where)
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

    def read_message(self, name: bytes) -> bytes:
        for message in self.read([name], MESSAGES):
            if message.size > MESSAGE_BYTES:
                raise UserError(
                    f"{self.where}: the message of {name.decode()} is larger than "
                    f"{MESSAGE_BYTES >> 20} MiB. Choose another branch."
                )
            text = message.read_all()
        return text


def size_of(answer: Sequence[bytes], kinds: tuple[bytes, ...], where: str) -> int:
    """Return the size in an answer of `git cat-file`.

    Raise UserError if the object is missing or of another kind.
    """
    if len(answer) != 3:
        raise missing(where, answer[0].decode(errors="replace"))
    name, actual, size = answer
    if actual not in kinds:
        raise _damaged(where, name, f"it is a {actual.decode()}, not a {kinds[0].decode()}")
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
    field = b""
    while (end := (seen := pipe.peek()).find(b"\0")) < 0:
        if not seen:
            raise EOFError("git diff-tree ended in the middle of a change")
        field += pipe.read(len(seen))
    return field + pipe.read(end + 1)[:-1]


def read_changes(pipe: BufferedReader) -> Iterator[list[Change]]:
    """Yield the changes of each pair of trees from the output of DIFF_TREE.

    A pair begins with a line. A change is `:<old mode> <new mode> <old object> <new object> <status>`, NUL,
    path, NUL. A rename (status R and a percentage) has both paths. If one file became several, the others
    have the status C.
    """
    while pipe.readline():
        changes = []
        while pipe.peek()[:1] == b":":
            old_mode, new_mode, old, new, status = _field(pipe)[1:].split(b" ")
            source = path = _field(pipe)
            if status[:1] in b"RC":
                path = _field(pipe)
            is_moved = status[:1] == b"R"
            changes.append(Change(path, source, old_mode, new_mode, old, new, is_moved))
            if len(changes) > MAX_ENTRIES:
                raise UserError(
                    f"a commit changes more than {MAX_ENTRIES} files. Choose another branch."
                )
        yield changes


def check_path(path: bytes, where: str) -> None:
    path = subversion_path(path)  # an escaped one is longer
    if path.count(b"/") > MAX_DEPTH:
        what = f"folders are nested deeper than {MAX_DEPTH}"
    elif len(path) > PATH_BYTES:
        what = f"a path is longer than {PATH_BYTES} bytes"
    else:
        return
    raise UserError(f"{where}: {what}: {printable(path[:60])}... . Choose another branch.")


def damaged_tree(where: str, path: bytes) -> UserError:
    return UserError(
        f"{where}: a tree is damaged at {printable(path[:200])}: two entries of one name, or one outside of "
        "its folder. `git fsck` lists such trees."
    )


class Message(NamedTuple):
    """The author, the date (seconds since 1970) and the text of a commit or tag."""

    author: str
    seconds: int
    text: str


def parse_message(data: bytes) -> Message:
    head, _, body = data.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key:
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
    author = " ".join(_REFUSED.sub(" ", author).split())
    return Message(author, seconds, _REFUSED.sub("\N{REPLACEMENT CHARACTER}", text))


def _decode(data: bytes, encoding: str) -> str:
    """Decode text. The stated encoding may be unknown, wrong or slow."""
    with suppress(LookupError, ValueError):
        if codecs.lookup(encoding).name not in SLOW_ENCODINGS:
            return data.decode(encoding)
    return data.decode("utf-8", "replace")

"""Read the output of git: objects, trees, commits, changes and messages."""

import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.external import CHUNK, parse_number, printable
from vcsbench.processes import Program
from vcsbench.sources.dump_format import subversion_path
from vcsbench.sources.git_repository import Git
from vcsbench.storages.file_trees import MAX_DEPTH, PATH_BYTES

EXECUTABLE, SYMLINK, SUBMODULE = b"100755", b"120000", b"160000"
FOLDER, ABSENT = b"040000", b"000000"
NO_NODE = (ABSENT, SUBMODULE)
COMMITS = ("--encoding=none", "--format=%H %ct %P")
# Renames are searched among 400 files at most: the effort grows with the square of their number.
REVISIONS = (
    "--raw",
    "-z",
    "-r",
    "-t",
    "--no-abbrev",
    "-M",
    "-l400",
    "--root",
    "--diff-merges=first-parent",
    "--encoding=UTF-8",
    "--format=commit%x00%an%x00%B",
)
# Only a tree that holds itself many times has more: a few kilobytes become billions of files.
MAX_ENTRIES = 3_000_000
LAST_SECOND = 253402300799
# Control characters except tab and line feed, and code points that are no characters.
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
# Requests and the headers of their answers must fit into a pipe, or both sides wait for each other.
REQUESTS = 256


class Objects:
    """Reads blobs through one `git cat-file --batch`. Requests are sent ahead of the answers."""

    def __init__(self, git: Git, program: Program) -> None:
        self._git = git
        self._program = program
        # The last request of each part. An object with its answer is damaged: git does not compare the size
        # of a loose object with its content.
        self._last = b"z" + secrets.token_hex(16).encode()
        self._end = self._last + b" missing"

    def read(self, names: Sequence[bytes]) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Yield size and content in order. A content is read before the next one.

        Raise UserError if an object is missing, damaged or of another kind.
        """
        requests, answers = self._program.process.stdin, self._program.stdout
        assert requests is not None
        for start in range(0, len(names), REQUESTS):
            part = names[start : start + REQUESTS]
            try:
                requests.write(b"".join(name + b"\n" for name in (*part, self._last)))
                requests.flush()
            except BrokenPipeError:
                raise self._program.failed() from None
            for name in part:
                answer = answers.readline().split()
                if not answer:
                    raise self._program.failed()
                if len(answer) != 3:
                    raise self._git.missing(name)
                if answer[1] != b"blob":
                    raise self._git.damaged(name, f"it is a {answer[1].decode()}, not a blob")
                size = int(answer[2])
                chunks = self._chunks(name, size)
                yield size, chunks
                for _ in chunks:
                    pass
            answers.readline()

    def _chunks(self, name: bytes, size: int) -> Iterator[bytes]:
        damaged = self._git.damaged(name, "its content has another size than it states")
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


@contextmanager
def open_objects(git: Git) -> Iterator[Objects]:
    with git.start("cat-file", "--batch", stdin=processes.PIPE) as program:
        yield Objects(git, program)


class Commit(NamedTuple):
    """A commit: its name, its date (seconds since 1970, -1 if unreadable), and the indices of its parents."""

    name: bytes
    seconds: int
    parents: tuple[int, ...]


def read_commits(lines: Iterable[bytes]) -> list[Commit]:
    """Return commits from the output of COMMITS, parents first.

    Parents that are not listed, which a shallow clone lacks, are left out.
    """
    index: dict[bytes, int] = {}
    commits: list[Commit] = []
    for line in lines:
        # git prints nothing for a date before 1970, and any number for a damaged one.
        name, date, *parents = line.rstrip(b"\n").split(b" ")
        listed = tuple(index[parent] for parent in parents if parent in index)
        index[name] = len(commits)
        seconds = parse_number(date, LAST_SECOND)
        commits.append(Commit(name, -1 if seconds is None else seconds, listed))
    return commits


def _field(program: Program) -> bytes:
    """Return the output of git up to the next NUL. Raise UserError at its end."""
    parts = []
    while True:
        # What is in the buffer already, without waiting for more than one byte.
        seen = program.stdout.peek()
        if not seen:
            raise program.failed()
        end = seen.find(b"\0")
        if end >= 0:
            parts.append(program.stdout.read(end + 1)[:-1])
            return b"".join(parts)
        parts.append(program.stdout.read(len(seen)))


# Subversion's bytes per byte of git's: format 8 compresses by lz4, not by zlib, and its deltas lead to older
# texts than the one before. A history of 1,500 commits took 39 to 44 MiB, with an estimate of 40.
FULL_FACTOR, DELTA_FACTOR = 1.4, 1.5
SIZES = "--batch-check=%(objecttype) %(objectsize) %(objectsize:disk) %(deltabase) %(rest)"


def estimate_texts(lines: Iterable[bytes]) -> int:
    """Return about how many bytes Subversion needs for all texts of a history, from the output of SIZES.

    Its input are the lines of `rev-list --objects`: each object of the history once, with a path.

    Subversion stores the first text of each path in full, and later ones as deltas, like git. But git also
    stores texts of different paths as deltas of each other, such as the files of several releases. So the
    largest text of each path counts in full, and the others with the size that git needs. How well full
    texts compress is known from those that git stores in full, for each suffix of names.
    """
    full_bytes = Counter[bytes]()
    compressed_bytes = Counter[bytes]()
    largest: dict[bytes, int] = {}
    deltas = Counter[bytes]()
    of_largest: dict[bytes, int] = {}
    for line in lines:
        kind, size, on_disk, base, *rest = line.rstrip(b"\n").split(b" ", 4)
        if kind != b"blob":
            continue
        path = rest[0] if rest else b""
        length, stored = int(size), int(on_disk)
        suffix = os.path.splitext(path)[1]
        if not base.strip(b"0"):
            full_bytes[suffix] += length
            compressed_bytes[suffix] += stored
        if length > largest.get(path, -1):
            largest[path] = length
            of_largest[path] = stored
        deltas[path] += stored
    total = 0.0
    for path, length in largest.items():
        suffix = os.path.splitext(path)[1]
        # Without a full text of this suffix, the texts may be incompressible.
        has_ratio = full_bytes[suffix] > 0
        ratio = compressed_bytes[suffix] / full_bytes[suffix] if has_ratio else 1.0
        total += length * min(1.0, ratio * FULL_FACTOR)
        total += (deltas[path] - of_largest[path]) * DELTA_FACTOR
    return int(total)


class TreeEntry(NamedTuple):
    """A file, link, folder or submodule of a tree. The size is 0 without a blob."""

    path: bytes
    mode: bytes
    object: bytes
    size: int


def read_tree(git: Git, commit: str) -> list[TreeEntry]:
    """Return everything in the tree of a commit, folders before their content.

    Raise UserError if the tree is damaged, or if a blob is missing.
    """
    entries = list[TreeEntry]()
    words = ("ls-tree", "-r", "-t", "-z", "--long", "--full-tree", commit)
    with git.start(*words) as program:
        while program.stdout.peek():
            head, _, path = _field(program).partition(b"\t")
            mode, _, name, size = head.split()
            if size == b"BAD":
                raise git.missing(name)
            entries.append(TreeEntry(path, mode, name, 0 if size == b"-" else int(size)))
            _check_count(entries, git)
        program.finish()
    _check_paths([(entry.path, entry.mode) for entry in entries], git)
    return entries


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


class Revision(NamedTuple):
    """The author, the text and the changes of a commit."""

    author: str
    text: str
    changes: list[Change]


def read_revision(program: Program, git: Git) -> Revision:
    """Return the next commit in the output of REVISIONS.

    A change is `:<old mode> <new mode> <old object> <new object> <status>`, NUL, path, NUL. A rename (status
    R and a percentage) has both paths. If one file became several, the others have the status C.
    """
    _field(program)
    author = " ".join(_REFUSED.sub(" ", _field(program).decode("utf-8", "replace")).split())
    message = _field(program).decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    text = _REFUSED.sub("\N{REPLACEMENT CHARACTER}", message)
    if program.stdout.peek()[:1] == b"\n":
        program.stdout.read(1)
    changes = list[Change]()
    while program.stdout.peek()[:1] == b":":
        old_mode, new_mode, old, new, status = _field(program)[1:].split(b" ")
        source = path = _field(program)
        if status[:1] in b"RC":
            path = _field(program)
        is_moved = status[:1] == b"R"
        changes.append(Change(path, source, old_mode, new_mode, old, new, is_moved))
        _check_count(changes, git)
    _check_paths([(change.path, change.new_mode) for change in changes], git)
    return Revision(author, text, changes)


def _check_count(entries: Sequence[object], git: Git) -> None:
    if len(entries) > MAX_ENTRIES:
        raise UserError(
            f"{git.where}: a tree or a commit has more than {MAX_ENTRIES} files. Choose another branch."
        )


def _check_paths(nodes: Sequence[tuple[bytes, bytes]], git: Git) -> None:
    """Raise UserError if a path is too long or too deep, or if a tree is damaged.

    A node has a path and a mode.
    """
    # git lists the folders of all changes.
    folders = {b"", *(path for path, mode in nodes if mode == FOLDER)}
    added = set[bytes]()
    for path, mode in nodes:
        if mode in NO_NODE:
            continue
        name = subversion_path(path)  # an escaped one is longer
        if name.count(b"/") > MAX_DEPTH or len(name) > PATH_BYTES:
            raise UserError(
                f"{git.where}: a path is longer than {PATH_BYTES} bytes, or deeper than {MAX_DEPTH} folders: "
                f"{printable(name[:60])}... . Choose another branch."
            )
        if path in added or path.rpartition(b"/")[0] not in folders:
            raise UserError(
                f"{git.where}: a tree is damaged at {printable(path[:200])}: two entries of one name, or "
                "one outside of its folder. `git fsck` lists such trees."
            )
        added.add(path)

"""Read blobs and trees from git, and refuse those that git itself would not make."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.external import CHUNK, printable
from vcsbench.processes import Program
from vcsbench.sources.git_repository import Git
from vcsbench.sources.svn_names import subversion_path
from vcsbench.storages.file_trees import MAX_DEPTH, PATH_BYTES

# Modes of entries of a tree. ABSENT is the mode before a change adds a file, and after it deletes one.
EXECUTABLE_MODE, SYMLINK_MODE, SUBMODULE = b"100755", b"120000", b"160000"
FOLDER_MODE, ABSENT = b"040000", b"000000"
# Without a node in Subversion.
NO_NODE = (ABSENT, SUBMODULE)
# Only a tree that holds itself many times has more: a few kilobytes become billions of files.
MOST_GIT_ENTRIES = 3_000_000
# Requests and the headers of their answers must fit into a pipe, or both sides wait for each other.
REQUESTS = 256


class Blob(NamedTuple):
    """The size of a file, and its content in parts, which can be read once."""

    size: int
    chunks: Iterator[bytes]


class BlobReader:
    """Reads blobs through one `git cat-file --batch`. Requests are sent ahead of the answers.

    git does not compare the size that a loose object states with its content. If the content is shorter, its
    end is taken from the next answers, and after the last answer both sides would wait. So each part of the
    requests ends with the name of an object that does not exist. A content with that answer is too short.
    """

    def __init__(self, git: Git, program: Program) -> None:
        self._git = git
        self._program = program
        # Random, so that no content of the user's has it.
        self._marker = b"z" + secrets.token_hex(16).encode()
        self._marker_answer = self._marker + b" missing"

    def read(self, names: Sequence[bytes]) -> Iterator[Blob]:
        """Yield the blobs with these names, such as b"0a4d55a8...", in this order.

        A caller need not read a blob's content to the end: the rest is skipped before the next blob. It must
        ask for blobs until no blob is left, because answers that are left would confuse the next call.
        Raise UserError if an object is missing, damaged or not a blob.
        """
        for start in range(0, len(names), REQUESTS):
            part = names[start : start + REQUESTS]
            self._request(part)
            for name in part:
                size = self._read_size(name)
                chunks = self._read_chunks(name, size)
                yield Blob(size, chunks)
                for _ in chunks:
                    pass
            # git's answer to the name that does not exist, which ends each part of the requests.
            self._program.stdout.readline()

    def _request(self, names: Sequence[bytes]) -> None:
        requests = self._program.process.stdin
        assert requests is not None
        try:
            requests.write(b"".join(name + b"\n" for name in (*names, self._marker)))
            requests.flush()
        except BrokenPipeError:
            raise self._program.failed() from None

    def _read_size(self, name: bytes) -> int:
        """Read the first line of an answer, such as `<object> blob 1234`."""
        answer = self._program.stdout.readline().split()
        if not answer:
            raise self._program.failed()
        # `<object> missing`
        if len(answer) != 3:
            raise self._git.missing_error(name)
        _, kind, size = answer
        if kind != b"blob":
            raise self._git.damaged_error(name, f"it is a {kind.decode()}, not a blob")
        return int(size)

    def _read_chunks(self, name: bytes, size: int) -> Iterator[bytes]:
        """Yield the `size` bytes of the blob `name` in chunks, and read the line end behind them.

        Raise UserError if the content is shorter or longer than `size`, or if git has ended.
        """
        damaged = self._git.damaged_error(name, "its content has another size than it states")
        length = len(self._marker_answer)
        last = b""
        while size > 0:
            # read1() returns what has come: read() would wait for bytes that a short content lacks.
            chunk = self._program.stdout.read1(min(size, CHUNK))
            if not chunk:
                raise self._program.failed()
            # A content that is too short is followed by other answers, the last one to the marker. git writes
            # nothing after that, so the marker ends the bytes read, perhaps divided between two chunks.
            last = last[-length:] + chunk[-length - 1 :]
            if self._marker_answer in last:
                raise damaged
            size -= len(chunk)
            yield chunk
        if self._program.stdout.read(1) != b"\n":
            raise damaged


@contextmanager
def open_blobs(git: Git) -> Iterator[BlobReader]:
    with git.start("cat-file", "--batch", stdin=processes.PIPE) as program:
        yield BlobReader(git, program)


def read_field(program: Program) -> bytes:
    """Return the output of a running git up to the next NUL, without the NUL.

    The output `a NUL b NUL` gives b"a", then b"b". Raise UserError if the output ends before a NUL.
    """
    parts = []
    while True:
        # The bytes that are in the buffer already, without waiting for more than one byte.
        buffered = program.stdout.peek()
        if not buffered:
            raise program.failed()
        end = buffered.find(b"\0")
        if end >= 0:
            parts.append(program.stdout.read(end + 1)[:-1])
            return b"".join(parts)
        parts.append(program.stdout.read(len(buffered)))


class Node(NamedTuple):
    """A path in git with its mode."""

    path: bytes
    mode: bytes


class TreeEntry(NamedTuple):
    """A file, link, folder or submodule of a tree. The size is 0 without a blob."""

    path: bytes
    mode: bytes
    object: bytes
    size: int


def read_tree(git: Git, commit: str) -> list[TreeEntry]:
    """Return all files, links, folders and submodules in the tree of a commit, folders before their content.

    Folders and submodules have the size 0. Raise UserError if the tree is damaged or too large, or if a blob
    is missing.
    """
    entries = list[TreeEntry]()
    words = ("ls-tree", "-r", "-t", "-z", "--long", "--full-tree", commit)
    with git.start(*words) as program:
        while program.stdout.peek():
            # `100644 blob <object> 1234`, a tab and the path. Folders and submodules have the size `-`.
            head, _, path = read_field(program).partition(b"\t")
            mode, _, name, listed_size = head.split()
            if listed_size == b"BAD":
                raise git.missing_error(name)
            size = 0 if listed_size == b"-" else int(listed_size)
            entries.append(TreeEntry(path, mode, name, size))
            check_count(entries, git)
        program.finish()
    check_paths([Node(entry.path, entry.mode) for entry in entries], git)
    return entries


def check_count(entries: Sequence[object], git: Git) -> None:
    """Raise UserError for too many entries of a tree, or changes of a commit."""
    if len(entries) > MOST_GIT_ENTRIES:
        raise UserError(
            f"{git.where}: a tree or a commit has more than {MOST_GIT_ENTRIES} files. Choose another branch."
        )


def check_paths(nodes: Sequence[Node], git: Git) -> None:
    """Raise UserError if a path is too long or too deep, or if a tree is damaged.

    A damaged tree can have a file `/etc/x`, two entries `a`, or a link `a` and
    a file `a/b`. Nothing may be written through these.
    """
    # git lists each folder above a changed file as well, so each path has its folder among the nodes.
    folders = {node.path for node in nodes if node.mode == FOLDER_MODE}
    folders.add(b"")
    added = set[bytes]()
    for path, mode in nodes:
        if mode in NO_NODE:
            continue
        # The limits apply to the path in Subversion, which is longer if some of its bytes are escaped.
        name = subversion_path(path)
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

"""Read blobs and trees from git, and refuse those that git itself would not make."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.external import CHUNK, printable
from vcsbench.processes import Program
from vcsbench.sources import svn_names
from vcsbench.sources.dump_format import Properties
from vcsbench.sources.git_repository import Git
from vcsbench.storages.file_trees import MAX_DEPTH, PATH_BYTES

# Modes of entries of a tree. ABSENT is the old mode of an added path, and the new mode of a deleted one.
EXECUTABLE_MODE, SYMLINK_MODE, SUBMODULE = b"100755", b"120000", b"160000"
FOLDER_MODE, ABSENT = b"040000", b"000000"
# Paths with these modes have no file, link or folder in Subversion.
NO_NODE = (ABSENT, SUBMODULE)
# Only a tree that holds itself many times has more: a few kilobytes become billions of files.
MOST_GIT_ENTRIES = 3_000_000
# Requests and the headers of their answers must fit into a pipe, or both sides wait for each other.
REQUESTS = 256
# git answers in seconds. After an object that is shorter than it states, it would wait for ever.
BLOB_ANSWER_S = 600.0
# The longest first line of an answer. A longer one is the content of a damaged object.
ANSWER_BYTES = 1 << 10


class Blob(NamedTuple):
    """The size of a file, and its content in parts, which can be read once."""

    size: int
    chunks: Iterator[bytes]


class BlobReader:
    """Reads blobs through one `git cat-file --batch`. Requests are sent ahead of the answers.

    git does not compare the size that an object states with its content. With another size, the next answer
    begins at another place, so each answer must begin with the name of its request.
    """

    def __init__(self, git: Git, program: Program) -> None:
        self._git = git
        self._program = program

    def read(self, names: Sequence[bytes]) -> Iterator[Blob]:
        """Yield the blobs with these names, such as b"0a4d55a8...", in this order.

        The caller must read the content of a blob to its end before it takes the next blob. Raise UserError
        if an object is missing, damaged or not a blob.
        """
        requests = self._program.process.stdin
        assert requests is not None
        for start in range(0, len(names), REQUESTS):
            batch = names[start : start + REQUESTS]
            try:
                requests.write(b"".join(name + b"\n" for name in batch))
                requests.flush()
            except BrokenPipeError:
                # git has ended. Its last messages are the reason.
                raise self._program.failed() from None
            for name in batch:
                size = self._read_size(name)
                yield Blob(size, self._read_chunks(name, size))

    def _read_size(self, name: bytes) -> int:
        """Read the first line of the answer to a request, `<name> blob 1234`, and return the size.

        Raise UserError if the object `name` is missing, damaged or not a blob.
        """
        line = self._program.stdout.readline(ANSWER_BYTES)
        if not line:
            raise self._program.failed()
        answer = line.split()
        if answer == [name, b"missing"]:
            raise self._git.missing_error(name)
        # A line of another form is content of an object before, which is longer or shorter than it states.
        if len(answer) != 3 or answer[0] != name:
            raise self._git.damaged_error(
                name, "an object before it has another size than it states"
            )
        _, kind, size = answer
        if kind != b"blob":
            raise self._git.damaged_error(name, f"it is a {kind.decode()}, not a blob")
        return int(size)

    def _read_chunks(self, name: bytes, size: int) -> Iterator[bytes]:
        """Yield the `size` bytes of the blob `name` in chunks, and read the line end behind them."""
        while size > 0:
            chunk = self._program.stdout.read(min(size, CHUNK))
            if not chunk:
                raise self._program.failed()
            size -= len(chunk)
            yield chunk
        if self._program.stdout.read(1) != b"\n":
            raise self._git.damaged_error(name, "its content has another size than it states")


def read_link(blob: Blob) -> tuple[Blob, Properties]:
    """Return the text and the properties of a link as Subversion stores it.

    git's `blob` has the target, `a`, which becomes the text `link a` with the property svn:special. If
    Subversion can make no link with this target, return the target as the text of a plain file, and {}.
    """
    # A long target makes no link, and may have gigabytes.
    if blob.size > svn_names.LONGEST_TARGET:
        return blob, {}
    properties, text = svn_names.link(b"".join(blob.chunks))
    return Blob(len(text), iter([text])), properties


@contextmanager
def open_blobs(git: Git) -> Iterator[BlobReader]:
    with git.start("cat-file", "--batch", stdin=processes.PIPE, limit_s=BLOB_ANSWER_S) as program:
        yield BlobReader(git, program)


def read_field(program: Program) -> bytes:
    """Return the output of git up to the next NUL, without the NUL. Raise UserError if there is no NUL."""
    parts = []
    while True:
        # peek() reads from git only if the buffer is empty. b"" is the end of the output.
        buffered = program.stdout.peek()
        if not buffered:
            raise program.failed()
        end = buffered.find(b"\0")
        if end >= 0:
            parts.append(program.stdout.read(end + 1)[:-1])
            return b"".join(parts)
        parts.append(program.stdout.read(len(buffered)))


class TreeEntry(NamedTuple):
    """A file, link, folder or submodule of a tree. The size is 0 without a blob."""

    path: bytes
    mode: bytes
    object: bytes
    size: int


def read_tree(git: Git, commit: str) -> list[TreeEntry]:
    """Return all files, links, folders and submodules in the tree of a commit, folders before their content.

    Raise UserError if a blob is missing, or if the tree has too many entries (check_count) or an unusable
    path (check_paths).
    """
    entries = list[TreeEntry]()
    arguments = ("ls-tree", "-r", "-t", "-z", "--long", "--full-tree", commit)
    with git.start(*arguments) as program:
        while program.stdout.peek():
            # `100644 blob <object> 1234`, a tab and the path. Folders and submodules have the size `-`.
            head, _, path = read_field(program).partition(b"\t")
            mode, _, name, listed_size = head.split()
            # `BAD` means that git has not found the object.
            if listed_size == b"BAD":
                raise git.missing_error(name)
            size = 0 if listed_size == b"-" else int(listed_size)
            entries.append(TreeEntry(path, mode, name, size))
            # A huge tree is refused before it fills the memory.
            check_count(entries, git)
        # git fails after a damaged tree.
        program.finish()
    check_paths([(entry.path, entry.mode) for entry in entries], git)
    return entries


def check_count(entries: Sequence[object], git: Git) -> None:
    """Raise UserError for too many entries of a tree, or changes of a commit."""
    if len(entries) > MOST_GIT_ENTRIES:
        raise UserError(
            f"{git.where}: a tree or a commit has more than {MOST_GIT_ENTRIES} files. Choose another branch."
        )


def check_paths(nodes: Sequence[tuple[bytes, bytes]], git: Git) -> None:
    """Raise UserError if a path is too long or too deep, or if a tree is damaged.

    `nodes` are pairs of a path and its mode, such as (b"a/b", FOLDER_MODE): all entries of a tree, or all
    changes of a commit. A tree with a link `a` and a file `a/b` is damaged: a program that writes `a/b` would
    write a file elsewhere.
    """
    # git lists each folder above a changed file as well, except for the top folder.
    folders = {path for path, mode in nodes if mode == FOLDER_MODE}
    folders.add(b"")
    seen = set[bytes]()
    for path, mode in nodes:
        if mode in NO_NODE:
            continue
        # The limits apply to the path in Subversion, which is longer if some of its bytes are escaped.
        svn_path = svn_names.subversion_path(path)
        if svn_path.count(b"/") > MAX_DEPTH or len(svn_path) > PATH_BYTES:
            raise UserError(
                f"{git.where}: a path is longer than {PATH_BYTES} bytes, or deeper than {MAX_DEPTH} folders: "
                f"{printable(svn_path[:60])}... . Choose another branch."
            )
        if path in seen:
            raise _damaged_tree(git, path, "it has two entries of this name")
        # `/etc/x`, or `a/b` where `a` is a link, would lead out of the tree.
        folder = path.rpartition(b"/")[0]
        if folder not in folders:
            raise _damaged_tree(git, path, "this path is outside of its folder")
        seen.add(path)


def _damaged_tree(git: Git, path: bytes, fault: str) -> UserError:
    return UserError(
        f"{git.where}: a tree is damaged at {printable(path[:200])}: {fault}. `git fsck` lists such trees."
    )

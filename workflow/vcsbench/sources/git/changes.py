"""The changes from one tree to the next, as `git diff-tree` tells them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader

from vcsbench.errors import UserError

EXECUTABLE = b"100755"
SYMLINK = b"120000"
SUBMODULE = b"160000"
FOLDER = b"040000"
ABSENT = b"000000"

# A commit may change more only where its tree holds itself many times over.
MOST_CHANGES = 3_000_000
# Trees as well as files; renames, which are looked for among so many files at most, because the
# effort grows with the square of their number.
DIFF_TREE = ("diff-tree", "--stdin", "-r", "-t", "--raw", "-z", "--no-abbrev", "-M", "-l400")


@dataclass(frozen=True)
class Change:
    """One file or directory that came, went or changed.

    Modes are git's, ABSENT where there is none. `source` is the path that it was renamed or copied
    from, which is `path` when it was neither; `moved` when that one went.
    """

    path: bytes
    source: bytes
    old_mode: bytes
    new_mode: bytes
    old_object: bytes
    new_object: bytes
    moved: bool = False


def _word(pipe: BufferedReader) -> bytes:
    """What comes before the next NUL."""
    word = b""
    while (end := (seen := pipe.peek()).find(b"\0")) < 0:
        if not seen:
            raise EOFError("git diff-tree ended in the middle of a change")
        word += pipe.read(len(seen))
    return word + pipe.read(end + 1)[:-1]


def read_changes(pipe: BufferedReader) -> Iterator[list[Change]]:
    """The changes of each pair of trees that was given to DIFF_TREE, in order.

    Each pair's output begins with a line of the two trees. Each change is
    `:<old mode> <new mode> <old object> <new object> <status>`, NUL, path, NUL; for a rename, whose
    status is R and a percentage, the old path and the new one. Where one file became several, the
    status of all but one is C.
    """
    while pipe.readline():
        changes = []
        while pipe.peek()[:1] == b":":
            old_mode, new_mode, old, new, status = _word(pipe)[1:].split(b" ")
            source = path = _word(pipe)
            if status[:1] in b"RC":
                path = _word(pipe)
            moved = status[:1] == b"R"
            changes.append(Change(path, source, old_mode, new_mode, old, new, moved))
            if len(changes) > MOST_CHANGES:
                raise UserError(
                    f"a commit changes more than {MOST_CHANGES} files. Choose another branch."
                )
        yield changes

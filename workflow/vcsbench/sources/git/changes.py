"""The changes from one tree to the next, as `git diff-tree` tells them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

EXECUTABLE = b"100755"
SYMLINK = b"120000"
SUBMODULE = b"160000"
FOLDER = b"040000"
ABSENT = b"000000"

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


class Words:
    """A program's output, word by word."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._buffer = b""
        self._at = 0

    def peek(self) -> bytes:
        """The next byte, or nothing at the end."""
        if self._at >= len(self._buffer):
            self._buffer = self._pipe.read1(1 << 16)  # type: ignore[attr-defined]
            self._at = 0
        return self._buffer[self._at : self._at + 1]

    def until(self, end: bytes) -> bytes:
        """What comes before the next `end`, which is one byte."""
        while (found := self._buffer.find(end, self._at)) < 0:
            more = self._pipe.read1(1 << 16)  # type: ignore[attr-defined]
            if not more:
                raise EOFError("git diff-tree ended in the middle of a change")
            self._buffer = self._buffer[self._at :] + more
            self._at = 0
        word = self._buffer[self._at : found]
        self._at = found + 1
        return word


def read_changes(words: Words) -> Iterator[list[Change]]:
    """The changes of each pair of trees that was given to DIFF_TREE, in order.

    Each pair's output begins with a line of the two trees. Each change is
    `:<old mode> <new mode> <old object> <new object> <status>`, NUL, path, NUL; for a rename, whose
    status is R and a percentage, the old path and the new one. Where one file became several, the
    status of all but one is C.
    """
    while words.peek():
        words.until(b"\n")
        changes = []
        while words.peek() == b":":
            old_mode, new_mode, old, new, status = words.until(b"\0")[1:].split(b" ")
            source = path = words.until(b"\0")
            if status[:1] in b"RC":
                path = words.until(b"\0")
            moved = status[:1] == b"R"
            changes.append(Change(path, source, old_mode, new_mode, old, new, moved))
        yield changes

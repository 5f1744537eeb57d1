"""The changes from one tree to the next, as `git diff-tree` tells them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

EXECUTABLE = b"100755"
SYMLINK = b"120000"
SUBMODULE = b"160000"
ABSENT = b"000000"


@dataclass(frozen=True)
class Change:
    """One path whose content or mode changed. Modes are git's, ABSENT where there is none."""

    path: bytes
    old_mode: bytes
    new_mode: bytes
    old_blob: bytes
    new_blob: bytes


class Stream:
    """NUL-terminated and newline-terminated words of a program's output."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._buffer = b""
        self._at = 0

    def peek(self) -> bytes:
        """The next byte, or nothing at the end."""
        while self._at >= len(self._buffer):
            self._buffer = self._pipe.read1(1 << 16)  # type: ignore[attr-defined]
            self._at = 0
            if not self._buffer:
                return b""
        return self._buffer[self._at : self._at + 1]

    def until(self, end: bytes) -> bytes:
        """What comes before the next `end`, which is one byte."""
        while (found := self._buffer.find(end, self._at)) < 0:
            more = self._pipe.read1(1 << 16)  # type: ignore[attr-defined]
            if not more:
                raise EOFError
            self._buffer = self._buffer[self._at :] + more
            self._at = 0
        word = self._buffer[self._at : found]
        self._at = found + 1
        return word


def read_changes(stream: Stream) -> Iterator[list[Change]]:
    """The changes of each pair of trees that was given to
    `git diff-tree --stdin -r --raw -z --no-renames --full-index`, in order.

    Each pair's output begins with a line of the two trees; each change is
    `:<old mode> <new mode> <old blob> <new blob> <status>`, NUL, path, NUL.
    """
    while stream.peek():
        stream.until(b"\n")
        changes = []
        while stream.peek() == b":":
            words = stream.until(b"\0")[1:].split(b" ")
            path = stream.until(b"\0")
            changes.append(Change(path, words[0], words[1], words[2], words[3]))
        yield changes

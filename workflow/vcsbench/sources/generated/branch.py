"""Branches as the generator remembers them: a bounded sample of files that get changed there."""

from __future__ import annotations

from random import Random

from vcsbench.sources import dumpstream
from vcsbench.sources.generated.edits import Editor
from vcsbench.sources.generated.pieces import size_of
from vcsbench.sources.generated.quantiles import ranked
from vcsbench.sources.generated.tree import File
from vcsbench.sources.generated.trunk import Trunk

SAMPLE_FILES = 48


class BranchFile:
    """A file on a branch: as it was when the branch was made, then changed on its own."""

    __slots__ = ("kind", "path", "pieces")

    def __init__(self, path: bytes, file: File) -> None:
        self.path = path
        self.kind = file.kind
        self.pieces = file.pieces

    def edit(self, editor: Editor) -> None:
        """Change the text."""
        self.pieces = editor.edit(self.kind, self.pieces, size_of(self.pieces))

    def enter(self, editor: Editor, limit: int) -> None:
        """Add an entry to a journal."""
        self.pieces = editor.enter(self.pieces, limit)

    def node(self, editor: Editor) -> bytes:
        """The record of the changed file."""
        return dumpstream.file(self.path, b"change", text=editor.text(self.kind, self.pieces))


class Branch:
    """A copy of trunk, and the files of it that will see changes."""

    def __init__(self, path: bytes, trunk: Trunk, rng: Random) -> None:
        self.path = path
        root = len(trunk.tree.root.path())
        picks = (trunk.tree.pick_hot(rng, trunk.profile.heat) for _ in range(SAMPLE_FILES))
        files = dict.fromkeys(file for file in picks if file is not trunk.journal)
        self._files = [BranchFile(path + file.path()[root:], file) for file in files]
        self.journal: BranchFile | None = None
        if trunk.journal:
            self.journal = BranchFile(path + trunk.journal.path()[root:], trunk.journal)

    def pick(self, rng: Random, count: int) -> list[BranchFile]:
        """Different files to change, at most `count`."""
        count = min(count, len(self._files))
        picked = {ranked(rng, len(self._files), 2) for _ in range(count)}
        return [self._files[i] for i in sorted(picked)]

"""Branches as the generator remembers them: a bounded sample of files that get changed there."""

from __future__ import annotations

from random import Random

from vcsbench.sources.generated.quantiles import ranked
from vcsbench.sources.generated.tree import Directory, File
from vcsbench.sources.generated.trunk import Trunk

SAMPLE_FILES = 48


class Branch:
    """A copy of trunk, and the files of it that will see changes: as they were when it was made, then
    changed on their own."""

    def __init__(self, path: bytes, trunk: Trunk, rng: Random) -> None:
        self.path = path
        picks = (trunk.tree.pick_hot(rng, trunk.profile.heat) for _ in range(SAMPLE_FILES))
        files = dict.fromkeys(file for file in picks if file is not trunk.journal)
        self._trunk = len(trunk.tree.root.name) + 1
        self._files = [self._copy(file) for file in files]
        self.journal = self._copy(trunk.journal) if trunk.journal else None

    def _copy(self, file: File) -> File:
        name = file.path()[self._trunk :]
        return File(name, Directory(self.path, None), file.kind, file.pieces)

    def pick(self, rng: Random, count: int) -> list[File]:
        """Different files to change, at most `count`."""
        count = min(count, len(self._files))
        picked = {ranked(rng, len(self._files), 2) for _ in range(count)}
        return [self._files[i] for i in sorted(picked)]

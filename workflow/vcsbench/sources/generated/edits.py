"""How the text of a file changes from one revision to the next."""

from __future__ import annotations

from random import Random

from vcsbench.sources import dumpstream
from vcsbench.sources.generated import measured, pieces
from vcsbench.sources.generated.pieces import Pieces, size_of
from vcsbench.sources.generated.pools import Pool
from vcsbench.sources.generated.profile import FileKind
from vcsbench.sources.generated.tree import File

# The journal is no share of the files: it is there once.
JOURNAL = FileKind(0, b"", "prose")
# A file that a program writes changes in so many places at once.
CHURN_HUNKS = 8


class Editor:
    """Makes and changes texts."""

    def __init__(self, rng: Random, pools: dict[str, Pool]) -> None:
        self._rng = rng
        self._pools = pools

    def fresh(self, kind: FileKind, size: int) -> Pieces:
        """The pieces of a new text."""
        return pieces.fresh(self._rng, self._pools[kind.pool], size)

    def text(self, kind: FileKind, text: Pieces) -> bytes:
        """The text that the pieces make up."""
        return pieces.text_of(self._pools[kind.pool], text)

    def changed(self, file: File) -> bytes:
        """The record of a file that has changed."""
        return dumpstream.file(file.path(), b"change", text=self.text(file.kind, file.pieces))

    def edit(self, file: File, excess: float = 0.0) -> Pieces:
        """The next version of a file's text.

        It tends to get shorter with an `excess` above 0 (at most 1), longer below 0.
        """
        kind, text = file.kind, file.pieces
        pool, size = self._pools[kind.pool], size_of(text)
        if kind.churn >= 1:
            return pieces.fresh(self._rng, pool, int(size * (0.95 + 0.1 * self._rng.random())))
        if kind.churn > 0:
            part = int(kind.churn * size / CHURN_HUNKS)
            hunks = [(part, int(part * (1 - 0.5 * excess)))] * CHURN_HUNKS
            return pieces.edited(self._rng, pool, text, hunks)
        return pieces.edited(self._rng, pool, text, self._hunks(size, excess))

    def _hunks(self, size: int, excess: float) -> list[tuple[int, int]]:
        rng = self._rng
        additions, removals = measured.PURE_ADDITIONS, measured.PURE_REMOVALS
        if excess > 0:
            additions, removals = removals, additions
        hunks = []
        for _ in range(measured.HUNKS.draw(rng)):
            changed = measured.HUNK_BYTES.draw(rng)
            share = rng.random()
            if share < additions:
                hunks.append((0, changed))
            elif share < additions + removals:
                hunks.append((min(changed, size // 4), 0))
            else:
                other = int(changed * (0.5 + rng.random()) * (1 - 0.5 * excess))
                hunks.append((min(changed, size // 2), other))
        return hunks

    def enter(self, journal: File, limit: int) -> Pieces:
        """The text of a journal with one more entry, kept below `limit` bytes."""
        entry = measured.JOURNAL_ENTRIES.draw(self._rng)
        return pieces.prepended(self._rng, self._pools["prose"], journal.pieces, entry, limit)

"""A project: its trunk, branches and tags, and the revisions that change them."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from random import Random

from vcsbench.sources import dumpstream
from vcsbench.sources.generated.edits import Editor
from vcsbench.sources.generated.profile import Layout, Profile
from vcsbench.sources.generated.quantiles import pick, ranked
from vcsbench.sources.generated.tree import Directory, File
from vcsbench.sources.generated.trunk import Trunk
from vcsbench.sources.generated.words import noun

# A project begins with an import of what it would have after so many revisions.
IMPORTED_REVISIONS = 100
# Branches that still get changes; the oldest is left alone when there would be more.
LIVE_BRANCHES = 5
# Of a branch's files, a sample gets changed.
SAMPLE_FILES = 48


def growth(profile: Profile, age: int) -> float:
    """The part of trunk's final size that it has after `age` revisions: the square root of the
    part of the history. So a scaled repository is the beginning of the whole one. A profile whose
    import has nearly all of it grows evenly."""
    if profile.imported:
        return min(1.0, profile.imported + (1 - profile.imported) * age / profile.revisions)
    return sqrt(min(1.0, max(age, IMPORTED_REVISIONS) / profile.revisions))


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


class Project:
    """One trunk with its branches and tags; `first` is the revision that it begins in."""

    def __init__(
        self, profile: Profile, layout: Layout, editor: Editor, rng: Random, first: int
    ) -> None:
        self._profile = profile
        self._layout = layout
        self._editor = editor
        self._rng = rng
        self._first = first
        kinds = profile.kinds if first == 1 else profile.other_kinds
        self.trunk = Trunk(profile, kinds, layout.trunk, editor, rng)
        self._branches: list[Branch] = []
        self._names = 0

    def make(self) -> Iterator[bytes]:
        """The directories of the layout, and those that they lie in."""
        paths = (self._layout.trunk, *self._layout.branches, *self._layout.tags)
        made = dict.fromkeys(d for path in paths for d in (*dumpstream.above(path), path))
        yield from map(dumpstream.directory, made)

    def start(self, number: int) -> Iterator[bytes]:
        """The import of trunk."""
        return self.trunk.start(growth(self._profile, number - self._first))

    def change(self, number: int) -> Iterator[bytes]:
        """What revision `number` does to the project."""
        shares, rng = self._profile.shares, self._rng
        kind = rng.random()
        if kind < shares.new_branch or not self._branches:
            return self._new_branch(number)
        kind -= shares.new_branch
        if kind < shares.new_tag:
            return self._new_tag(number)
        kind -= shares.new_tag
        if kind < shares.branch:
            return self._change_branch()
        return self.trunk.change(growth(self._profile, number - self._first), number)

    def _new_name(self, folders: tuple[bytes, ...]) -> bytes:
        self._names += 1
        return b"%s/%s_%d" % (folders[self._names % len(folders)], noun(self._rng), self._names)

    def _new_branch(self, number: int) -> Iterator[bytes]:
        path = self._new_name(self._layout.branches)
        self._branches.append(Branch(path, self.trunk, self._rng))
        del self._branches[:-LIVE_BRANCHES]
        origin = dumpstream.copyfrom(self._layout.trunk, number - 1)
        yield dumpstream.directory(path, origin=origin)

    def _new_tag(self, number: int) -> Iterator[bytes]:
        path = self._new_name(self._layout.tags)
        branch = pick(self._rng, self._branches)
        yield dumpstream.directory(path, origin=dumpstream.copyfrom(branch.path, number - 1))

    def _change_branch(self) -> Iterator[bytes]:
        rng = self._rng
        branch = pick(rng, self._branches)
        if branch.journal is not None and rng.random() < self._profile.shares.journal:
            branch.journal.pieces = self._editor.enter(branch.journal, self.trunk.journal_limit())
            yield self._editor.changed(branch.journal)
        for file in branch.pick(rng, self._profile.paths.draw(rng)):
            file.pieces = self._editor.edit(file)
            yield self._editor.changed(file)

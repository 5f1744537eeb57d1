"""Generate a history that resembles a published repository, the same bytes for each seed and scale."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from math import sqrt
from pathlib import Path
from random import Random
from typing import BinaryIO

from vcsbench.config.configuration import EMPTY
from vcsbench.files import files_digest
from vcsbench.sources import dump_format
from vcsbench.sources.base import Definition, Facts, Options, SizeEstimate, Source
from vcsbench.sources.generated_profiles import GAPS, PROFILES, Profile, ProjectLayout
from vcsbench.sources.generated_text import Editor, invented_word, message, noun, pick, ranked
from vcsbench.sources.generated_tree import Branch, GeneratedTree, Trunk, growth

CHUNK = 1 << 18
# With the third power, the first of ruby's 91 authors has 22 percent of the revisions (measured: 24).
AUTHORS_POWER = 3
# Only the newest branches change.
LIVE_BRANCHES = 5
EMPTY_UUID = "7a1d3f0c-5c0e-4d0e-9a55-3a4c9f3e9e01"
EMPTY_TREE = "trunk"


class GeneratedProject:
    """A trunk with its branches and tags; `first` is the revision in which it begins."""

    def __init__(
        self, profile: Profile, layout: ProjectLayout, editor: Editor, rng: Random, first: int
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

    def make_layout(self) -> Iterator[bytes]:
        """Yield the records of the layout's directories and of those above them."""
        paths = (self._layout.trunk, *self._layout.branches, *self._layout.tags)
        folders = dict.fromkeys(d for path in paths for d in (*dump_format.above(path), path))
        return map(dump_format.directory, folders)

    def start(self, number: int) -> Iterator[bytes]:
        """Yield the records of trunk's first import."""
        return self.trunk.start(growth(self._profile, number - self._first))

    def change(self, number: int) -> Iterator[bytes]:
        """Yield the records of revision `number`."""
        shares, rng = self._profile.shares, self._rng
        kind = rng.random()
        if kind < shares.new_branch or not self._branches:
            path = self._new_name(self._layout.branches)
            self._branches.append(Branch(path, self.trunk, rng))
            del self._branches[:-LIVE_BRANCHES]
            origin = dump_format.copyfrom(self._layout.trunk, number - 1)
            yield dump_format.directory(path, origin=origin)
        elif kind < shares.new_branch + shares.new_tag:
            path = self._new_name(self._layout.tags)
            origin = dump_format.copyfrom(pick(rng, self._branches).path, number - 1)
            yield dump_format.directory(path, origin=origin)
        elif kind < shares.new_branch + shares.new_tag + shares.branch:
            yield from self._change_branch()
        else:
            yield from self.trunk.change(growth(self._profile, number - self._first), number)

    def _new_name(self, folders: tuple[bytes, ...]) -> bytes:
        self._names += 1
        return b"%s/%s_%d" % (folders[self._names % len(folders)], noun(self._rng), self._names)

    def _change_branch(self) -> Iterator[bytes]:
        rng, trunk = self._rng, self.trunk
        branch = pick(rng, self._branches)
        if branch.journal is not None and rng.random() < self._profile.shares.journal:
            branch.journal.pieces = self._editor.add_entry(
                branch.journal.pieces, trunk.journal_limit()
            )
            yield trunk.record(branch.journal)
        count = min(self._profile.paths.draw(rng), len(branch.files))
        for i in sorted({ranked(rng, len(branch.files), 2) for _ in range(count)}):
            file = branch.files[i]
            file.pieces = self._editor.edit(file.kind, file.pieces)
            yield trunk.record(file)


class History:
    """The revisions 1 to `youngest` of a profile as records of a dump stream."""

    def __init__(self, profile: Profile, seed: int, youngest: int) -> None:
        self._profile = profile
        self._youngest = youngest
        name = f"{profile.name} {seed}"
        # random.Random with a text as its seed gives the same numbers on every Python 3.
        self._rng, self._people = Random(name), Random(f"{name} people")
        self._editor = Editor(self._rng, name)
        self._authors = [
            invented_word(self._people, 2 + i % 2).encode("ascii") for i in range(profile.authors)
        ]
        duration = profile.last_date - profile.first_date
        # Gaps are ruby's, stretched so that the last revision gets the profile's last date.
        self._gap = duration.total_seconds() / profile.revisions / GAPS.mean()
        self._date = profile.first_date
        self._projects: list[GeneratedProject] = []

    def records(self) -> Iterator[bytes]:
        """Yield the records of all revisions."""
        yield dump_format.revision(0, {b"svn:date": dump_format.date(self._date)})
        for number in range(1, self._youngest + 1):
            yield dump_format.revision(number, self._properties())
            yield from self._nodes(number)

    def trunk(self) -> GeneratedTree:
        """Return the exported tree after the records so far."""
        return self._projects[0].trunk.tree

    def _properties(self) -> dict[bytes, bytes]:
        rng = self._people
        self._date += timedelta(microseconds=1 + int(1e6 * self._gap * GAPS.value(rng)))
        return {
            b"svn:log": message(rng, self._profile.message_bytes.draw(rng)),
            b"svn:author": self._authors[ranked(rng, len(self._authors), AUTHORS_POWER)],
            b"svn:date": dump_format.date(self._date),
        }

    def _nodes(self, number: int) -> Iterator[bytes]:
        profile, rng = self._profile, self._rng
        if number == 1:
            return self._new_project(profile.layout, number).make_layout()
        if number == 2:
            return self._projects[0].start(number)
        others = int((profile.projects - 1) * sqrt(number / profile.revisions))
        if others >= len(self._projects):
            return self._other_project(number)
        if len(self._projects) == 1 or rng.random() < profile.own_share:
            return self._projects[0].change(number)
        return pick(rng, self._projects[1:]).change(number)

    def _new_project(self, layout: ProjectLayout, number: int) -> GeneratedProject:
        project = GeneratedProject(self._profile, layout, self._editor, self._rng, number)
        self._projects.append(project)
        return project

    def _other_project(self, number: int) -> Iterator[bytes]:
        name = b"%s%d" % (noun(self._rng), len(self._projects))
        layout = ProjectLayout(name + b"/trunk", (name + b"/branches",), (name + b"/tags",))
        project = self._new_project(layout, number)
        yield from project.make_layout()
        yield from project.start(number)


@cache
def generator_digest() -> str:
    """Return a digest of the code that decides the bytes."""
    folder = Path(__file__).parent
    names = sorted(file.name for file in folder.glob("generated*.py"))
    return files_digest(folder, ["dump_format.py", *names])


class GeneratedSource(Source):
    """A profile at a scale."""

    kind = "generated"

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        options = Options(name, definition, where)
        options.allow("profile", "scale", "seed")
        self._profile = PROFILES[options.choice("profile", tuple(PROFILES))]
        self._scale = options.number("scale", 1.0)
        self._seed = options.whole("seed", 1)
        if not 0 < self._scale <= 1:
            raise options.error("scale", f"must be above 0 and at most 1, not {self._scale}")
        self._youngest = max(2, round(self._profile.revisions * self._scale))
        if self._profile.imported:
            self._profile = self._profile.at(self._scale)
            self._youngest = self._profile.revisions

    def identity(self) -> str:
        """Return a digest of the definition and the generator's code."""
        parts = [self._profile.name, self._scale, self._seed, generator_digest()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def scale(self) -> float:
        """Return the part of the published number of revisions."""
        return self._scale

    def describe(self) -> str:
        """Return one line for reports."""
        return (
            f"generated history like {self._profile.name}, {self._youngest:,} revisions "
            f"(scale {self._scale:g}, seed {self._seed})"
        )

    @cached_property
    def _estimate(self) -> SizeEstimate:
        profile = self._profile
        grown = growth(profile, self._youngest)
        return SizeEstimate(
            revisions=self._youngest,
            repository_bytes=profile.repository.at(self._scale),
            files=int(grown * profile.tree_files),
            tree_bytes=int(grown * profile.tree_bytes),
        )

    def write(self, out: BinaryIO) -> Facts:
        """Write the stream in chunks."""
        identity = uuid.uuid5(uuid.NAMESPACE_OID, self.describe())
        pending = bytearray(dump_format.header(str(identity)))
        for record in History(self._profile, self._seed, self._youngest).records():
            pending += record
            if len(pending) > CHUNK:
                out.write(pending)
                pending.clear()
        out.write(pending)
        out.flush()
        return Facts(revisions=self._youngest)

    def tree(self, loaded: Path | None = None) -> str:
        """Return the path of trunk in the profile's layout."""
        return self._profile.layout.trunk.decode("ascii")


class EmptySource(Source):
    """One revision with one empty folder: on it, a command takes its fixed cost only."""

    kind = EMPTY

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        Options(name, definition, where).allow()

    def identity(self) -> str:
        """Return a constant: the history never changes."""
        return EMPTY_UUID.replace("-", "")

    def describe(self) -> str:
        """Return one line for reports."""
        return "an empty repository"

    @cached_property
    def _estimate(self) -> SizeEstimate:
        return SizeEstimate(revisions=1, repository_bytes=100_000)

    def write(self, out: BinaryIO) -> Facts:
        """Write revisions 0 and 1."""
        properties = {
            b"svn:log": b"Add trunk.",
            b"svn:author": b"vcsbench",
            b"svn:date": dump_format.date(datetime(2014, 1, 1, tzinfo=UTC)),
        }
        out.write(dump_format.header(EMPTY_UUID))
        out.write(dump_format.revision(1, properties))
        out.write(dump_format.directory(EMPTY_TREE.encode("ascii")))
        out.flush()
        return Facts(revisions=1)

    def tree(self, loaded: Path | None = None) -> str:
        """Return the path of the empty folder."""
        return EMPTY_TREE

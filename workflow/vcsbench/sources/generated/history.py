"""A generated history, record by record."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from random import Random

from vcsbench.sources import dumpstream
from vcsbench.sources.generated.edits import Editor
from vcsbench.sources.generated.people import People
from vcsbench.sources.generated.pools import make_pools
from vcsbench.sources.generated.profile import Layout, Profile
from vcsbench.sources.generated.project import Project
from vcsbench.sources.generated.quantiles import pick
from vcsbench.sources.generated.tree import Tree
from vcsbench.sources.generated.words import noun


class History:
    """Makes the revisions 1 to `youngest` of a profile, in pieces of a dump stream."""

    def __init__(self, profile: Profile, seed: int, youngest: int) -> None:
        self._profile = profile
        self._youngest = youngest
        # random.Random seeded with a text gives the same numbers on every Python 3.
        self._rng = Random(f"{profile.name} {seed}")
        self._editor = Editor(self._rng, make_pools(f"{profile.name} {seed}"))
        self._people = People(Random(f"{profile.name} {seed} people"), profile)
        self._projects: list[Project] = []

    def records(self) -> Iterator[bytes]:
        """The records of all revisions, in order."""
        yield dumpstream.revision(0, self._people.revision_0())
        for number in range(1, self._youngest + 1):
            yield dumpstream.revision(number, self._people.properties())
            yield from self._nodes(number)

    def trunk(self) -> Tree:
        """The tree that export exports, as far as records() has come."""
        return self._projects[0].trunk.tree

    def _nodes(self, number: int) -> Iterator[bytes]:
        profile, rng = self._profile, self._rng
        if number == 1:
            return self._new_project(profile.layout, number).make()
        if number == 2:
            return self._projects[0].start(number)
        others = int((profile.projects - 1) * sqrt(number / profile.revisions))
        if others >= len(self._projects):
            return self._other_project(number)
        if len(self._projects) == 1 or rng.random() < profile.own_share:
            return self._projects[0].change(number)
        return pick(rng, self._projects[1:]).change(number)

    def _new_project(self, layout: Layout, number: int) -> Project:
        project = Project(self._profile, layout, self._editor, self._rng, number)
        self._projects.append(project)
        return project

    def _other_project(self, number: int) -> Iterator[bytes]:
        """A further project of the repository, with its first files."""
        name = b"%s%d" % (noun(self._rng), len(self._projects))
        layout = Layout(name + b"/trunk", (name + b"/branches",), (name + b"/tags",))
        project = self._new_project(layout, number)
        yield from project.make()
        yield from project.start(number)

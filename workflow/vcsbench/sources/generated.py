"""Generate a history that resembles a published repository, the same bytes for each seed and scale."""

import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from math import sqrt
from pathlib import Path
from random import Random
from typing import BinaryIO

from vcsbench import words
from vcsbench.config.configuration import EMPTY
from vcsbench.modules import code_digest
from vcsbench.sources import dump_format
from vcsbench.sources.base import TRUNK, Definition, Facts, Options, SizeEstimate, Source
from vcsbench.sources.generated_profiles import GAPS, PROFILES, Profile, ProjectLayout
from vcsbench.sources.generated_text import (
    invented_word,
    log_message,
    make_pools,
    noun,
    pick,
    ranked,
)
from vcsbench.sources.generated_tree import GeneratedProject, growth

# With the third power, the first of ruby's 91 authors has 22 percent of the revisions (measured: 24).
AUTHORS_POWER = 3
EMPTY_UUID = "7a1d3f0c-5c0e-4d0e-9a55-3a4c9f3e9e01"


class History:
    """The revisions 1 to `youngest` of a profile as records of a dump stream."""

    def __init__(self, profile: Profile, seed: int, youngest: int) -> None:
        self._profile = profile
        self._youngest = youngest
        name = f"{profile.name} {seed}"
        # random.Random with a text as its seed gives the same numbers on every Python 3.
        self._rng, self._people = Random(name), Random(f"{name} people")
        self._pools = make_pools(name)
        self._authors = [
            invented_word(self._people, 2 + i % 2).encode("ascii") for i in range(profile.authors)
        ]
        duration = profile.last_date - profile.first_date
        self._gap = duration.total_seconds() / profile.revisions / GAPS.mean()
        self._date = profile.first_date
        self.projects: list[GeneratedProject] = []

    def records(self) -> Iterator[bytes]:
        yield dump_format.revision(0, {b"svn:date": dump_format.date(self._date)})
        for number in range(1, self._youngest + 1):
            yield dump_format.revision(number, self._properties())
            yield from self._nodes(number)

    def _properties(self) -> dict[bytes, bytes]:
        rng = self._people
        self._date += timedelta(microseconds=1 + int(1e6 * self._gap * GAPS.value(rng)))
        return {
            b"svn:log": log_message(rng, self._profile.message_bytes.draw(rng)),
            b"svn:author": self._authors[ranked(rng, len(self._authors), AUTHORS_POWER)],
            b"svn:date": dump_format.date(self._date),
        }

    def _nodes(self, number: int) -> Iterator[bytes]:
        profile, rng = self._profile, self._rng
        if number == 1:
            yield from self._new_project(profile.layout, number).make_layout()
            return
        if number == 2:
            yield from self.projects[0].start(number)
            return
        others = int((profile.projects - 1) * sqrt(number / profile.revisions))
        if others >= len(self.projects):
            name = b"%s%d" % (noun(rng), len(self.projects))
            layout = ProjectLayout(name + b"/trunk", (name + b"/branches",), (name + b"/tags",))
            project = self._new_project(layout, number)
            yield from project.make_layout()
            yield from project.start(number)
        elif len(self.projects) == 1 or rng.random() < profile.own_share:
            yield from self.projects[0].change(number)
        else:
            yield from pick(rng, self.projects[1:]).change(number)

    def _new_project(self, layout: ProjectLayout, number: int) -> GeneratedProject:
        self.projects.append(
            GeneratedProject(self._profile, layout, self._pools, self._rng, number)
        )
        return self.projects[-1]


@cache
def generator_digest() -> str:
    folder = Path(__file__).parent
    names = sorted(file.name for file in folder.glob("generated*.py"))
    return code_digest(str(folder / name) for name in ["dump_format.py", *names])


class GeneratedSource(Source):
    """A profile at a scale."""

    kind = "generated"

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        options = Options(name, definition, where, "profile", "scale", "seed")
        profile = PROFILES.get(options.text("profile"))
        if not profile:
            given = definition["profile"]
            raise options.error(
                "profile", f"{given!r} is no profile. Use one of {', '.join(PROFILES)}."
            )
        scale = self._scale = definition.get("scale", 1.0)
        self._seed = definition.get("seed", 1)
        self._youngest = max(2, round(profile.revisions * scale))
        if profile.imported:
            self._youngest = 2 + round((profile.revisions - 2) * scale)
            profile = replace(
                profile,
                revisions=self._youngest,
                tree_files=round(profile.tree_files * scale),
                tree_bytes=round(profile.tree_bytes * scale),
            )
        self._profile = profile

    def identity(self) -> str:
        parts = [self._profile.name, self._scale, self._seed, generator_digest()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def scale(self) -> float:
        return self._scale

    def describe(self) -> str:
        return (
            f"generated history like {self._profile.name}, "
            f"{words.count_of(self._youngest, 'revision')} (scale {self._scale:g}, seed {self._seed})"
        )

    @cached_property
    def _estimate(self) -> SizeEstimate:
        profile, scale = self._profile, self._scale
        grown = growth(profile, self._youngest)
        tree, history, power = profile.repository
        return SizeEstimate(
            revisions=self._youngest,
            repository_bytes=int(tree * sqrt(scale) + history * scale**power),
            files=int(grown * profile.tree_files),
            tree_bytes=int(grown * profile.tree_bytes),
        )

    def write(self, out: BinaryIO) -> Facts:
        out.write(dump_format.header(str(uuid.uuid5(uuid.NAMESPACE_OID, self.describe()))))
        out.writelines(History(self._profile, self._seed, self._youngest).records())
        out.flush()
        return Facts(revisions=self._youngest)

    def tree(self, loaded: Path | None = None) -> str:
        return self._profile.layout.trunk.decode("ascii")


class EmptySource(Source):
    """One revision with one empty folder: on it, a command takes its fixed cost only."""

    kind = EMPTY
    _estimate = SizeEstimate(revisions=1, repository_bytes=100_000)

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        Options(name, definition, where)

    def identity(self) -> str:
        return EMPTY_UUID.replace("-", "")

    def describe(self) -> str:
        return "an empty repository"

    def write(self, out: BinaryIO) -> Facts:
        properties = {
            b"svn:log": b"Add trunk.",
            b"svn:author": b"vcsbench",
            b"svn:date": dump_format.date(datetime(2014, 1, 1, tzinfo=UTC)),
        }
        out.write(dump_format.header(EMPTY_UUID))
        out.write(dump_format.revision(1, properties))
        out.write(dump_format.directory(TRUNK.encode("ascii")))
        out.flush()
        return Facts(revisions=1)

    def tree(self, loaded: Path | None = None) -> str:
        return TRUNK

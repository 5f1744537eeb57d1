"""Generate a history that resembles a published repository, the same bytes for each seed and scale."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
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
from vcsbench.sources.generated_events import (
    TRUNK_REF,
    Change,
    Event,
    FastImportWriter,
    FileChanged,
    FolderAdded,
    PathDeleted,
    ProjectAdded,
    RevisionBegun,
    dump_records,
)
from vcsbench.sources.generated_profiles import GAPS, PROFILES, Profile, ProjectLayout
from vcsbench.sources.generated_text import (
    invent_word,
    make_log_message,
    make_pools,
    pick,
    pick_noun,
    pick_rank,
)
from vcsbench.sources.generated_tree import GeneratedProject

# With the third power, the first of ruby's 91 authors has 22 percent of the revisions (measured: 24).
AUTHORS_POWER = 3
EMPTY_UUID = "7a1d3f0c-5c0e-4d0e-9a55-3a4c9f3e9e01"
EMPTY_REVISION = RevisionBegun(
    1, dump_format.date(datetime(2014, 1, 1, tzinfo=UTC)), b"vcsbench", b"Add trunk."
)


class History:
    """The revisions 0 to `youngest` of a profile as events.

    A profile has the figures of a published repository. An event is the begin of a revision, or a change.
    """

    def __init__(self, profile: Profile, seed: int, youngest: int) -> None:
        """Prepare the history; events() makes its events. Each `seed` gives another history.

        `youngest` is the number of its last revision.
        """
        self._profile = profile
        self._youngest = youngest
        # Such as "ruby 1". random.Random with a text as its seed gives the same numbers on every Python 3.
        name = f"{profile.name} {seed}"
        self._rng = Random(name)
        # Authors, messages and dates have their own random numbers. So they stay the same if a change of the
        # profile's files needs more or fewer random numbers.
        self._people = Random(f"{name} people")
        # The lines of which the texts of files are made, by kind of text, such as "prose".
        self._pools = make_pools(name)
        self._authors = []
        for i in range(profile.authors):
            # The names of the authors have two syllables and three syllables in turn.
            self._authors.append(invent_word(self._people, 2 + i % 2).encode("ascii"))
        duration = profile.last_date - profile.first_date
        # GAPS is the distribution of the distances between revisions, without a unit. A value of it, times
        # this factor, is a distance in seconds. All revisions then fill the time from first to last date.
        self._gap_s = duration.total_seconds() / profile.revisions / GAPS.mean()
        # The date of the latest revision.
        self._date = profile.first_date
        # _add_project() appends the first project in revision 1, and other projects in later revisions.
        self.projects: list[GeneratedProject] = []

    def events(self) -> Iterator[Event]:
        """Yield revision 0, with only a date, and the later revisions with their changes. Call it once."""
        yield RevisionBegun(0, dump_format.date(self._date))
        for number in range(1, self._youngest + 1):
            yield self._begin_revision(number)
            if number == 1:
                # This appends the first project to `projects`. Its event makes the folders of the project.
                yield self._add_project(self._profile.layout, number)
            elif number == 2:
                # The first files of the first project.
                yield from self.projects[0].start(number)
            else:
                yield from self._changes(number)

    def _begin_revision(self, number: int) -> RevisionBegun:
        """Return the begin of the next revision, with its message, author and date."""
        rng = self._people
        # Subversion looks revisions up by date, so each date is at least one microsecond later.
        self._date += timedelta(microseconds=1 + int(1e6 * self._gap_s * GAPS.value(rng)))
        # The message comes before the author: another order of random numbers gives another history.
        message = make_log_message(rng, self._profile.message_bytes.draw(rng))
        author = self._authors[pick_rank(rng, len(self._authors), AUTHORS_POWER)]
        return RevisionBegun(number, dump_format.date(self._date), author, message)

    def _changes(self, number: int) -> Iterator[Change]:
        """Yield the changes of the revision `number`: of one project, or the first files of a new project.

        Revision 1 makes the folders of the first project, and revision 2 its first files. So `number` is 3 or
        more. A project is added if the repository has fewer projects than it should have at this revision.
        """
        profile, rng = self._profile, self._rng
        # The number of projects that the repository should have now, without the first project. It grows with
        # the square root of the number of revisions.
        others = int((profile.projects - 1) * sqrt(number / profile.revisions))
        # `projects` also has the first project. If it has fewer than `others` + 1 entries, one is added.
        if others >= len(self.projects):
            # Such as buffer7. The number makes the name unique: a noun may come twice.
            name = b"%s%d" % (pick_noun(rng), len(self.projects))
            layout = ProjectLayout(name + b"/trunk", (name + b"/branches",), (name + b"/tags",))
            # This also appends the new project to `projects`.
            yield self._add_project(layout, number)
            yield from self.projects[-1].start(number)
        # `own_share` is the first project's share of the revisions. The other projects share the rest.
        elif len(self.projects) == 1 or rng.random() < profile.own_share:
            yield from self.projects[0].change(number)
        else:
            yield from pick(rng, self.projects[1:]).change(number)

    def _add_project(self, layout: ProjectLayout, number: int) -> ProjectAdded:
        """Append a project without files to `projects`, and return the event that makes its folders."""
        kinds = self._profile.other_kinds if self.projects else self._profile.kinds
        project = GeneratedProject(
            self._profile, layout, self._pools, self._rng, first=number, kinds=kinds
        )
        self.projects.append(project)
        return ProjectAdded(layout)


class FileChanges:
    """Count how often each file of a trunk is changed. The same file is busiest in Subversion and in git."""

    def __init__(self, trunk: bytes) -> None:
        self._folder = trunk + b"/"
        self._changes: Counter[bytes] = Counter()

    def count(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield the events unchanged, and count their changes of files for `busiest`.

        A deleted file is forgotten. A moved file begins at 0, because a move is a copy and a deletion.
        """
        for event in events:
            if isinstance(event, FileChanged) and event.path.startswith(self._folder):
                self._changes[event.path] += 1
            elif isinstance(event, PathDeleted):
                self._forget(event.path)
            yield event

    def _forget(self, path: bytes) -> None:
        below = path + b"/"
        for name in list(self._changes):
            if name == path or name.startswith(below):
                del self._changes[name]

    @property
    def busiest(self) -> str:
        """The path of the file with the most changes, below the trunk; "" if no file was changed."""
        if not self._changes:
            return ""
        path = min(self._changes, key=lambda name: (-self._changes[name], name))
        return path.removeprefix(self._folder).decode("ascii")


@cache
def generator_digest() -> str:
    """Return a digest of the code that decides on the bytes of a generated history."""
    folder = Path(__file__).parent
    names = sorted(file.name for file in folder.glob("generated*.py"))
    return code_digest(str(folder / name) for name in ["dump_format.py", *names])


class GeneratedSource(Source):
    """A profile at a scale."""

    kind = "generated"

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        """Read a definition such as {"profile": "ruby", "scale": 0.1}. Raise UserError for a wrong one.

        `name` is the name of the repository, and `where` the file of the configuration that defines it.
        """
        options = Options(name, definition, where, "profile", "scale", "seed", "tree")
        profile_name = options.get_text("profile")
        if profile_name not in PROFILES:
            raise options.error(
                "profile", f"{profile_name!r} is no profile. Use one of {', '.join(PROFILES)}."
            )
        self._profile = PROFILES[profile_name]
        # The configuration has checked the types and limits of `scale` and `seed`.
        self._scale: float = definition.get("scale", 1.0)
        self._seed: int = definition.get("seed", 1)
        self._tree = options.get_tree()
        # A scaled history is the beginning of the whole history. At every scale, revision 1 makes the folders
        # and revision 2 is the first import, so there are at least 2 revisions.
        self._youngest = max(2, round(self._profile.revisions * self._scale))
        # If most files are in the import, a shorter history would have the same tree. So the tree is scaled,
        # too, and revisions 1 and 2 are not.
        if self._profile.imported:
            self._youngest = 2 + round((self._profile.revisions - 2) * self._scale)
            self._profile = replace(
                self._profile,
                revisions=self._youngest,
                tree_files=round(self._profile.tree_files * self._scale),
                tree_bytes=round(self._profile.tree_bytes * self._scale),
            )

    def identity(self) -> str:
        parts = [self._profile.name, self._scale, self._seed, generator_digest()]
        if self._tree is not None:
            parts.append(self._tree)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def scale(self) -> float:
        return self._scale

    def describe(self) -> str:
        """Return such as `generated history like ruby, 46 revisions (scale 0.001, seed 1)`."""
        revisions = words.count_of(self._youngest, "revision")
        size = f"scale {self._scale:g}, seed {self._seed}"
        return f"generated history like {self._profile.name}, {revisions} ({size})"

    @cached_property
    def _estimate(self) -> SizeEstimate:
        tree_bytes, history_bytes, power = self._profile.repository
        # This formula was fitted to the sizes of loaded repositories.
        size = tree_bytes * sqrt(self._scale) + history_bytes * self._scale**power
        return SizeEstimate(self._youngest, repository_bytes=int(size))

    def write(self, out: BinaryIO) -> Facts:
        changes = FileChanges(self._profile.layout.trunk)
        out.write(dump_format.header(self.describe()))
        out.writelines(dump_records(changes.count(self._events())))
        out.flush()
        return Facts(revisions=self._youngest, busy_file=changes.busiest)

    def write_fast_import(self, out: BinaryIO) -> Facts:
        changes = FileChanges(self._profile.layout.trunk)
        writer = FastImportWriter(out)
        writer.write(changes.count(self._events()))
        writer.finish()
        return Facts(revisions=self._youngest, busy_file=changes.busiest)

    def _events(self) -> Iterator[Event]:
        return History(self._profile, self._seed, self._youngest).events()

    def tree(self, loaded: Path | None = None) -> str:
        if self._tree is not None:
            return self._tree
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
        out.write(dump_format.header_with_uuid(EMPTY_UUID))
        out.writelines(dump_records([EMPTY_REVISION, FolderAdded(TRUNK.encode("ascii"))]))
        out.flush()
        return Facts(revisions=1)

    def write_fast_import(self, out: BinaryIO) -> Facts:
        """Write one commit of an empty tree."""
        writer = FastImportWriter(out)
        writer.write([EMPTY_REVISION])
        writer.begin_commit(TRUNK_REF)
        writer.finish()
        return Facts(revisions=1)

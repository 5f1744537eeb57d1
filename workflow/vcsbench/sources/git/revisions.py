"""Events of a git history written as revisions."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from vcsbench.external import printable
from vcsbench.sources import dumpstream, names
from vcsbench.sources.base import Facts
from vcsbench.sources.git.changes import Change
from vcsbench.sources.git.graph import TRUNK, Copy, Line, Plan
from vcsbench.sources.git.messages import Message, parse_object
from vcsbench.sources.git.nodes import Nodes
from vcsbench.sources.git.objects import Objects
from vcsbench.sources.git.tree import IMPOSSIBLE, SUBMODULES, TARGETS

RENAMED = "Branches and tags renamed, because one would lie in another"
LAYOUT = (TRUNK, b"branches", b"tags")


class Revisions:
    """Writes one revision after the other, and counts what could not stay as it was."""

    def __init__(self, plan: Plan, objects: Objects, out: BinaryIO) -> None:
        self._plan = plan
        self._objects = objects
        self._out = out
        self._nodes = Nodes(objects, out)
        self._number = 0
        self._revision_of = array("I", bytes(4 * len(plan.commits)))
        self._seconds = 0
        self._late = 0
        self._folders = set(LAYOUT)

    @property
    def total(self) -> int:
        """How many revisions write() writes."""
        plan = self._plan
        copies = sum(len(some) for some in plan.copies.values())
        ends = sum(len(some) for some in plan.ends.values())
        return 1 + len(plan.commits) + copies + ends  # the first one makes the layout

    def write(self, changes: Iterator[list[Change]]) -> None:
        """Write all revisions; `changes` are those of each commit, in order."""
        for at in range(len(self._plan.commits)):
            self._changed(at, next(changes))
            for copy in self._plan.copies[at]:
                self._copied(copy)
            for line in self._plan.ends[at]:
                self._deleted(at, line)

    def _begin(self, message: Message, extra: dict[bytes, bytes]) -> None:
        """Write the record that begins the next revision."""
        if message.seconds < self._seconds:
            self._late += 1
        self._seconds = max(self._seconds, message.seconds)
        properties = message.properties(self._seconds)
        if self._number == 0:
            self._first({b"svn:date": properties[b"svn:date"]})
        self._number += 1
        self._out.write(dumpstream.revision(self._number, properties | extra))

    def _first(self, properties: dict[bytes, bytes]) -> None:
        """The revisions 0 and 1, which make the usual layout."""
        self._out.write(dumpstream.revision(0, properties))
        log = {b"svn:log": b"The usual layout."}
        self._out.write(dumpstream.revision(1, properties | log))
        for name in LAYOUT:
            self._out.write(dumpstream.directory(name))
        self._number = 1

    def _changed(self, at: int, changes: list[Change]) -> None:
        commit, line = self._plan.commits[at], self._plan.line_of(at)
        extra = {b"git:commit": commit.name}
        if len(commit.parents) > 1:
            parents = (self._plan.commits[parent].name for parent in commit.parents)
            extra[b"git:parents"] = b" ".join(parents)
        self._begin(parse_object(self._objects.whole(commit.name)), extra)
        origin = (line.path, self._number - 1)
        if at == line.first and line.path != TRUNK:
            copyfrom = b""
            if commit.parents:
                origin = self._place(commit.parents[0])
                copyfrom = dumpstream.copyfrom(*origin)
            self._add_line(line.path, copyfrom)
        self._nodes.write(changes, line.path, origin)
        self._revision_of[at] = self._number

    def _place(self, at: int) -> tuple[bytes, int]:
        """The path and revision at which a commit's tree lies."""
        line = self._plan.line_of(at)
        return line.path, self._revision_of[at]

    def _add_line(self, path: bytes, copyfrom: bytes) -> None:
        """Add a branch or tag, and the directories that it lies in."""
        for folder in dumpstream.above(path):
            if folder not in self._folders:
                self._folders.add(folder)
                self._out.write(dumpstream.directory(folder))
        self._out.write(dumpstream.directory(path, origin=copyfrom))

    def _copied(self, copy: Copy) -> None:
        message = parse_object(self._objects.whole(copy.target))
        self._begin(message, {b"git:commit": self._plan.commits[copy.at].name})
        self._add_line(copy.path, dumpstream.copyfrom(*self._place(copy.at)))

    def _deleted(self, at: int, line: Line) -> None:
        message = parse_object(self._objects.whole(self._plan.commits[at].name))
        name = line.path.rpartition(b"/")[2].decode("ascii")
        self._begin(replace(message, text=f"Delete {name}, which is merged."), {})
        self._out.write(dumpstream.deletion(line.path))

    def facts(self) -> Facts:
        """What was written, after the last revision."""
        nodes = self._nodes
        counts = {
            SUBMODULES: len(nodes.submodules),
            **{reason: len(nodes.renamed[reason]) for reason in names.REASONS},
            TARGETS: len(nodes.targets),
            IMPOSSIBLE: len(nodes.impossible),
            f"{RENAMED}{_examples(self._plan.renamed)}": len(self._plan.renamed),
            "Commits that got the date of the one before them, because they are dated before it and "
            "Subversion looks revisions up by date": self._late,
        }
        return Facts(self._number, [f"{what}: {n}." for what, n in counts.items() if n])


def _examples(renamed: dict[bytes, bytes]) -> str:
    """Return the first few new names in parentheses."""
    first = [f"{printable(old)} as {printable(new)}" for old, new in list(renamed.items())[:3]]
    return f" ({', '.join(first)})" if first else ""

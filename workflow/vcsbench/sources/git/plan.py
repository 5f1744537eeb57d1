"""What becomes of a git history: one event per revision, in order."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from vcsbench.sources.git.graph import TRUNK, Commit, Line, Lines
from vcsbench.sources.git.names import subversion_path
from vcsbench.sources.git.refs import Ref


@dataclass(frozen=True)
class Changed:
    """A commit: the changes to its first parent's tree, on its line. `begins` where the line does
    not exist before."""

    at: int
    line: Line
    begins: bool


@dataclass(frozen=True)
class Copied:
    """A branch without commits of its own, or a tag: a copy of a commit's tree.

    `target` is the object that says who made it and why: an annotated tag, or the commit.
    """

    at: int
    path: bytes
    target: bytes


@dataclass(frozen=True)
class Deleted:
    """A branch that was merged, and that git has no name for."""

    at: int
    line: Line


Event = Changed | Copied | Deleted


class Plan:
    """The events of a history. Event i becomes revision i + 2, after the one with the layout."""

    def __init__(self, commits: list[Commit], branches: list[Ref], tags: list[Ref]) -> None:
        """The first branch becomes trunk; `commits` are those that branches and tags lead to."""
        self.commits = commits
        positions = {commit.name: at for at, commit in enumerate(commits)}
        self._lines = Lines(commits)
        self._copies: dict[int, list[Copied]] = defaultdict(list)
        dates = list(accumulate((commit.seconds for commit in commits), max))
        for i, ref in enumerate(branches):
            path = TRUNK if i == 0 else b"branches/" + subversion_path(ref.name)
            at = positions[ref.commit]
            if not self._lines.claim(at, path, lasting=True):
                self._copies[at].append(Copied(at, path, ref.target))
        self._lines.claim_rest([positions[ref.commit] for ref in tags])
        for ref in tags:
            path = b"tags/" + subversion_path(ref.name)
            at = positions[ref.commit]
            # After the commits that were there when it was made.
            place = max(at, bisect_right(dates, ref.seconds) - 1)
            self._copies[place].append(Copied(at, path, ref.target))

    def events(self) -> Iterator[Event]:
        """The events in order."""
        ends = defaultdict(list)
        for line in self._lines.all:
            if not line.lasting:
                ends[line.end].append(line)
        for at in range(len(self.commits)):
            line = self.line_of(at)
            yield Changed(at, line, begins=at == line.commits[0] and line.path != TRUNK)
            yield from self._copies[at]
            for ended in ends[at]:
                yield Deleted(at, ended)

    def line_of(self, at: int) -> Line:
        """The line of a commit, by its position."""
        line = self._lines.of[at]
        assert line is not None, "each commit is on a line"
        return line

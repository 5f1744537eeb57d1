"""What becomes of a git history: lines of development, which are trunk and branches, and their copies."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from vcsbench.external import parse_number
from vcsbench.sources.dumpstream import above
from vcsbench.sources.git.command import Ref
from vcsbench.sources.git.messages import LAST_SECOND
from vcsbench.sources.names import subversion_path

TRUNK = b"trunk"


@dataclass(frozen=True)
class Commit:
    """A commit's name, its tree's, its date in seconds since 1970, and the positions of its parents
    in the list of commits."""

    name: bytes
    tree: bytes
    seconds: int
    parents: tuple[int, ...]


@dataclass
class Line:
    """A line of development: a path in the repository, and the positions of its first and last commit."""

    path: bytes
    first: int
    last: int


class Copy(NamedTuple):
    """A branch without commits of its own, or a tag: a copy of a commit's tree.

    `target` is the object that says who made it and why: an annotated tag, or the commit.
    """

    at: int
    path: bytes
    target: bytes


def read_commits(lines: Iterable[bytes]) -> list[Commit]:
    """Commits from lines of commit, tree, date and parents, parents first.

    Parents that are not listed (of a shallow clone's oldest commits) are left out.
    """
    positions: dict[bytes, int] = {}
    commits: list[Commit] = []
    for line in lines:
        # The date of a damaged commit is empty.
        name, tree, seconds, *parents = line.rstrip(b"\n").split(b" ")
        known = tuple(positions[parent] for parent in parents if parent in positions)
        positions[name] = len(commits)
        commits.append(Commit(name, tree, parse_number(seconds, LAST_SECOND) or 0, known))
    return commits


class Plan:
    """One revision for each commit, on its line, and after it one for each of its `copies` and for the
    deletion of each line that `ends` there: a branch that git has no name for."""

    def __init__(self, commits: list[Commit], branches: list[Ref], tags: list[Ref]) -> None:
        """The first branch becomes trunk; `commits` are those that branches and tags lead to."""
        self.commits = commits
        self.copies: dict[int, list[Copy]] = defaultdict(list)
        # Branches and tags that got another name, with that name.
        self.renamed: dict[bytes, bytes] = {}
        self._paths = set[bytes]()
        self._folders = set[bytes]()
        self._lines: list[Line | None] = [None] * len(commits)
        self._nameless: list[Line] = []
        positions = {commit.name: at for at, commit in enumerate(commits)}
        for i, ref in enumerate(branches):
            path = TRUNK if i == 0 else self._free_path(b"branches/", ref.name)
            at = positions[ref.commit]
            if not self._claim(at, path):
                self.copies[at].append(Copy(at, path, ref.target))
        self._claim_merged()
        dates = list(accumulate((commit.seconds for commit in commits), max))
        for ref in tags:
            path = self._free_path(b"tags/", ref.name)
            at = positions[ref.commit]
            if self._claim_nameless(at):
                self._claim_merged()
            # After the commits that were there when it was made.
            place = max(at, bisect_right(dates, ref.seconds) - 1)
            self.copies[place].append(Copy(at, path, ref.target))
        self.ends = self._find_ends()

    def _free_path(self, folder: bytes, name: bytes) -> bytes:
        """Return the path of a branch or tag, which lies in no other one and holds no other one.

        git's names have no `~`, so a new name with one is free.
        """
        path = folder + subversion_path(name)
        if path in self._folders or self._paths.intersection([path, *above(path)]):
            flat = subversion_path(name.replace(b"/", b"~"))
            number = 2
            path = folder + flat if b"/" in name else folder + flat + b"~2"
            while path in self._folders or path in self._paths:
                number += 1
                path = folder + flat + b"~%d" % number
            self.renamed[name] = path
        self._paths.add(path)
        self._folders.update(above(path))
        return path

    def line_of(self, at: int) -> Line:
        """The line of a commit, by its position."""
        line = self._lines[at]
        assert line is not None, "each commit is on a line"
        return line

    def _claim(self, tip: int, path: bytes) -> Line | None:
        """Make a line of the commits from `tip` along first parents that have none yet; None when `tip`
        is on a line already."""
        if self._lines[tip] is not None:
            return None
        line = Line(path, tip, tip)
        at: int | None = tip
        while at is not None and self._lines[at] is None:
            self._lines[at] = line
            line.first = at
            at = next(iter(self.commits[at].parents), None)
        return line

    def _claim_nameless(self, tip: int) -> bool:
        """Make a line that git has no name for; False when `tip` is on a line already."""
        path = b"branches/merged-" + self.commits[tip].name[:12]
        if path in self._paths or path in self._folders:
            path += b"~2"
        line = self._claim(tip, path)
        if line:
            self._paths.add(path)
            self._nameless.append(line)
        return line is not None

    def _claim_merged(self) -> None:
        """Make lines of what was merged."""
        # From the newest on: the last merge of a branch has all of it.
        for at in range(len(self.commits) - 1, -1, -1):
            if self._lines[at] is not None:
                for parent in self.commits[at].parents[1:]:
                    self._claim_nameless(parent)

    def _find_ends(self) -> dict[int, list[Line]]:
        """The lines that git has no name for, by the last commit that they are needed for."""
        last = {line.last: line.last for line in self._nameless}
        for at, commit in enumerate(self.commits):
            last |= {parent: at for parent in commit.parents if parent in last}
        ends = defaultdict(list)
        for line in self._nameless:
            ends[last[line.last]].append(line)
        return ends

"""Commits, and the lines of development that they make up: trunk and branches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

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
    """A line of development: a path in the repository, and its commits, by position.

    A lasting line is a branch that git has a name for; one that lives on in merges or tags alone is
    deleted after `end`, the position of the last commit that it is needed for.
    """

    path: bytes
    lasting: bool
    commits: list[int] = field(default_factory=list)
    end: int = -1


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
        commits.append(Commit(name, tree, int(seconds or 0), known))
    return commits


class Lines:
    """Gives each commit to a line, along first parents."""

    def __init__(self, commits: list[Commit]) -> None:
        self._commits = commits
        self.of: list[Line | None] = [None] * len(commits)
        self.all: list[Line] = []

    def claim(self, tip: int, path: bytes, lasting: bool) -> bool:
        """Make a line of the commits from `tip` along first parents that have none yet.

        False when `tip` belongs to a line already.
        """
        if self.of[tip] is not None:
            return False
        line = Line(path, lasting)
        at: int | None = tip
        while at is not None and self.of[at] is None:
            self.of[at] = line
            line.commits.append(at)
            parents = self._commits[at].parents
            at = parents[0] if parents else None
        line.commits.reverse()
        self.all.append(line)
        return True

    def claim_rest(self, tags: Iterable[int]) -> None:
        """Make lines of what was merged, and of what only tags lead to."""
        self._claim_merged()
        for tip in tags:
            if self.claim(tip, self._nameless(tip), lasting=False):
                self._claim_merged()
        self._find_ends()

    def _nameless(self, tip: int) -> bytes:
        return b"branches/merged-" + self._commits[tip].name[:12]

    def _claim_merged(self) -> None:
        # From the newest on: the last merge of a branch has all of it.
        for at in range(len(self._commits) - 1, -1, -1):
            if self.of[at] is not None:
                for parent in self._commits[at].parents[1:]:
                    self.claim(parent, self._nameless(parent), lasting=False)

    def _find_ends(self) -> None:
        tips = {line.commits[-1]: line for line in self.all}
        for tip, line in tips.items():
            line.end = tip
        for at, commit in enumerate(self._commits):
            for parent in commit.parents:
                if parent in tips:
                    tips[parent].end = max(tips[parent].end, at)

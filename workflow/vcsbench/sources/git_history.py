"""Plan the revisions of a git history: lines of development, and the copies of branches and tags."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from vcsbench.sources import base
from vcsbench.sources.dump_format import folders_above
from vcsbench.sources.git_log import Commit
from vcsbench.sources.git_repository import Ref
from vcsbench.sources.svn_names import subversion_path

TRUNK = base.TRUNK.encode()
LAYOUT = (TRUNK, b"branches", b"tags")


@dataclass
class Line:
    """A line of development: its path in Subversion, and the indices of its first and last commit."""

    path: bytes
    first: int
    last: int


class ConversionPlan:
    """One revision for each commit, on its line of development.

    A line is a branch, or the commits of a branch that was merged and has no name any more. It consists of
    first parents.

    - `lines`: the line of each commit, by the commit's index.
    - `copies`: the paths of tags, and of branches without commits of their own, by the index of a commit.
      After that commit, its tree is copied to these paths.
    - `ends`: the lines without a name, by the index of the commit after which they are deleted.
    - `renamed`: the paths of branches and tags that could not keep their name, by the name in git.
    - `revisions`: the number of all revisions.
    """

    def __init__(self, commits: list[Commit], branches: list[Ref], tags: list[Ref]) -> None:
        """Put each commit on a line, and find the copies, deletions and paths that follow from that.

        A line is a path in Subversion with the commits of a branch. It takes the branch's last commit, the
        first parent of that, and so on, up to a commit that has a line already. `commits` are all that
        branches and tags lead to, parents before children. The first branch becomes trunk, and takes commits
        first. The other branches follow in order. Commits that no branch has taken were merged: their line is
        branches/merged-<first digits of the last commit>, which is deleted after the merge.
        """
        self.commits = commits
        # The line of each commit, by the commit's index in `commits`.
        self.lines: dict[int, Line] = {}
        # The paths of tags and branches that are copies of a commit's tree, by the commit's index.
        self.copies: defaultdict[int, list[bytes]] = defaultdict(list)
        # The paths of renamed branches and tags, such as {b"one/y": b"branches/one~y"}.
        self.renamed: dict[bytes, bytes] = {}
        # The paths of branches and tags so far, and all folders above these paths. _choose_path() adds both.
        self._paths = set[bytes]()
        self._folders = set[bytes]()
        # The index of each commit in `commits`, by its name (a hex digest). A ref has the name of its commit.
        index = {commit.name: i for i, commit in enumerate(commits)}
        trunk, *other_branches = branches
        self._add_line(index[trunk.commit], TRUNK)
        for branch in other_branches:
            path = self._choose_path(b"branches/", branch.name)
            tip = index[branch.commit]
            # An earlier branch has this branch's last commit, so this branch has no commit of its own.
            if tip in self.lines:
                self.copies[tip].append(path)
            else:
                self._add_line(tip, path)
        for tag in tags:
            path = self._choose_path(b"tags/", tag.name)
            self.copies[index[tag.commit]].append(path)
        # The commits without a line so far are on no branch. The youngest of them is the last commit of an
        # unnamed line. Of the rest, the youngest is the last commit of the next one, and so on.
        unnamed_lines = []
        for i in reversed(range(len(commits))):
            if i not in self.lines:
                path = self._choose_path(b"branches/", b"merged-" + commits[i].name[:12])
                unnamed_lines.append(self._add_line(i, path))
        self.ends = self._find_ends(unnamed_lines)
        copies = sum(len(paths) for paths in self.copies.values())
        deletions = sum(len(lines) for lines in self.ends.values())
        # One revision each, and revision 1, which makes the folders trunk, branches and tags.
        self.revisions = 1 + len(commits) + copies + deletions

    def _choose_path(self, folder: bytes, name: bytes) -> bytes:
        """Return the path of a branch or tag, such as branches/a/b for the branch `a/b`, and reserve it.

        No branch or tag may lie in the folder of another: its files would be taken for files of the other.
        With git's local branch `a`, origin's `a/b` becomes branches/a~b. `renamed` gets each changed name.
        """
        # The first free candidate. The candidates do not end, so there always is one.
        path = next(filter(self._is_free, _candidate_paths(folder, name)))
        if path != folder + subversion_path(name):
            self.renamed[name] = path
        self._paths.add(path)
        self._folders.update(folders_above(path))
        return path

    def _is_free(self, path: bytes) -> bool:
        """Return True if no branch or tag has a path, lies below it, or lies above it."""
        is_taken = path in self._paths or path in self._folders
        return not is_taken and self._paths.isdisjoint(folders_above(path))

    def _add_line(self, tip: int, path: bytes) -> Line:
        """Add a line of the commits from `tip` along first parents, as far as they have no line yet."""
        line = Line(path, first=tip, last=tip)
        commit: int | None = tip
        while commit is not None and commit not in self.lines:
            self.lines[commit] = line
            line.first = commit
            parents = self.commits[commit].parents
            commit = parents[0] if parents else None
        return line

    def _find_ends(self, unnamed: list[Line]) -> dict[int, list[Line]]:
        """Return the unnamed lines to delete after a commit, by the index of the commit.

        A line is deleted after the last commit that merges it, because no later commit needs its folder. A
        merge has the line's last commit as a parent. A line without a merge is deleted after its own last
        commit.
        """
        # The index of the last merge of each line, by the index of the line's last commit. If nothing merges
        # the line, it stays the index of that commit itself.
        last_merges = {line.last: line.last for line in unnamed}
        for i, commit in enumerate(self.commits):
            for parent in commit.parents:
                if parent in last_merges:
                    # A later merge replaces an earlier one.
                    last_merges[parent] = i
        ends = defaultdict(list)
        for line in unnamed:
            last_merge = last_merges[line.last]
            ends[last_merge].append(line)
        return ends


def _candidate_paths(folder: bytes, name: bytes) -> Iterator[bytes]:
    """Yield branches/a/b, branches/a~b, branches/a~b~2, branches/a~b~3, and so on without end."""
    yield folder + subversion_path(name)
    flat = folder + subversion_path(name.replace(b"/", b"~"))
    yield flat
    for number in count(2):
        yield flat + b"~%d" % number

"""Convert a git history to revisions: lines of development, their copies, and the nodes of each commit."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import BinaryIO, NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import parse_number, printable
from vcsbench.sources import dump_format
from vcsbench.sources.base import Facts
from vcsbench.sources.dump_format import above, subversion_path
from vcsbench.sources.git_objects import (
    ABSENT,
    EXECUTABLE,
    FOLDER,
    IMPOSSIBLE,
    LAST_SECOND,
    SUBMODULE,
    SUBMODULES,
    SYMLINK,
    TARGETS,
    Change,
    Content,
    Message,
    Objects,
    check_path,
    link_target,
    parse_object,
)
from vcsbench.sources.git_repository import Ref

TRUNK = b"trunk"
RENAMED = "Branches and tags renamed, because one would lie in another"
LAYOUT = (TRUNK, b"branches", b"tags")
# What Subversion has for git's modes.
PROPERTIES = {SYMLINK: {b"svn:special": b"*"}, EXECUTABLE: {b"svn:executable": b"*"}}
# Modes of what has no node.
NOTHING = (ABSENT, SUBMODULE)
# A larger blob is passed on in pieces, without its checksum, which would have to come first.
LARGE_BLOB = 16 << 20


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


class Node(NamedTuple):
    """A file's record but for its text, as dump_format.file() takes it."""

    path: bytes
    action: bytes
    origin: bytes
    properties: dict[bytes, bytes] | None


class Nodes:
    """Writes nodes, and remembers what had to be left out or renamed."""

    def __init__(self, objects: Objects, out: BinaryIO) -> None:
        self._objects = objects
        self._out = out
        self.submodules: set[bytes] = set()
        # By reason, the paths that got another name.
        self.renamed: dict[str, set[bytes]] = defaultdict(set)
        self.targets: set[bytes] = set()
        self.impossible: set[bytes] = set()

    def write(self, changes: list[Change], line: bytes, origin: tuple[bytes, int]) -> None:
        """Write the changes to the tree at the path `line`.

        `origin` is the path and revision at which the tree before these changes lies.
        """
        kept = [change for change in changes if self._kept(change)]
        self._refuse_damaged(kept)
        self._deletions(kept, line)
        copied = self._directories(kept, line, origin)
        files = [
            change
            for change in kept
            if change.new_mode not in (*NOTHING, FOLDER) and not _below(change.path, copied)
        ]
        self._files(files, line, origin)

    def _kept(self, change: Change) -> bool:
        """False for what leaves nothing to write: submodules, and trees that only changed."""
        modes = (change.old_mode, change.new_mode)
        if SUBMODULE in modes:
            self.submodules.add(change.path)
        if modes == (FOLDER, FOLDER):
            return change.source != change.path
        return any(mode not in NOTHING for mode in modes)

    def _refuse_damaged(self, changes: list[Change]) -> None:
        """Raise UserError for paths that no export can write, and for two new entries of one name."""
        added = set[bytes]()
        for change in changes:
            if change.new_mode in NOTHING:
                continue
            check_path(change.path, self._objects.where)
            if change.path in added:
                raise UserError(
                    f"{self._objects.where}: a tree is damaged: it has {printable(change.path)} twice. "
                    "`git fsck` lists such trees."
                )
            added.add(change.path)

    def _path(self, line: bytes, path: bytes) -> bytes:
        name, reasons = dump_format.rename(path)
        for reason in reasons:
            self.renamed[reason].add(path)
        return line + b"/" + name

    def _deletions(self, changes: list[Change], line: bytes) -> None:
        """Delete what went, of a directory and what is in it only the directory."""
        gone = [
            change.source
            for change in changes
            if change.old_mode not in NOTHING and (change.new_mode in NOTHING or change.moved)
        ]
        folders = set(gone)
        for path in dict.fromkeys(gone):
            if not _below(path, folders):
                self._out.write(dump_format.deletion(self._path(line, path)))

    def _directories(
        self, changes: list[Change], line: bytes, origin: tuple[bytes, int]
    ) -> set[bytes]:
        """Add directories, parents first; returns those that are copies with all that is in them."""
        made = [c for c in changes if c.new_mode == FOLDER]
        copied: set[bytes] = set()
        for change in sorted(made, key=lambda change: change.path):
            if _below(change.path, copied):
                continue
            copyfrom = b""
            if change.old_mode == FOLDER:  # renamed, its content unchanged
                copied.add(change.path)
                copyfrom = self._copyfrom(change, origin)
            self._out.write(dump_format.directory(self._path(line, change.path), origin=copyfrom))
        return copied

    def _copyfrom(self, change: Change, origin: tuple[bytes, int]) -> bytes:
        return dump_format.copyfrom(self._path(origin[0], change.source), origin[1])

    def _files(self, changes: list[Change], line: bytes, origin: tuple[bytes, int]) -> None:
        with_text = [change for change in changes if _has_new_text(change)]
        contents = self._objects.read([change.new_object for change in with_text])
        wanted = {change.path for change in with_text}
        for change in changes:
            renamed = change.source != change.path
            node = Node(
                self._path(line, change.path),
                b"add" if renamed or change.old_mode in NOTHING else b"change",
                self._copyfrom(change, origin) if renamed else b"",
                _new_properties(change),
            )
            if change.path not in wanted:
                self._out.write(dump_format.file(*node))
            elif change.new_mode == SYMLINK:
                self._symlink(node, next(contents).whole())
            else:
                self._text(node, next(contents))
        for _ in contents:  # the last answer's end
            pass

    def _text(self, node: Node, content: Content) -> None:
        if content.size <= LARGE_BLOB:
            self._out.write(dump_format.file(*node, text=content.whole()))
            return
        self._out.write(dump_format.file_head(*node, text_length=content.size))
        for chunk in content.chunks():
            self._out.write(chunk)
        self._out.write(b"\n\n")

    def _symlink(self, node: Node, target: bytes) -> None:
        escaped = link_target(target)
        if escaped is not None:
            if escaped != target:
                self.targets.add(target)
            self._out.write(dump_format.file(*node, text=b"link " + escaped))
        else:  # no system can make this link: every export would fail
            self.impossible.add(target)
            self._out.write(dump_format.file(*node._replace(properties={}), text=target))


def _new_properties(change: Change) -> dict[bytes, bytes] | None:
    """The properties, or None where they stay. Those of a link are always given: it may have been
    an impossible one before."""
    old, new = (PROPERTIES.get(mode, {}) for mode in (change.old_mode, change.new_mode))
    return new if change.old_mode in (*NOTHING, SYMLINK) or new != old else None


def _has_new_text(change: Change) -> bool:
    """Whether the text is another, as far as Subversion sees it: a link's begins with `link `."""
    return (
        change.old_object != change.new_object
        or change.old_mode in NOTHING
        or (change.old_mode == SYMLINK) != (change.new_mode == SYMLINK)
    )


def _below(path: bytes, folders: set[bytes]) -> bool:
    """Whether one of the directories that the path lies in is among `folders`."""
    return bool(folders) and not folders.isdisjoint(dump_format.above(path))


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
        self._out.write(dump_format.revision(self._number, properties | extra))

    def _first(self, properties: dict[bytes, bytes]) -> None:
        """The revisions 0 and 1, which make the usual layout."""
        self._out.write(dump_format.revision(0, properties))
        log = {b"svn:log": b"The usual layout."}
        self._out.write(dump_format.revision(1, properties | log))
        for name in LAYOUT:
            self._out.write(dump_format.directory(name))
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
                copyfrom = dump_format.copyfrom(*origin)
            self._add_line(line.path, copyfrom)
        self._nodes.write(changes, line.path, origin)
        self._revision_of[at] = self._number

    def _place(self, at: int) -> tuple[bytes, int]:
        """The path and revision at which a commit's tree lies."""
        line = self._plan.line_of(at)
        return line.path, self._revision_of[at]

    def _add_line(self, path: bytes, copyfrom: bytes) -> None:
        """Add a branch or tag, and the directories that it lies in."""
        for folder in dump_format.above(path):
            if folder not in self._folders:
                self._folders.add(folder)
                self._out.write(dump_format.directory(folder))
        self._out.write(dump_format.directory(path, origin=copyfrom))

    def _copied(self, copy: Copy) -> None:
        message = parse_object(self._objects.whole(copy.target))
        self._begin(message, {b"git:commit": self._plan.commits[copy.at].name})
        self._add_line(copy.path, dump_format.copyfrom(*self._place(copy.at)))

    def _deleted(self, at: int, line: Line) -> None:
        message = parse_object(self._objects.whole(self._plan.commits[at].name))
        name = line.path.rpartition(b"/")[2].decode("ascii")
        self._begin(replace(message, text=f"Delete {name}, which is merged."), {})
        self._out.write(dump_format.deletion(line.path))

    def facts(self) -> Facts:
        """What was written, after the last revision."""
        nodes = self._nodes
        counts = {
            SUBMODULES: len(nodes.submodules),
            **{reason: len(nodes.renamed[reason]) for reason in dump_format.REASONS},
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

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
from vcsbench.sources.dump_format import (
    IMPOSSIBLE,
    TARGETS,
    above,
    link_target,
    subversion_path,
)
from vcsbench.sources.git_objects import (
    ABSENT,
    EXECUTABLE,
    FOLDER,
    LAST_SECOND,
    SUBMODULE,
    SUBMODULES,
    SYMLINK,
    Blob,
    Change,
    Message,
    Objects,
    check_path,
    parse_object,
)
from vcsbench.sources.git_repository import Ref

TRUNK = b"trunk"
LAYOUT = (TRUNK, b"branches", b"tags")
# Properties of Subversion for git's modes.
PROPERTIES = {SYMLINK: {b"svn:special": b"*"}, EXECUTABLE: {b"svn:executable": b"*"}}
# Modes without a node.
NO_NODE = (ABSENT, SUBMODULE)
# A larger blob is passed on in chunks, without its checksum, which would have to come first.
LARGE_BLOB = 16 << 20
# Notes of a report.
RENAMED = "Branches and tags renamed, because one would lie in another"
LATE = (
    "Commits that got the date of the one before them, because they are dated before it and Subversion looks "
    "revisions up by date"
)


@dataclass(frozen=True)
class Commit:
    """A commit: its name, its tree's name, its date (seconds since 1970), and the indices of its parents."""

    name: bytes
    tree: bytes
    seconds: int
    parents: tuple[int, ...]


@dataclass
class Line:
    """A line of development: a path in the repository, and the indices of its first and last commit."""

    path: bytes
    first: int
    last: int


class Copy(NamedTuple):
    """A tag, or a branch without commits: a copy of a commit's tree.

    `target` is the annotated tag or the commit that has the author and the message.
    """

    commit: int
    path: bytes
    target: bytes


def read_commits(lines: Iterable[bytes]) -> list[Commit]:
    """Return commits from lines of commit, tree, date and parents, parents first.

    Parents that are not listed, which a shallow clone lacks, are left out.
    """
    index: dict[bytes, int] = {}
    commits: list[Commit] = []
    for line in lines:
        # The date of a damaged commit is empty.
        name, tree, seconds, *parents = line.rstrip(b"\n").split(b" ")
        listed = tuple(index[parent] for parent in parents if parent in index)
        index[name] = len(commits)
        commits.append(Commit(name, tree, parse_number(seconds, LAST_SECOND) or 0, listed))
    return commits


class ConversionPlan:
    """One revision for each commit, on its line of development.

    After the revision of a commit come those of its `copies`, and one deletion for each unnamed line that
    `ends` there.
    """

    def __init__(self, commits: list[Commit], branches: list[Ref], tags: list[Ref]) -> None:
        """The first branch becomes trunk. `commits` are all that branches and tags lead to."""
        self.commits = commits
        self.copies: dict[int, list[Copy]] = defaultdict(list)
        # New paths of renamed branches and tags, by name.
        self.renamed: dict[bytes, bytes] = {}
        self._paths = set[bytes]()
        self._folders = set[bytes]()
        self._lines: list[Line | None] = [None] * len(commits)
        self._unnamed: list[Line] = []
        index = {commit.name: i for i, commit in enumerate(commits)}
        for i, ref in enumerate(branches):
            path = TRUNK if i == 0 else self._free_path(b"branches/", ref.name)
            tip = index[ref.commit]
            if not self._claim(tip, path):
                self.copies[tip].append(Copy(tip, path, ref.target))
        self._claim_merged()
        dates = list(accumulate((commit.seconds for commit in commits), max))
        for ref in tags:
            path = self._free_path(b"tags/", ref.name)
            tip = index[ref.commit]
            if self._claim_unnamed(tip):
                self._claim_merged()
            # After the commits from before the tag.
            place = max(tip, bisect_right(dates, ref.seconds) - 1)
            self.copies[place].append(Copy(tip, path, ref.target))
        self.ends = self._find_ends()

    def _free_path(self, folder: bytes, name: bytes) -> bytes:
        """Return a path that neither lies in another branch or tag nor contains one.

        git's names have no `~`, so a new name with one is free.
        """
        path = folder + subversion_path(name)
        if path in self._folders or self._paths.intersection([path, *above(path)]):
            flat = folder + subversion_path(name.replace(b"/", b"~"))
            path = flat if b"/" in name else flat + b"~2"
            number = 2
            while path in self._folders or path in self._paths:
                number += 1
                path = flat + b"~%d" % number
            self.renamed[name] = path
        self._paths.add(path)
        self._folders.update(above(path))
        return path

    def line_of(self, commit: int) -> Line:
        """Return the line of development of a commit."""
        line = self._lines[commit]
        assert line is not None, "each commit is on a line"
        return line

    def _claim(self, tip: int, path: bytes) -> Line | None:
        """Make a line of the commits from `tip` along first parents that have none yet.

        Return None if `tip` is on a line.
        """
        if self._lines[tip] is not None:
            return None
        line = Line(path, tip, tip)
        commit: int | None = tip
        while commit is not None and self._lines[commit] is None:
            self._lines[commit] = line
            line.first = commit
            commit = next(iter(self.commits[commit].parents), None)
        return line

    def _claim_unnamed(self, tip: int) -> bool:
        """Make a line without a name in git. Return False if `tip` is on a line."""
        path = b"branches/merged-" + self.commits[tip].name[:12]
        if path in self._paths or path in self._folders:
            path += b"~2"
        line = self._claim(tip, path)
        if line:
            self._paths.add(path)
            self._unnamed.append(line)
        return line is not None

    def _claim_merged(self) -> None:
        """Make lines of merged commits, newest first: the last merge of a branch contains all of it."""
        for i in range(len(self.commits) - 1, -1, -1):
            if self._lines[i] is not None:
                for parent in self.commits[i].parents[1:]:
                    self._claim_unnamed(parent)

    def _find_ends(self) -> dict[int, list[Line]]:
        """Return the unnamed lines by the last commit that needs them."""
        last = {line.last: line.last for line in self._unnamed}
        for i, commit in enumerate(self.commits):
            last |= {parent: i for parent in commit.parents if parent in last}
        ends = defaultdict(list)
        for line in self._unnamed:
            ends[last[line.last]].append(line)
        return ends


class Node(NamedTuple):
    """The record of a file without its text, as arguments of dump_format.file()."""

    path: bytes
    action: bytes
    origin: bytes
    properties: dict[bytes, bytes] | None


class NodeWriter:
    """Writes the nodes of commits, and collects omitted and renamed paths."""

    def __init__(self, objects: Objects, out: BinaryIO) -> None:
        self._objects = objects
        self._out = out
        self.submodules = set[bytes]()
        self.renamed: dict[str, set[bytes]] = defaultdict(set)  # paths by reason
        self.targets = set[bytes]()
        self.impossible = set[bytes]()

    def write(self, changes: list[Change], line: bytes, origin: tuple[bytes, int]) -> None:
        """Write changes of the tree at `line`; `origin` is its path and revision before."""
        changes = [change for change in changes if self._has_node(change)]
        self._refuse_damaged(changes)
        self._delete(changes, line)
        copied = self._add_folders(changes, line, origin)
        files = [
            change
            for change in changes
            if change.new_mode not in (*NO_NODE, FOLDER) and not _is_below(change.path, copied)
        ]
        self._write_files(files, line, origin)

    def _has_node(self, change: Change) -> bool:
        """Return False for submodules, and for folders that only changed inside."""
        modes = (change.old_mode, change.new_mode)
        if SUBMODULE in modes:
            self.submodules.add(change.path)
        if modes == (FOLDER, FOLDER):
            return change.source != change.path
        return any(mode not in NO_NODE for mode in modes)

    def _refuse_damaged(self, changes: list[Change]) -> None:
        """Refuse paths that no export can write, and two new entries of one name."""
        added = set[bytes]()
        for change in changes:
            if change.new_mode in NO_NODE:
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

    def _delete(self, changes: list[Change], line: bytes) -> None:
        """Delete removed paths. The deletion of a folder covers its content."""
        gone = [
            change.source
            for change in changes
            if change.old_mode not in NO_NODE and (change.new_mode in NO_NODE or change.moved)
        ]
        folders = set(gone)
        for path in dict.fromkeys(gone):
            if not _is_below(path, folders):
                self._out.write(dump_format.deletion(self._path(line, path)))

    def _add_folders(
        self, changes: list[Change], line: bytes, origin: tuple[bytes, int]
    ) -> set[bytes]:
        """Add folders, parents first. Return those that are copied with their content."""
        added = [change for change in changes if change.new_mode == FOLDER]
        copied = set[bytes]()
        for change in sorted(added, key=lambda change: change.path):
            if _is_below(change.path, copied):
                continue
            copyfrom = b""
            if change.old_mode == FOLDER:  # renamed without a change inside
                copied.add(change.path)
                copyfrom = self._copyfrom(change, origin)
            self._out.write(dump_format.directory(self._path(line, change.path), origin=copyfrom))
        return copied

    def _copyfrom(self, change: Change, origin: tuple[bytes, int]) -> bytes:
        return dump_format.copyfrom(self._path(origin[0], change.source), origin[1])

    def _write_files(self, changes: list[Change], line: bytes, origin: tuple[bytes, int]) -> None:
        with_text = [change for change in changes if _has_new_text(change)]
        blobs = self._objects.read([change.new_object for change in with_text])
        paths = {change.path for change in with_text}
        for change in changes:
            is_renamed = change.source != change.path
            node = Node(
                self._path(line, change.path),
                b"add" if is_renamed or change.old_mode in NO_NODE else b"change",
                self._copyfrom(change, origin) if is_renamed else b"",
                _new_properties(change),
            )
            if change.path not in paths:
                self._out.write(dump_format.file(*node))
            elif change.new_mode == SYMLINK:
                self._write_link(node, next(blobs).read_all())
            else:
                self._write_text(node, next(blobs))
        for _ in blobs:  # read the end of the last answer
            pass

    def _write_text(self, node: Node, blob: Blob) -> None:
        if blob.size <= LARGE_BLOB:
            self._out.write(dump_format.file(*node, text=blob.read_all()))
            return
        self._out.write(dump_format.file_head(*node, text_length=blob.size))
        for chunk in blob.chunks():
            self._out.write(chunk)
        self._out.write(b"\n\n")

    def _write_link(self, node: Node, target: bytes) -> None:
        escaped = link_target(target)
        if escaped is None:  # every export of such a link would fail
            self.impossible.add(target)
            self._out.write(dump_format.file(*node._replace(properties={}), text=target))
            return
        if escaped != target:
            self.targets.add(target)
        self._out.write(dump_format.file(*node, text=b"link " + escaped))


def _new_properties(change: Change) -> dict[bytes, bytes] | None:
    """Return the properties, None if they stay. Those of a link are always given: it may have been a file."""
    old, new = (PROPERTIES.get(mode, {}) for mode in (change.old_mode, change.new_mode))
    return new if change.old_mode in (*NO_NODE, SYMLINK) or new != old else None


def _has_new_text(change: Change) -> bool:
    """Return True if the text changes. In Subversion, the text of a link begins with `link `."""
    return (
        change.old_object != change.new_object
        or change.old_mode in NO_NODE
        or (change.old_mode == SYMLINK) != (change.new_mode == SYMLINK)
    )


def _is_below(path: bytes, folders: set[bytes]) -> bool:
    return bool(folders) and not folders.isdisjoint(above(path))


class RevisionWriter:
    """Writes the revisions of a plan, and counts changed dates."""

    def __init__(self, plan: ConversionPlan, objects: Objects, out: BinaryIO) -> None:
        self._plan = plan
        self._objects = objects
        self._out = out
        self._nodes = NodeWriter(objects, out)
        self._number = 0
        self._revision_of = array("I", bytes(4 * len(plan.commits)))
        self._seconds = 0
        self._late = 0
        self._folders = set(LAYOUT)

    @property
    def total(self) -> int:
        """The number of revisions that write() writes. The first one makes the layout."""
        plan = self._plan
        copies, ends = (sum(map(len, d.values())) for d in (plan.copies, plan.ends))
        return 1 + len(plan.commits) + copies + ends

    def write(self, changes: Iterator[list[Change]]) -> None:
        """Write all revisions; `changes` has the changes of each commit, in order."""
        for i in range(len(self._plan.commits)):
            self._write_commit(i, next(changes))
            for copy in self._plan.copies[i]:
                self._write_copy(copy)
            for line in self._plan.ends[i]:
                self._write_deletion(i, line)

    def _begin(self, message: Message, extra: dict[bytes, bytes]) -> None:
        """Write the record that begins the next revision."""
        self._late += message.seconds < self._seconds
        self._seconds = max(self._seconds, message.seconds)
        properties = message.properties(self._seconds)
        if self._number == 0:
            self._write_layout({b"svn:date": properties[b"svn:date"]})
        self._number += 1
        self._out.write(dump_format.revision(self._number, properties | extra))

    def _write_layout(self, properties: dict[bytes, bytes]) -> None:
        """Write the revisions 0 and 1."""
        self._out.write(dump_format.revision(0, properties))
        log = {b"svn:log": b"The usual layout."}
        self._out.write(dump_format.revision(1, properties | log))
        for name in LAYOUT:
            self._out.write(dump_format.directory(name))
        self._number = 1

    def _write_commit(self, i: int, changes: list[Change]) -> None:
        commit, line = self._plan.commits[i], self._plan.line_of(i)
        extra = {b"git:commit": commit.name}
        if len(commit.parents) > 1:
            parents = (self._plan.commits[parent].name for parent in commit.parents)
            extra[b"git:parents"] = b" ".join(parents)
        self._begin(parse_object(self._objects.read_one(commit.name)), extra)
        origin = (line.path, self._number - 1)
        if i == line.first and line.path != TRUNK:
            copyfrom = b""
            if commit.parents:
                origin = self._place(commit.parents[0])
                copyfrom = dump_format.copyfrom(*origin)
            self._add_line(line.path, copyfrom)
        self._nodes.write(changes, line.path, origin)
        self._revision_of[i] = self._number

    def _place(self, commit: int) -> tuple[bytes, int]:
        """Return the path and revision of a commit's tree."""
        return self._plan.line_of(commit).path, self._revision_of[commit]

    def _add_line(self, path: bytes, copyfrom: bytes) -> None:
        """Add a branch or tag, and the folders above it."""
        for folder in above(path):
            if folder not in self._folders:
                self._folders.add(folder)
                self._out.write(dump_format.directory(folder))
        self._out.write(dump_format.directory(path, origin=copyfrom))

    def _write_copy(self, copy: Copy) -> None:
        message = parse_object(self._objects.read_one(copy.target))
        self._begin(message, {b"git:commit": self._plan.commits[copy.commit].name})
        self._add_line(copy.path, dump_format.copyfrom(*self._place(copy.commit)))

    def _write_deletion(self, i: int, line: Line) -> None:
        message = parse_object(self._objects.read_one(self._plan.commits[i].name))
        name = line.path.rpartition(b"/")[2].decode("ascii")
        self._begin(replace(message, text=f"Delete {name}, which is merged."), {})
        self._out.write(dump_format.deletion(line.path))

    def facts(self) -> Facts:
        """Return the number of revisions and the notes, after the last revision."""
        nodes, renamed = self._nodes, self._plan.renamed
        examples = ", ".join(
            f"{printable(old)} as {printable(new)}" for old, new in list(renamed.items())[:3]
        )
        counts = {
            SUBMODULES: len(nodes.submodules),
            **{reason: len(nodes.renamed[reason]) for reason in dump_format.REASONS},
            TARGETS: len(nodes.targets),
            IMPOSSIBLE: len(nodes.impossible),
            f"{RENAMED} ({examples})": len(renamed),
            LATE: self._late,
        }
        return Facts(self._number, [f"{what}: {n}." for what, n in counts.items() if n])

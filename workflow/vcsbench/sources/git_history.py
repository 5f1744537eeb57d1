"""Convert a git history to revisions: lines of development, their copies, and the nodes of each commit."""

from collections import defaultdict
from collections.abc import Set
from datetime import UTC, datetime
from itertools import chain, compress, count
from typing import BinaryIO, NamedTuple

from vcsbench.external import printable
from vcsbench.sources import base, dump_format
from vcsbench.sources.base import Facts, notes_of
from vcsbench.sources.dump_format import above, subversion_path
from vcsbench.sources.git_objects import (
    EXECUTABLE,
    FOLDER,
    NO_NODE,
    SUBMODULE,
    SYMLINK,
    Change,
    Commit,
    Objects,
    Revision,
)
from vcsbench.sources.git_repository import Ref

TRUNK = base.TRUNK.encode()
LAYOUT = (TRUNK, b"branches", b"tags")
PROPERTIES = {SYMLINK: dump_format.SPECIAL, EXECUTABLE: dump_format.EXECUTABLE}
SUBMODULES = "Submodules left out"
MOVED = "Branches and tags renamed, because one would lie in another"
LATE = (
    "Commits that got the date of the one before them (the first one: 1970), because they are dated before "
    "it, before 1970 or after 9999, and Subversion looks revisions up by date"
)


class Line:
    """A path in the repository, and the indices of its first and last commit."""

    def __init__(self, path: bytes, tip: int) -> None:
        self.path = path
        self.first = self.last = tip


class ConversionPlan:
    """One revision for each commit, on its line of development.

    After the revision of a commit come its `copies`, which are tags, and branches without commits, and one
    deletion for each unnamed line that `ends` there. `revisions` is the number of all.
    """

    def __init__(self, commits: list[Commit], branches: list[Ref], tags: list[Ref]) -> None:
        """The first branch becomes trunk. `commits` are all that branches and tags lead to, parents first."""
        self.commits = commits
        self.lines: dict[int, Line] = {}
        self.copies: dict[int, list[bytes]] = defaultdict(list)
        self.renamed: dict[bytes, bytes] = {}
        self._paths = set[bytes]()
        self._folders = set[bytes]()
        index = {commit.name: i for i, commit in enumerate(commits)}
        for i, ref in enumerate(branches):
            path = TRUNK if i == 0 else self._free_path(b"branches/", ref.name)
            tip = index[ref.commit]
            if tip in self.lines:
                self.copies[tip].append(path)
            else:
                self._add_line(tip, path)
        for ref in tags:
            self.copies[index[ref.commit]].append(self._free_path(b"tags/", ref.name))
        # The youngest commit without a line is the tip of one that git has no name for.
        unnamed = [
            self._add_line(i, self._free_path(b"branches/", b"merged-" + commits[i].name[:12]))
            for i in reversed(range(len(commits)))
            if i not in self.lines
        ]
        self.ends = self._find_ends(unnamed)
        copies = sum(len(paths) for paths in self.copies.values())
        deletions = sum(len(lines) for lines in self.ends.values())
        # The first one makes the usual layout.
        self.revisions = 1 + len(commits) + copies + deletions

    def _free_path(self, folder: bytes, name: bytes) -> bytes:
        """Return a path that neither lies in another branch or tag nor contains one.

        git's names have no `~`, so a new name with one is free.
        """
        path = folder + subversion_path(name)
        flat = folder + subversion_path(name.replace(b"/", b"~"))
        # The path, then the flat path, then the flat path with a number.
        candidates = chain([path, flat], (flat + b"~%d" % number for number in count(2)))
        free = next(candidate for candidate in candidates if self._is_free(candidate))
        if free != path:
            self.renamed[name] = free
        path = free
        self._paths.add(path)
        self._folders.update(above(path))
        return path

    def _is_free(self, path: bytes) -> bool:
        return path not in self._folders and self._paths.isdisjoint([path, *above(path)])

    def _add_line(self, tip: int, path: bytes) -> Line:
        """Add a line of the commits from `tip` along first parents that have none yet."""
        line = Line(path, tip)
        commit: int | None = tip
        while commit is not None and commit not in self.lines:
            self.lines[commit] = line
            line.first = commit
            parents = self.commits[commit].parents
            commit = parents[0] if parents else None
        return line

    def _find_ends(self, unnamed: list[Line]) -> dict[int, list[Line]]:
        """Return lines by the last commit that is on them or merges them."""
        # The last commit that has the tip of an unnamed line as a parent, by the tip.
        last_merge = {line.last: line.last for line in unnamed}
        for i, commit in enumerate(self.commits):
            for parent in commit.parents:
                if parent in last_merge:
                    last_merge[parent] = i
        ends = defaultdict(list)
        for line in unnamed:
            ends[last_merge[line.last]].append(line)
        return ends


class Origin(NamedTuple):
    """A path and a revision to copy from."""

    path: bytes
    revision: int


class NodeWriter:
    """Writes the nodes of commits, and collects omitted and renamed paths by note of a report."""

    def __init__(self, objects: Objects, out: BinaryIO) -> None:
        self._objects = objects
        self._out = out
        reasons = (SUBMODULES, dump_format.RENAMED, dump_format.LINKS)
        self.noted = {reason: set[bytes]() for reason in reasons}

    def write(self, changes: list[Change], line: bytes, origin: Origin) -> None:
        changes = [change for change in changes if self._has_node(change)]
        gone: dict[bytes, None] = {}  # as an ordered set
        for change in changes:
            is_gone = change.new_mode in NO_NODE or change.is_moved
            if change.old_mode not in NO_NODE and is_gone:
                gone[change.source] = None
        for path in gone:
            # A deleted folder takes its content with it.
            if not _is_below(path, gone.keys()):
                self._out.write(dump_format.deletion(self._path(line, path)))
        copied = self._add_folders(changes, line, origin)
        files = [
            change
            for change in changes
            if change.new_mode not in (*NO_NODE, FOLDER) and not _is_below(change.path, copied)
        ]
        self._write_files(files, line, origin)

    def _has_node(self, change: Change) -> bool:
        modes = (change.old_mode, change.new_mode)
        if SUBMODULE in modes:
            self.noted[SUBMODULES].add(change.path)
        if modes == (FOLDER, FOLDER):
            return change.source != change.path
        return any(mode not in NO_NODE for mode in modes)

    def _path(self, line: bytes, path: bytes) -> bytes:
        name = subversion_path(path)
        if name != path:
            self.noted[dump_format.RENAMED].add(path)
        return line + b"/" + name

    def _copyfrom(self, change: Change, origin: Origin) -> bytes:
        return dump_format.copyfrom(self._path(origin.path, change.source), origin.revision)

    def _add_folders(self, changes: list[Change], line: bytes, origin: Origin) -> set[bytes]:
        """Add folders, parents first. Return those that are copied with their content."""
        copied = set[bytes]()
        for change in sorted(change for change in changes if change.new_mode == FOLDER):
            if _is_below(change.path, copied):
                continue
            copyfrom = b""
            if change.old_mode == FOLDER:
                copied.add(change.path)
                copyfrom = self._copyfrom(change, origin)
            self._out.write(dump_format.directory(self._path(line, change.path), origin=copyfrom))
        return copied

    def _write_files(self, changes: list[Change], line: bytes, origin: Origin) -> None:
        has_text = [_has_new_text(change) for change in changes]
        blobs = self._objects.read([change.new_object for change in compress(changes, has_text)])
        for change, has_new_text in zip(changes, has_text, strict=True):
            is_renamed = change.source != change.path
            path = self._path(line, change.path)
            action = b"add" if is_renamed or change.old_mode in NO_NODE else b"change"
            copyfrom = self._copyfrom(change, origin) if is_renamed else b""
            properties = _new_properties(change)
            if not has_new_text:
                self._out.write(dump_format.file(path, action, copyfrom, properties))
                continue
            size, chunks = next(blobs)
            if change.new_mode == SYMLINK:
                properties = {}
                if size <= dump_format.LONGEST_TARGET:
                    properties, text = dump_format.link(b"".join(chunks))
                    size, chunks = len(text), iter([text])
                if not properties:
                    self.noted[dump_format.LINKS].add(change.path)
            records = dump_format.file_records(path, action, copyfrom, properties, size, chunks)
            self._out.writelines(records)
        for _ in blobs:
            pass


def _new_properties(change: Change) -> dump_format.Properties | None:
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


def _is_below(path: bytes, folders: Set[bytes]) -> bool:
    return bool(folders) and not folders.isdisjoint(above(path))


class RevisionWriter:
    """Writes the revisions of a plan, and counts changed dates."""

    def __init__(self, plan: ConversionPlan, objects: Objects, out: BinaryIO) -> None:
        self._plan = plan
        self._out = out
        self._nodes = NodeWriter(objects, out)
        self._number = 0
        self._revision_of: list[int] = []
        self._seconds = 0
        self._late = 0
        self._folders = set(LAYOUT)

    def write(self, i: int, revision: Revision) -> None:
        """Write the commit with the index `i`, which is the next one, and what comes after it."""
        commit = self._plan.commits[i]
        self._write_commit(i, revision)
        for path in self._plan.copies.get(i, ()):
            self._begin(revision, commit, {b"git:commit": commit.name})
            self._add_line(path, self._place(i))
        for line in self._plan.ends.get(i, ()):
            name = line.path.rpartition(b"/")[2].decode("ascii")
            text = f"Delete {name}, which is merged."
            self._begin(revision._replace(text=text), commit, {})
            self._out.write(dump_format.deletion(line.path))

    def _begin(self, revision: Revision, commit: Commit, properties: dict[bytes, bytes]) -> None:
        self._seconds = max(self._seconds, commit.seconds)
        date = {b"svn:date": dump_format.date(datetime.fromtimestamp(self._seconds, UTC))}
        if self._number == 0:
            self._out.write(dump_format.revision(0, date))
            log = {b"svn:log": b"The usual layout."}
            self._out.write(dump_format.revision(1, date | log))
            self._out.writelines(map(dump_format.directory, LAYOUT))
            self._number = 1
        self._number += 1
        author = {b"svn:author": revision.author.encode()} if revision.author else {}
        log = {b"svn:log": revision.text.encode()}
        self._out.write(dump_format.revision(self._number, log | date | author | properties))

    def _write_commit(self, i: int, revision: Revision) -> None:
        commit, line = self._plan.commits[i], self._plan.lines[i]
        properties = {b"git:commit": commit.name}
        if len(commit.parents) > 1:
            parents = (self._plan.commits[parent].name for parent in commit.parents)
            properties[b"git:parents"] = b" ".join(parents)
        self._late += commit.seconds < self._seconds
        self._begin(revision, commit, properties)
        origin = Origin(line.path, self._number - 1)
        if i == line.first and line.path != TRUNK:
            copied = self._place(commit.parents[0]) if commit.parents else None
            self._add_line(line.path, copied)
            origin = copied or origin
        self._nodes.write(revision.changes, line.path, origin)
        self._revision_of.append(self._number)

    def _place(self, commit: int) -> Origin:
        return Origin(self._plan.lines[commit].path, self._revision_of[commit])

    def _add_line(self, path: bytes, origin: Origin | None) -> None:
        for folder in above(path):
            if folder not in self._folders:
                self._folders.add(folder)
                self._out.write(dump_format.directory(folder))
        copyfrom = dump_format.copyfrom(*origin) if origin else b""
        self._out.write(dump_format.directory(path, origin=copyfrom))

    def facts(self) -> Facts:
        renamed = self._plan.renamed
        examples = ", ".join(
            f"{printable(old)} as {printable(new)}" for old, new in list(renamed.items())[:3]
        )
        counts = {reason: len(paths) for reason, paths in self._nodes.noted.items()}
        counts |= {f"{MOVED} ({examples})": len(renamed), LATE: self._late}
        return Facts(self._number, notes_of(counts))

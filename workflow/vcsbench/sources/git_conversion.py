"""Write the commits of a git history as revisions of a dump stream."""

from collections.abc import Set
from datetime import UTC, datetime
from typing import BinaryIO, NamedTuple

from vcsbench.external import printable
from vcsbench.sources import dump_format, svn_names
from vcsbench.sources.base import Facts, format_notes
from vcsbench.sources.dump_format import folders_above
from vcsbench.sources.git_history import LAYOUT, TRUNK, ConversionPlan
from vcsbench.sources.git_log import Change, Commit, CommitDetails
from vcsbench.sources.git_objects import (
    EXECUTABLE,
    FOLDER,
    NO_NODE,
    SUBMODULE,
    SYMLINK,
    Blob,
    BlobReader,
)

PROPERTIES = {SYMLINK: dump_format.SPECIAL, EXECUTABLE: dump_format.EXECUTABLE}
SUBMODULES = "Submodules left out"
MOVED = "Branches and tags renamed, because one would lie in another"
LATE = (
    "Commits that got the date of the one before them (the first one: 1970), because they are dated before "
    "it, before 1970 or after 9999, and Subversion looks revisions up by date"
)


class Origin(NamedTuple):
    """A path and a revision to copy from."""

    path: bytes
    revision: int


class NodeWriter:
    """Writes the nodes of commits.

    `noted` has the paths of git that were left out or changed, by the note of a report on them.
    """

    def __init__(self, blobs: BlobReader, out: BinaryIO) -> None:
        self._blobs = blobs
        self._out = out
        notes = (SUBMODULES, svn_names.RENAMED, svn_names.LINKS)
        self.noted = {note: set[bytes]() for note in notes}

    def write(self, changes: list[Change], line: bytes, origin: Origin) -> None:
        """Write the changes of a commit below the path `line`. `origin` is its first parent's tree."""
        for change in changes:
            if SUBMODULE in (change.old_mode, change.new_mode):
                self.noted[SUBMODULES].add(change.path)
        changes = [change for change in changes if _has_node(change)]
        self._delete(changes, line)
        copied = self._add_folders(changes, line, origin)
        files = []
        for change in changes:
            is_file = change.new_mode not in (*NO_NODE, FOLDER)
            # A copied folder has its files already.
            if is_file and not _is_below(change.path, copied):
                files.append(change)
        self._write_files(files, line, origin)

    def _delete(self, changes: list[Change], line: bytes) -> None:
        """Delete what a commit deletes, moves, or replaces by a submodule."""
        # The keys are a set in the order of the changes.
        gone: dict[bytes, None] = {}
        for change in changes:
            is_gone = change.is_moved or change.new_mode in NO_NODE
            if is_gone and change.old_mode not in NO_NODE:
                gone[change.source] = None
        for path in gone:
            # A deleted folder takes its content with it.
            if not _is_below(path, gone.keys()):
                self._out.write(dump_format.deletion(self._convert_path(line, path)))

    def _convert_path(self, line: bytes, path: bytes) -> bytes:
        name = svn_names.subversion_path(path)
        if name != path:
            self.noted[svn_names.RENAMED].add(path)
        return line + b"/" + name

    def _format_copyfrom(self, change: Change, origin: Origin) -> bytes:
        return dump_format.copyfrom(self._convert_path(origin.path, change.source), origin.revision)

    def _add_folders(self, changes: list[Change], line: bytes, origin: Origin) -> set[bytes]:
        """Add folders, parents first. Return those that are copied with their content."""
        copied = set[bytes]()
        # Sorted by path, a folder comes before what is in it.
        for change in sorted(change for change in changes if change.new_mode == FOLDER):
            if _is_below(change.path, copied):
                continue
            copyfrom = b""
            if change.old_mode == FOLDER:
                copied.add(change.path)
                copyfrom = self._format_copyfrom(change, origin)
            self._out.write(
                dump_format.directory(self._convert_path(line, change.path), origin=copyfrom)
            )
        return copied

    def _write_files(self, changes: list[Change], line: bytes, origin: Origin) -> None:
        """Write files and links with their new texts, if these changed."""
        names = [change.new_object for change in changes if _has_new_text(change)]
        blobs = self._blobs.read(names)
        for change in changes:
            path = self._convert_path(line, change.path)
            is_renamed = change.source != change.path
            action = b"add" if is_renamed or change.old_mode in NO_NODE else b"change"
            copyfrom = self._format_copyfrom(change, origin) if is_renamed else b""
            properties = _changed_properties(change)
            if not _has_new_text(change):
                self._out.write(dump_format.file(path, action, copyfrom, properties))
                continue
            blob = next(blobs)
            if change.new_mode == SYMLINK:
                blob, properties = _read_link(blob)
                if not properties:
                    self.noted[svn_names.LINKS].add(change.path)
            records = dump_format.file_records(
                path, action, copyfrom, properties, blob.size, blob.chunks
            )
            self._out.writelines(records)
        # The last blob ends with an answer of git's that must be read before the next request.
        for _ in blobs:
            pass


def _has_node(change: Change) -> bool:
    """Return True if a change concerns a file, a link, or a folder that is added, deleted or moved."""
    if change.old_mode == change.new_mode == FOLDER:
        # git lists all folders above a changed file. Only moved ones have another source.
        return change.source != change.path
    return change.old_mode not in NO_NODE or change.new_mode not in NO_NODE


def _read_link(blob: Blob) -> tuple[Blob, dump_format.Properties]:
    """Return the text and the properties of a link; of a plain file if Subversion can make no such link."""
    # A longer target is no link, and may have gigabytes.
    if blob.size > svn_names.LONGEST_TARGET:
        return blob, {}
    properties, text = svn_names.link(b"".join(blob.chunks))
    return Blob(len(text), iter([text])), properties


def _changed_properties(change: Change) -> dump_format.Properties | None:
    """Return the properties, None if they stay. Those of a link are always given: it may have been a file."""
    old_properties = PROPERTIES.get(change.old_mode, {})
    new_properties = PROPERTIES.get(change.new_mode, {})
    if change.old_mode in (*NO_NODE, SYMLINK) or new_properties != old_properties:
        return new_properties
    return None


def _has_new_text(change: Change) -> bool:
    """Return True if the text changes. In Subversion, the text of a link begins with `link `."""
    if change.old_mode in NO_NODE or change.old_object != change.new_object:
        return True
    return (change.old_mode == SYMLINK) != (change.new_mode == SYMLINK)


def _is_below(path: bytes, folders: Set[bytes]) -> bool:
    return bool(folders) and not folders.isdisjoint(folders_above(path))


class RevisionWriter:
    """Writes the revisions of a plan, commit by commit, and counts changed dates."""

    def __init__(self, plan: ConversionPlan, blobs: BlobReader, out: BinaryIO) -> None:
        self._plan = plan
        self._out = out
        self._nodes = NodeWriter(blobs, out)
        # The number of the last revision.
        self._number = 0
        # The revision of each commit, by the commit's index.
        self._revisions: list[int] = []
        # The date of the last revision, in seconds since 1970.
        self._seconds = 0
        self._late = 0
        self._folders = set(LAYOUT)

    def write(self, i: int, details: CommitDetails) -> None:
        """Write the commit with the index `i`, which is the next one, and what comes after it."""
        commit = self._plan.commits[i]
        self._write_commit(i, details)
        for path in self._plan.copies.get(i, ()):
            self._begin(details, commit, {b"git:commit": commit.name})
            self._add_line(path, self._find_origin(i))
        for line in self._plan.ends.get(i, ()):
            name = line.path.rpartition(b"/")[2].decode("ascii")
            text = f"Delete {name}, which is merged."
            self._begin(details._replace(text=text), commit, {})
            self._out.write(dump_format.deletion(line.path))

    def _begin(
        self, details: CommitDetails, commit: Commit, properties: dict[bytes, bytes]
    ) -> None:
        """Begin the next revision. Before the first one, write revision 0 and the usual layout."""
        # Subversion searches by date, so no revision may be older than the one before it.
        self._seconds = max(self._seconds, commit.seconds)
        date = {b"svn:date": dump_format.date(datetime.fromtimestamp(self._seconds, UTC))}
        if self._number == 0:
            self._out.write(dump_format.revision(0, date))
            log = {b"svn:log": b"The usual layout."}
            self._out.write(dump_format.revision(1, date | log))
            self._out.writelines(map(dump_format.directory, LAYOUT))
            self._number = 1
        self._number += 1
        revision_properties = {b"svn:log": details.text.encode(), **date}
        # A revision of Subversion may have no author.
        if details.author:
            revision_properties[b"svn:author"] = details.author.encode()
        revision_properties.update(properties)
        self._out.write(dump_format.revision(self._number, revision_properties))

    def _write_commit(self, i: int, details: CommitDetails) -> None:
        """Write the revision of a commit: its line, if it begins there, and its changes."""
        commit = self._plan.commits[i]
        line = self._plan.lines[i]
        properties = {b"git:commit": commit.name}
        # A merge: a revision of Subversion has no second parent.
        if len(commit.parents) > 1:
            parents = [self._plan.commits[parent].name for parent in commit.parents]
            properties[b"git:parents"] = b" ".join(parents)
        if commit.seconds < self._seconds:
            self._late += 1
        self._begin(details, commit, properties)
        origin = Origin(line.path, self._number - 1)
        # trunk begins in the layout, and other lines as a copy of the first parent, if there is one.
        if i == line.first and line.path != TRUNK:
            if commit.parents:
                origin = self._find_origin(commit.parents[0])
                self._add_line(line.path, origin)
            else:
                self._add_line(line.path, None)
        self._nodes.write(details.changes, line.path, origin)
        self._revisions.append(self._number)

    def _find_origin(self, commit: int) -> Origin:
        return Origin(self._plan.lines[commit].path, self._revisions[commit])

    def _add_line(self, path: bytes, origin: Origin | None) -> None:
        """Add a branch or tag as a copy of its origin, or as an empty folder, below the folders above it."""
        for folder in folders_above(path):
            if folder not in self._folders:
                self._folders.add(folder)
                self._out.write(dump_format.directory(folder))
        copyfrom = dump_format.copyfrom(*origin) if origin else b""
        self._out.write(dump_format.directory(path, origin=copyfrom))

    def facts(self) -> Facts:
        """Return the number of revisions, and notes on all that is not as in git."""
        counts = {note: len(paths) for note, paths in self._nodes.noted.items()}
        renamed = self._plan.renamed
        # Such as `one/y as branches/one~y`. Three are enough to see the rule.
        examples = [f"{printable(old)} as {printable(new)}" for old, new in renamed.items()]
        counts[f"{MOVED} ({', '.join(examples[:3])})"] = len(renamed)
        counts[LATE] = self._late
        return Facts(self._number, format_notes(counts))

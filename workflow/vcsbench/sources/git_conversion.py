"""Write the commits of a git history as revisions of a dump stream."""

from collections.abc import Set
from datetime import UTC, datetime
from typing import BinaryIO

from vcsbench.sources import base, dump_format, svn_names
from vcsbench.sources.base import Facts, format_notes
from vcsbench.sources.dump_format import CopyOrigin, folders_above
from vcsbench.sources.git_log import CommitDetails, TreeChange
from vcsbench.sources.git_objects import (
    EXECUTABLE_MODE,
    FOLDER_MODE,
    NO_NODE,
    SUBMODULE,
    SYMLINK_MODE,
    Blob,
    BlobReader,
    read_link,
)

TRUNK = base.TRUNK.encode()
LAYOUT = (TRUNK, b"branches", b"tags")
PROPERTIES = {SYMLINK_MODE: dump_format.SPECIAL, EXECUTABLE_MODE: dump_format.EXECUTABLE}
SUBMODULES = "Submodules left out"
LATE = (
    "Commits that got the date of the one before them (the first one: 1970), because they are dated before "
    "it, before 1970 or after 9999, and Subversion looks revisions up by date"
)


class NodeWriter:
    """Writes the records of the files, links and folders that commits change, all of them in trunk.

    `noted` has the paths in git that were left out or changed, such as {"Submodules left out": {b"lib"}}.
    """

    def __init__(self, blobs: BlobReader, out: BinaryIO) -> None:
        self._blobs = blobs
        self._out = out
        notes = (SUBMODULES, svn_names.RENAMED_NOTE, svn_names.LINKS_NOTE)
        self.noted = {note: set[bytes]() for note in notes}

    def write(self, changes: list[TreeChange], parent: int) -> None:
        """Write the records of a commit's changes: deletions, then folders, then files and links.

        Renamed files and folders are copied from `parent`, the revision of the commit's first parent.
        """
        for change in changes:
            if SUBMODULE in (change.old_mode, change.new_mode):
                self.noted[SUBMODULES].add(change.path)
        node_changes = [change for change in changes if _changes_node(change)]
        self._delete(node_changes)
        copied_folders = self._add_folders(node_changes, parent)
        files = []
        for change in node_changes:
            # A file or a link.
            is_file = change.new_mode not in (*NO_NODE, FOLDER_MODE)
            # The copy of a moved folder has its files already. None of them can have changed, because git
            # reports a folder as moved only if all of its content is the same.
            if is_file and not _is_below(change.path, copied_folders):
                files.append(change)
        self._write_files(files, parent)

    def _delete(self, changes: list[TreeChange]) -> None:
        """Write a deletion for each path that a commit deletes, moves away, or replaces by a submodule."""
        # The keys are a set in the order of the changes. Another order would give other bytes.
        deleted_paths: dict[bytes, None] = {}
        for change in changes:
            # A moved path is copied later, from an earlier revision.
            is_deleted = change.is_moved or change.new_mode in NO_NODE
            if is_deleted and change.old_mode not in NO_NODE:
                deleted_paths[change.source] = None
        for path in deleted_paths:
            # A deleted folder takes its content with it.
            if not _is_below(path, deleted_paths.keys()):
                self._out.write(dump_format.deletion(self._convert_path(path)))

    def _convert_path(self, path: bytes) -> bytes:
        """Return the path in Subversion of a path in git, and note the path if its name has to change."""
        name = svn_names.subversion_path(path)
        if name != path:
            self.noted[svn_names.RENAMED_NOTE].add(path)
        return TRUNK + b"/" + name

    def _add_folders(self, changes: list[TreeChange], parent: int) -> set[bytes]:
        """Write the new folders, parents first, and return the paths in git of the copied folders.

        A moved folder becomes a copy with all its content, so nothing below the copy is written.
        """
        copied_folders = set[bytes]()
        # Sorted by path, the first field of a change, a folder comes before the folders in it, as svnadmin
        # load requires.
        new_folders = sorted(change for change in changes if change.new_mode == FOLDER_MODE)
        for change in new_folders:
            if _is_below(change.path, copied_folders):
                continue
            original = None
            # `changes` has no folders that stay at their path, so a folder that existed before is moved.
            if change.old_mode == FOLDER_MODE:
                copied_folders.add(change.path)
                original = CopyOrigin(self._convert_path(change.source), parent)
            path = self._convert_path(change.path)
            self._out.write(dump_format.directory(path, original))
        return copied_folders

    def _write_files(self, changes: list[TreeChange], parent: int) -> None:
        """Write the record of each added, changed or renamed file or link.

        The record has the text and the properties only if they change; a link with a new text has both.
        Example: a rename of `a` to `b` without an edit is `add b`, copied from `a`, without a text.
        """
        # All texts are requested at once: git would take longer to answer one request after another.
        new_objects = [change.new_object for change in changes if _has_new_text(change)]
        blobs = self._blobs.read(new_objects)
        for change in changes:
            path = self._convert_path(change.path)
            is_renamed = change.source != change.path
            is_added = is_renamed or change.old_mode in NO_NODE
            action = b"add" if is_added else b"change"
            original = CopyOrigin(self._convert_path(change.source), parent) if is_renamed else None
            if _has_new_text(change):
                text, properties = self._convert_text(change, next(blobs))
                records = dump_format.file_records(
                    path,
                    action,
                    origin=original,
                    properties=properties,
                    size=text.size,
                    chunks=text.chunks,
                )
                self._out.writelines(records)
            else:
                properties = _changed_properties(change)
                record = dump_format.file(path, action, origin=original, properties=properties)
                self._out.write(record)

    def _convert_text(
        self, change: TreeChange, blob: Blob
    ) -> tuple[Blob, dump_format.Properties | None]:
        """Return the new text of a file or link in Subversion, and its properties; None if these stay.

        `blob` is the text in git. Note a link that Subversion cannot make: it becomes a plain file.
        """
        if change.new_mode != SYMLINK_MODE:
            return blob, _changed_properties(change)
        # git's text of a link is its target, `a`. Subversion's is `link a`, with a property. For a target
        # that Subversion refuses, read_link() returns no properties, and so a plain file.
        text, properties = read_link(blob)
        if not properties:
            self.noted[svn_names.LINKS_NOTE].add(change.path)
        return text, properties


def _changes_node(change: TreeChange) -> bool:
    """Return True if a change adds, deletes, moves or edits a node: a file, link or folder in Subversion."""
    if change.old_mode == change.new_mode == FOLDER_MODE:
        # git lists all folders above a changed file. Only a moved folder has another path before the commit.
        return change.source != change.path
    return change.old_mode not in NO_NODE or change.new_mode not in NO_NODE


def _changed_properties(change: TreeChange) -> dump_format.Properties | None:
    """Return all properties of a file after a change; None if they stay as they are.

    A link may be a plain file in Subversion, so its properties before the change are not known here. A link
    that becomes a file always gets the properties of the file.
    """
    # With a new text, read_link() returns the properties of a link.
    if change.old_mode == change.new_mode == SYMLINK_MODE:
        return None
    old_properties = PROPERTIES.get(change.old_mode, {})
    new_properties = PROPERTIES.get(change.new_mode, {})
    if change.old_mode in (*NO_NODE, SYMLINK_MODE) or new_properties != old_properties:
        return new_properties
    return None


def _has_new_text(change: TreeChange) -> bool:
    """Return True if the text of a file or link in Subversion changes."""
    if change.old_mode in NO_NODE or change.old_object != change.new_object:
        return True
    # A link has the text `link TARGET` in Subversion, and `TARGET` in git. So the text also changes if a file
    # becomes a link to its text, or a link becomes a file.
    return (change.old_mode == SYMLINK_MODE) != (change.new_mode == SYMLINK_MODE)


def _is_below(path: bytes, folders: Set[bytes]) -> bool:
    """Return True if `folders` has one of the folders above a path."""
    return bool(folders) and not folders.isdisjoint(folders_above(path))


class RevisionWriter:
    """Writes a revision for each commit of trunk, after revisions 0 and 1, and counts changed dates."""

    def __init__(self, blobs: BlobReader, out: BinaryIO) -> None:
        self._out = out
        self._nodes = NodeWriter(blobs, out)
        # The number of the last revision, and its date in seconds since 1970.
        self._number = 0
        self._seconds = 0
        self._late_commits = 0

    def write(self, commit: CommitDetails) -> None:
        """Write the revision of the next commit. The first call also writes revisions 0 and 1.

        Commits must be written parents first.
        """
        # Subversion finds the revision of a date by binary search, so no revision may be older than the
        # revision before it. An unreadable date is -1, and so always earlier.
        if commit.seconds < self._seconds:
            self._late_commits += 1
        self._seconds = max(self._seconds, commit.seconds)
        date = {b"svn:date": dump_format.date(datetime.fromtimestamp(self._seconds, UTC))}
        # Revisions 0 and 1 are of no commit. The first commit's date is the latest that they may have.
        if self._number == 0:
            self._out.write(dump_format.revision(0, date))
            log = {b"svn:log": b"The usual layout."}
            self._out.write(dump_format.revision(1, date | log))
            self._out.writelines(map(dump_format.directory, LAYOUT))
            self._number = 1
        self._number += 1
        properties = {b"svn:log": commit.text.encode(), **date}
        # Subversion allows a revision without an author.
        if commit.author:
            properties[b"svn:author"] = commit.author.encode()
        properties[b"git:commit"] = commit.name
        self._out.write(dump_format.revision(self._number, properties))
        # The first parent of a commit is the revision before. A commit without a parent copies nothing.
        self._nodes.write(commit.changes, self._number - 1)

    def facts(self) -> Facts:
        """Return the number of revisions, and a note with a count for each thing that is not as in git."""
        counts = {note: len(paths) for note, paths in self._nodes.noted.items()}
        counts[LATE] = self._late_commits
        return Facts(self._number, format_notes(counts))

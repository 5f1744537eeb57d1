"""Write the commits of a git history as revisions of a dump stream."""

from collections.abc import Set
from datetime import UTC, datetime
from typing import BinaryIO

from vcsbench.external import printable
from vcsbench.sources import dump_format, svn_names
from vcsbench.sources.base import Facts, format_notes
from vcsbench.sources.dump_format import CopyOrigin, folders_above
from vcsbench.sources.git_history import LAYOUT, TRUNK, ConversionPlan
from vcsbench.sources.git_log import Commit, CommitDetails, TreeChange
from vcsbench.sources.git_objects import (
    EXECUTABLE_MODE,
    FOLDER_MODE,
    NO_NODE,
    SUBMODULE,
    SYMLINK_MODE,
    BlobReader,
    read_link,
)

PROPERTIES = {SYMLINK_MODE: dump_format.SPECIAL, EXECUTABLE_MODE: dump_format.EXECUTABLE}
SUBMODULES = "Submodules left out"
MOVED = "Branches and tags renamed, because one would lie in another"
LATE = (
    "Commits that got the date of the one before them (the first one: 1970), because they are dated before "
    "it, before 1970 or after 9999, and Subversion looks revisions up by date"
)


class NodeWriter:
    """Writes the records of the files, links and folders that commits change.

    `noted` has the paths in git that were left out or changed, by the text of the report's note on them, such
    as {"Submodules left out": {b"lib"}}.
    """

    def __init__(self, blobs: BlobReader, out: BinaryIO) -> None:
        self._blobs = blobs
        self._out = out
        notes = (SUBMODULES, svn_names.RENAMED_NOTE, svn_names.LINKS_NOTE)
        self.noted = {note: set[bytes]() for note in notes}

    def write(self, changes: list[TreeChange], branch: bytes, origin: CopyOrigin) -> None:
        """Write the records of a commit's changes: deletions, then folders, then files and links.

        `branch` is the folder of the commit's branch, such as b"trunk" or b"branches/x". `origin` is the tree
        of the commit's first parent, from which renamed files and folders are copied.
        """
        # A submodule names a commit of another repository. It has no content here, so it is only counted.
        for change in changes:
            if SUBMODULE in (change.old_mode, change.new_mode):
                self.noted[SUBMODULES].add(change.path)
        node_changes = [change for change in changes if _changes_node(change)]
        self._delete(node_changes, branch)
        copied_folders = self._add_folders(node_changes, branch, origin)
        files = []
        for change in node_changes:
            # The modes of NO_NODE are those of an absent path and of a submodule. After the commit, a path
            # with a mode other than these and FOLDER_MODE is a file or a link.
            is_file = change.new_mode not in (*NO_NODE, FOLDER_MODE)
            # A moved folder was added as a copy, which has its files already. None of them can have changed,
            # because git reports a folder as moved only if all of its content is the same.
            if is_file and not _is_below(change.path, copied_folders):
                files.append(change)
        self._write_files(files, branch, origin)

    def _delete(self, changes: list[TreeChange], branch: bytes) -> None:
        """Write a deletion for each path that a commit deletes, moves away, or replaces by a submodule."""
        # The keys are a set in the order of the changes. Another order would give other bytes.
        deleted_paths: dict[bytes, None] = {}
        for change in changes:
            # A moved path is copied later, from an earlier revision. NO_NODE: an absent path or a submodule.
            is_deleted = change.is_moved or change.new_mode in NO_NODE
            # A path that was absent or a submodule before the commit has no file that could be deleted.
            if is_deleted and change.old_mode not in NO_NODE:
                # `source` is the old path of a moved file or folder. In any other change, it is the path.
                deleted_paths[change.source] = None
        for path in deleted_paths:
            # A deleted folder takes its content with it.
            if not _is_below(path, deleted_paths.keys()):
                self._out.write(dump_format.deletion(self._convert_path(branch, path)))

    def _convert_path(self, branch: bytes, path: bytes) -> bytes:
        """Return the path in Subversion of a path in git, and note the path if its name has to change."""
        name = svn_names.subversion_path(path)
        if name != path:
            self.noted[svn_names.RENAMED_NOTE].add(path)
        return branch + b"/" + name

    def _find_original(self, change: TreeChange, origin: CopyOrigin) -> CopyOrigin:
        return CopyOrigin(self._convert_path(origin.path, change.source), origin.revision)

    def _add_folders(
        self, changes: list[TreeChange], branch: bytes, origin: CopyOrigin
    ) -> set[bytes]:
        """Write the new folders, parents first, and return the paths in git of the copied folders.

        A folder that is moved becomes a copy with all its content, so nothing below the copy is written. Any
        other new folder is empty at first. `branch` is the folder of the commit's branch, such as b"trunk",
        and `origin` the tree of its first parent.
        """
        copied_folders = set[bytes]()
        # The path is the first field of a change. Sorted by path, a folder comes before the folders in it, as
        # svnadmin load requires.
        new_folders = sorted(change for change in changes if change.new_mode == FOLDER_MODE)
        for change in new_folders:
            if _is_below(change.path, copied_folders):
                continue
            # `changes` has no folders that stay at their path, so a folder that existed before is moved.
            is_moved = change.old_mode == FOLDER_MODE
            if is_moved:
                copied_folders.add(change.path)
            original = self._find_original(change, origin) if is_moved else None
            path = self._convert_path(branch, change.path)
            self._out.write(dump_format.directory(path, original))
        return copied_folders

    def _write_files(self, changes: list[TreeChange], branch: bytes, origin: CopyOrigin) -> None:
        """Write the record of each added, changed or renamed file or link.

        The record has the text and the properties only if they change; a link with a new text has both.
        Example: a rename of `a` to `b` without an edit is `add b`, copied from `a`, without a text. `branch`
        is the folder of the commit's branch, and `origin` the tree of its first parent.
        """
        # All texts are requested at once: git would take longer to answer one request after another. `blobs`
        # yields the texts in the order of the changes.
        new_objects = [change.new_object for change in changes if _has_new_text(change)]
        blobs = self._blobs.read(new_objects)
        for change in changes:
            path = self._convert_path(branch, change.path)
            # `source` is the path before a rename or copy. In any other change, it is equal to `path`.
            is_renamed = change.source != change.path
            # NO_NODE: before the commit, the path was absent or a submodule, so Subversion has no file there.
            is_added = is_renamed or change.old_mode in NO_NODE
            action = b"add" if is_added else b"change"
            original = self._find_original(change, origin) if is_renamed else None
            properties = _changed_properties(change)
            if not _has_new_text(change):
                record = dump_format.file(path, action, origin=original, properties=properties)
                self._out.write(record)
                continue
            blob = next(blobs)
            if change.new_mode == SYMLINK_MODE:
                # git's text of a link is its target, `a`. Subversion's text, `link a`, replaces it here, and
                # the properties are those that mark a link.
                blob, properties = read_link(blob)
                # Without properties, the text becomes a plain file, because Subversion can make no link with
                # this target. The report has a note with the number of these files.
                if not properties:
                    self.noted[svn_names.LINKS_NOTE].add(change.path)
            records = dump_format.file_records(
                path,
                action,
                origin=original,
                properties=properties,
                size=blob.size,
                chunks=blob.chunks,
            )
            self._out.writelines(records)


def _changes_node(change: TreeChange) -> bool:
    """Return True if a change adds, deletes, moves or edits a node: a file, link or folder in Subversion."""
    if change.old_mode == change.new_mode == FOLDER_MODE:
        # git lists all folders above a changed file. Only a moved folder has another path before the commit.
        return change.source != change.path
    # NO_NODE has the modes of an absent path and of a submodule, which Subversion does not have.
    return change.old_mode not in NO_NODE or change.new_mode not in NO_NODE


def _changed_properties(change: TreeChange) -> dump_format.Properties | None:
    """Return all properties of a file after a change; None if they stay as they are.

    A plain file has none, {}. For a new file, and for a link that becomes a file, None is never returned.
    Such a link may be a plain file in Subversion, so its properties before the change are not known here.
    """
    # A link that stays a link keeps its properties, also if it became a plain file in Subversion. With a new
    # text, read_link() returns its properties.
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
        self._late_commits = 0
        # The folders of LAYOUT, and those that were made for branches and tags in them, such as branches/a.
        self._folders = set(LAYOUT)

    def write(self, index: int, details: CommitDetails) -> None:
        """Write the revision of the commit with this index, and the revisions that follow from the commit.

        Each tag at this commit, and each branch there without commits of its own, is a copy in a revision.
        Then each unnamed branch that ends at this commit is deleted in a revision. git has no name for it any
        more, usually because it was merged. Commits must be written in the order of their indices.
        """
        commit = self._plan.commits[index]
        self._write_commit(index, details)
        # The paths of tags and branches, such as b"tags/1.0".
        for path in self._plan.copies.get(index, ()):
            self._begin_revision(details, commit, {b"git:commit": commit.name})
            self._add_branch_or_tag(path, self._find_origin(index))
        # An unnamed branch has a path such as branches/merged-0a4d55a8d778.
        for branch in self._plan.ends.get(index, ()):
            name = branch.path.rpartition(b"/")[2].decode("ascii")
            text = f"Delete {name}, which is merged."
            self._begin_revision(details._replace(text=text), commit, {})
            self._out.write(dump_format.deletion(branch.path))

    def _begin_revision(
        self, details: CommitDetails, commit: Commit, properties: dict[bytes, bytes]
    ) -> None:
        """Write the head of the next revision: number, date, author, message and `properties`.

        `commit` has the date, and `details` the author and the message of the same commit. They are two
        objects, because git lists the commits twice. The first call also writes revision 0, and revision 1
        with the folders trunk, branches and tags.
        """
        # Subversion finds the revision of a date by binary search, so no revision may be older than the
        # revision before it. A commit with an earlier date gets the date of the revision before.
        self._seconds = max(self._seconds, commit.seconds)
        date = {b"svn:date": dump_format.date(datetime.fromtimestamp(self._seconds, UTC))}
        # Revisions 0 and 1 are of no commit. The first commit's date is the latest that they may have.
        is_first_call = self._number == 0
        if is_first_call:
            self._out.write(dump_format.revision(0, date))
            log = {b"svn:log": b"The usual layout."}
            self._out.write(dump_format.revision(1, date | log))
            self._out.writelines(map(dump_format.directory, LAYOUT))
            # Revision 1 is the last one so far. The revision of the first commit is the next one, 2.
            self._number = 1
        self._number += 1
        revision_properties = {b"svn:log": details.text.encode(), **date}
        # A commit may have an empty author. Then the revision has none, which Subversion allows.
        if details.author:
            revision_properties[b"svn:author"] = details.author.encode()
        revision_properties.update(properties)
        self._out.write(dump_format.revision(self._number, revision_properties))

    def _write_commit(self, index: int, details: CommitDetails) -> None:
        """Write the revision of the commit with this index, with its changes.

        If it is the first commit on its branch, the revision also adds the branch's folder: as a copy of the
        first parent's tree, or empty if the commit has no parent. Revision 1 has added the folder of trunk.
        """
        commit = self._plan.commits[index]
        # The commit's branch: its path, such as b"trunk", and the index of its first commit.
        branch = self._plan.lines[index]
        properties = {b"git:commit": commit.name}
        # A revision of Subversion has no second parent, so a merge keeps its parents in a property.
        if len(commit.parents) > 1:
            parents = [self._plan.commits[parent].name for parent in commit.parents]
            properties[b"git:parents"] = b" ".join(parents)
        # _begin_revision() changes `_seconds`, so the dates are compared before that call. A commit that is
        # older than the revision before gets the date of that revision. A note has the number of these.
        if commit.seconds < self._seconds:
            self._late_commits += 1
        self._begin_revision(details, commit, properties)
        is_new_branch = index == branch.first and branch.path != TRUNK
        if is_new_branch and commit.parents:
            parent_tree = self._find_origin(commit.parents[0])
            self._add_branch_or_tag(branch.path, parent_tree)
        else:
            # The first parent, if any, is on the same branch. Its tree is the branch's folder in the revision
            # before. A commit without a parent only adds files, so none is copied from `parent_tree`.
            parent_tree = CopyOrigin(branch.path, self._number - 1)
            if is_new_branch:
                self._add_branch_or_tag(branch.path, None)
        # Files that the commit moves are copied from `parent_tree`.
        self._nodes.write(details.changes, branch.path, parent_tree)
        self._revisions.append(self._number)

    def _find_origin(self, commit: int) -> CopyOrigin:
        return CopyOrigin(self._plan.lines[commit].path, self._revisions[commit])

    def _add_branch_or_tag(self, path: bytes, origin: CopyOrigin | None) -> None:
        """Add a branch or tag as a copy of its origin, or as an empty folder without an origin."""
        # svnadmin load requires the folders above it: branches/a for branches/a/b.
        for folder in folders_above(path):
            if folder not in self._folders:
                self._folders.add(folder)
                self._out.write(dump_format.directory(folder))
        self._out.write(dump_format.directory(path, origin))

    def facts(self) -> Facts:
        """Return the number of revisions, and a note with a count for each thing that is not as in git."""
        counts = {note: len(paths) for note, paths in self._nodes.noted.items()}
        renamed = self._plan.renamed
        # Such as `one/y as branches/one~y`. Three are enough to see the rule.
        examples = [f"{printable(old)} as {printable(new)}" for old, new in renamed.items()]
        counts[f"{MOVED} ({', '.join(examples[:3])})"] = len(renamed)
        counts[LATE] = self._late_commits
        return Facts(self._number, format_notes(counts))

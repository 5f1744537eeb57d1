"""Define the events of a generated history, and write them as a dump stream or as a stream for git.

In git, each revision that changes files is a commit on the branch that it changes; its mark is the number of
the revision. A new branch is a new ref, and a new tag an annotated tag: both without a commit. git has no
empty folders. At the end, each branch and tag has the tree that its path has in Subversion.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import BinaryIO, NamedTuple

from vcsbench.sources import dump_format
from vcsbench.sources.dump_format import CopyOrigin
from vcsbench.sources.generated_profiles import ProjectLayout

TRUNK_REF = b"refs/heads/trunk"


class RevisionBegun(NamedTuple):
    """The begin of a revision; the events up to the next one are its changes.

    `date` is Subversion's, such as b"2005-05-05T05:05:05.000000Z". Revision 0 has neither author nor message.
    """

    number: int
    date: bytes
    author: bytes | None = None
    message: bytes | None = None


class ProjectAdded(NamedTuple):
    """The folders of a new project: trunk, the folders for branches and tags, and all folders above them."""

    layout: ProjectLayout


class BranchAdded(NamedTuple):
    """A new branch: a copy of trunk."""

    path: bytes
    origin: CopyOrigin


class TagAdded(NamedTuple):
    """A new tag: a copy of a branch."""

    path: bytes
    origin: CopyOrigin


class FolderAdded(NamedTuple):
    """A new empty folder."""

    path: bytes


class FolderCopied(NamedTuple):
    """A copy of a folder of the same trunk; `has_files` is True if a file is below the folder."""

    path: bytes
    origin: CopyOrigin
    has_files: bool


class FileAdded(NamedTuple):
    """A new file."""

    path: bytes
    is_executable: bool
    properties: dict[bytes, bytes]
    text: bytes


class FileCopied(NamedTuple):
    """A copy of a file of the same trunk, with its text and properties."""

    path: bytes
    origin: CopyOrigin


class FileChanged(NamedTuple):
    """A file with another text."""

    path: bytes
    is_executable: bool
    text: bytes


class PathDeleted(NamedTuple):
    """A deleted file, or a folder with all below it."""

    path: bytes


Change = (
    ProjectAdded
    | BranchAdded
    | TagAdded
    | FolderAdded
    | FolderCopied
    | FileAdded
    | FileCopied
    | FileChanged
    | PathDeleted
)
Event = RevisionBegun | Change


def dump_records(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield the records of events for a dump stream of Subversion.

    An event has one record. Only a new project has several records: one for each of its folders.
    """
    for event in events:
        # The cases are all types of `Event`, so no event is left out.
        match event:
            case RevisionBegun():
                yield dump_format.revision(event.number, _revision_properties(event))
            case ProjectAdded():
                yield from map(dump_format.directory, _list_folders(event.layout))
            case FolderAdded():
                yield dump_format.directory(event.path)
            # In Subversion, a branch or tag is a folder, too: a copy of another folder.
            case BranchAdded() | TagAdded() | FolderCopied():
                yield dump_format.directory(event.path, event.origin)
            case FileAdded():
                yield dump_format.file(
                    event.path, b"add", properties=event.properties, text=event.text
                )
            case FileCopied():
                yield dump_format.file(event.path, b"add", origin=event.origin)
            case FileChanged():
                yield dump_format.file(event.path, b"change", text=event.text)
            case PathDeleted():
                yield dump_format.deletion(event.path)


def _revision_properties(revision: RevisionBegun) -> dict[bytes, bytes]:
    properties = {}
    if revision.message is not None:
        properties[b"svn:log"] = revision.message
    if revision.author is not None:
        properties[b"svn:author"] = revision.author
    properties[b"svn:date"] = revision.date
    return properties


def _list_folders(layout: ProjectLayout) -> list[bytes]:
    """Return trunk, the folders for branches and tags, and all folders above them, each folder once."""
    # The keys are a set that keeps its order. The three kinds of folders may lie in the same folder.
    folders: dict[bytes, None] = {}
    for path in (layout.trunk, *layout.branches, *layout.tags):
        for folder in (*dump_format.folders_above(path), path):
            folders[folder] = None
    return list(folders)


class FastImportWriter:
    """Write events to `out` as commands of `git fast-import`.

    finish() writes the last command, `done`. fast-import refuses a stream without it.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._revision = RevisionBegun(0, b"")
        # The ref of the commit that this revision has begun; None before its first change.
        self._commit: bytes | None = None
        # The ref of each trunk and branch, by its path in Subversion.
        self._refs: dict[bytes, bytes] = {}
        # By the folder of a project's branches or tags, the beginning of the short names of their refs, such
        # as b"buffer7/". It is empty for the first project.
        self._prefixes: dict[bytes, bytes] = {}

    def write(self, events: Iterable[Event]) -> None:
        for event in events:
            self._write(event)

    def finish(self) -> None:
        self._out.write(b"done\n")
        self._out.flush()

    def _write(self, event: Event) -> None:
        """Write the commands of `git fast-import` for one event.

        The first change of a revision begins its commit (_begin_change). In a commit, `M` writes a file with
        the text that follows, `C` copies a path, and `D` deletes a path. `_refs` gets the refs of new
        branches, by their path in Subversion.
        """
        match event:
            case RevisionBegun():
                self._revision = event
                self._commit = None
            case ProjectAdded():
                self._add_project(event.layout)
            # A branch or tag leads to the last commit of the branch that it is copied from. It has no commit
            # of its own.
            case BranchAdded():
                ref = b"refs/heads/" + self._ref_name(event.path)
                self._refs[event.path] = ref
                self._out.write(b"reset %s\nfrom %s\n\n" % (ref, self._refs[event.origin.path]))
            case TagAdded():
                # The tag has the author, the date (_person) and the message of the revision that adds it.
                head = b"tag %s\nfrom %s\ntagger %s\n"
                name = self._ref_name(event.path)
                self._out.write(head % (name, self._refs[event.origin.path], self._person()))
                self._write_data(self._revision.message or b"")
            case FolderAdded():
                # git has no empty folders.
                pass
            case FolderCopied():
                # Without files, git has no such folder, and would refuse to copy it.
                if event.has_files:
                    self._write_copy(event.origin.path, event.path)
            case FileCopied():
                self._write_copy(event.origin.path, event.path)
            case FileAdded() | FileChanged():
                # This begins the commit unless it has begun, and returns lib/a.c for trunk/lib/a.c.
                name = self._begin_change(event.path)
                mode = b"100755" if event.is_executable else b"100644"
                self._out.write(b"M %s inline %s\n" % (mode, name))
                self._write_data(event.text)
            case PathDeleted():
                self._out.write(b"D %s\n" % self._begin_change(event.path))

    def _add_project(self, layout: ProjectLayout) -> None:
        prefix = b""
        # The first project has no prefix, so its trunk is refs/heads/trunk, whatever its path is.
        if self._refs:
            # Such as buffer7/ for buffer7/trunk.
            prefix = layout.trunk.rpartition(b"/")[0] + b"/"
        self._refs[layout.trunk] = b"refs/heads/" + prefix + b"trunk" if prefix else TRUNK_REF
        for folder in (*layout.branches, *layout.tags):
            self._prefixes[folder] = prefix

    def _ref_name(self, path: bytes) -> bytes:
        """Return the short name of the ref of a branch or tag, such as buffer_7 for branches/buffer_7."""
        folder, _, name = path.rpartition(b"/")
        return self._prefixes[folder] + name

    def _write_copy(self, origin: bytes, path: bytes) -> None:
        name = self._begin_change(path)
        # The commit has begun. For the origin, this call only returns the path below the branch.
        self._out.write(b"C %s %s\n" % (self._begin_change(origin), name))

    def _begin_change(self, path: bytes) -> bytes:
        """Begin the commit of this revision, unless it has begun. Return lib/a.c for trunk/lib/a.c."""
        for folder in dump_format.folders_above(path):
            if folder in self._refs:
                self.begin_commit(self._refs[folder])
                return path[len(folder) + 1 :]
        raise ValueError(f"{path!r} is on no branch")

    def begin_commit(self, ref: bytes) -> None:
        """Begin the commit of this revision on a ref, unless it has begun.

        Raise ValueError if it has begun on another ref: a revision has only one commit.
        """
        if self._commit == ref:
            return
        if self._commit is not None:
            raise ValueError(f"revision {self._revision.number} changes two branches")
        self._commit = ref
        head = b"commit %s\nmark :%d\ncommitter %s\n"
        self._out.write(head % (ref, self._revision.number, self._person()))
        self._write_data(self._revision.message or b"")

    def _person(self) -> bytes:
        """Return the author and the date of this revision: `ann <ann@localhost> 1117602305 +0000`."""
        author = self._revision.author or b""
        seconds = int(datetime.fromisoformat(self._revision.date.decode("ascii")).timestamp())
        return b"%s <%s@localhost> %d +0000" % (author, author, seconds)

    def _write_data(self, content: bytes) -> None:
        self._out.writelines((b"data %d\n" % len(content), content, b"\n"))

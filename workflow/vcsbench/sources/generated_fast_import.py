"""Write the events of a generated history as a stream for `git fast-import`.

Each revision that changes files becomes a commit on the branch that it changes; its mark is the number of the
revision. A new branch is a new ref, and a new tag an annotated tag: both without a commit. git has no empty
folders. At the end, each branch and tag has the tree that its path has in Subversion.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import BinaryIO

from vcsbench.sources import dump_format
from vcsbench.sources.generated_events import (
    BranchAdded,
    Event,
    FileAdded,
    FileChanged,
    FileCopied,
    FolderAdded,
    PathDeleted,
    ProjectAdded,
    RevisionBegun,
    TagAdded,
)
from vcsbench.sources.generated_profiles import ProjectLayout

TRUNK_REF = b"refs/heads/trunk"


class FastImportWriter:
    """Write events to `out`. A stream that is not finished lacks `done`, and fast-import refuses it."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._revision = RevisionBegun(0, b"")
        # The ref of the commit that this revision has begun; b"" before its first change.
        self._commit = b""
        # The ref of each trunk and branch, by its path in Subversion.
        self._refs: dict[bytes, bytes] = {}
        # The part of the names of refs before those of a project's branches, by the folder of its branches
        # or tags. The first project has none.
        self._prefixes: dict[bytes, bytes] = {}

    def write(self, events: Iterable[Event]) -> None:
        for event in events:
            self._write(event)

    def finish(self) -> None:
        self._out.write(b"done\n")
        self._out.flush()

    def _write(self, event: Event) -> None:
        match event:
            case RevisionBegun():
                self._revision = event
                self._commit = b""
            case ProjectAdded():
                self._add_project(event.layout)
            case BranchAdded():
                ref = b"refs/heads/" + self._name_copy(event.path)
                self._refs[event.path] = ref
                self._out.write(b"reset %s\nfrom %s\n\n" % (ref, self._refs[event.origin.path]))
            case TagAdded():
                head = b"tag %s\nfrom %s\ntagger %s\n"
                name = self._name_copy(event.path)
                self._out.write(head % (name, self._refs[event.origin.path], self._person()))
                self._write_data(self._revision.message or b"")
            case FolderAdded():
                # A copied folder without files is nothing in git, as a new one.
                if event.origin and event.has_files:
                    self._write_copy(event.origin.path, event.path)
            case FileCopied():
                self._write_copy(event.origin.path, event.path)
            case FileAdded() | FileChanged():
                name = self._begin_change(event.path)
                mode = b"100755" if event.is_executable else b"100644"
                self._out.write(b"M %s inline %s\n" % (mode, name))
                self._write_data(event.text)
            case PathDeleted():
                self._out.write(b"D %s\n" % self._begin_change(event.path))

    def _add_project(self, layout: ProjectLayout) -> None:
        prefix = b""
        ref = TRUNK_REF
        if self._refs:
            # Such as buffer7/ for buffer7/trunk.
            prefix = layout.trunk.rpartition(b"/")[0] + b"/"
            ref = b"refs/heads/" + prefix + b"trunk"
        self._refs[layout.trunk] = ref
        for folder in (*layout.branches, *layout.tags):
            self._prefixes[folder] = prefix

    def _name_copy(self, path: bytes) -> bytes:
        """Return the short name of the ref of a branch or tag, such as buffer_7 for branches/buffer_7."""
        folder, _, name = path.rpartition(b"/")
        return self._prefixes[folder] + name

    def _write_copy(self, origin: bytes, path: bytes) -> None:
        name = self._begin_change(path)
        self._out.write(b"C %s %s\n" % (self._begin_change(origin), name))

    def _begin_change(self, path: bytes) -> bytes:
        """Begin the commit of this revision, unless it has begun. Return the path below its branch."""
        for folder in dump_format.folders_above(path):
            if folder in self._refs:
                self.begin_commit(self._refs[folder])
                return path[len(folder) + 1 :]
        raise ValueError(f"{path!r} is on no branch")

    def begin_commit(self, ref: bytes) -> None:
        """Begin the commit of this revision on a ref, unless it has begun. A revision has one commit."""
        if self._commit == ref:
            return
        if self._commit:
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

"""Commits written as revisions of trunk."""

from __future__ import annotations

from typing import BinaryIO

from vcsbench.sources import dumpstream
from vcsbench.sources.base import Facts
from vcsbench.sources.git.blobs import Objects
from vcsbench.sources.git.changes import ABSENT, EXECUTABLE, SUBMODULE, SYMLINK, Change
from vcsbench.sources.git.commits import parse_commit, revision_properties
from vcsbench.sources.git.folders import Folders
from vcsbench.sources.git.names import subversion_path

TRUNK = b"trunk"


def node_properties(mode: bytes) -> dict[bytes, bytes]:
    """What Subversion has for a git mode."""
    if mode == SYMLINK:
        return {b"svn:special": b"*"}
    if mode == EXECUTABLE:
        return {b"svn:executable": b"*"}
    return {}


class Revisions:
    """Writes one revision per commit, and counts what could not stay as it was."""

    def __init__(self, objects: Objects, out: BinaryIO) -> None:
        self._objects = objects
        self._out = out
        self._folders = Folders([TRUNK])
        self._number = 0
        self._seconds = 0
        self._submodules: set[bytes] = set()
        self._escaped: set[bytes] = set()
        self._late = 0

    def write(self, identity: bytes, changes: list[Change]) -> None:
        """Write the commit named `identity`, which makes these changes to the tree before it."""
        commit = parse_commit(next(self._objects.read([identity])))
        if commit.seconds < self._seconds:
            self._late += 1
        self._seconds = max(self._seconds, commit.seconds)
        properties = revision_properties(commit, identity, self._seconds)
        if self._number == 0:
            self._first(properties[b"svn:date"])
        self._number += 1
        self._out.write(dumpstream.revision(self._number, properties))
        self._nodes([change for change in changes if self._kept(change)])

    def _first(self, date: bytes) -> None:
        """The revisions 0 and 1, which make the usual layout."""
        properties = {b"svn:date": date}
        self._out.write(dumpstream.revision(0, properties))
        properties[b"svn:log"] = b"The usual layout."
        self._out.write(dumpstream.revision(1, properties))
        for name in (TRUNK, b"branches", b"tags"):
            self._out.write(dumpstream.directory(name))
        self._number = 1

    def _kept(self, change: Change) -> bool:
        """Note what is left out or renamed; False for what leaves nothing to write."""
        modes = {change.old_mode, change.new_mode}
        if SUBMODULE in modes:
            self._submodules.add(change.path)
        return bool(modes - {SUBMODULE, ABSENT})

    def _path(self, path: bytes) -> bytes:
        name = subversion_path(path)
        if name != path:
            self._escaped.add(path)
        return TRUNK + b"/" + name

    def _nodes(self, changes: list[Change]) -> None:
        nothing = (ABSENT, SUBMODULE)
        removed = [self._path(c.path) for c in changes if c.new_mode in nothing]
        written = [c for c in changes if c.new_mode not in nothing]
        added = [self._path(c.path) for c in written if c.old_mode in nothing]
        deleted, made = self._folders.update(removed, added)
        for path in deleted:
            self._out.write(dumpstream.deletion(path))
        for path in made:
            self._out.write(dumpstream.directory(path))
        self._files(written, nothing)

    def _files(self, written: list[Change], nothing: tuple[bytes, bytes]) -> None:
        fresh = [
            c for c in written if c.old_mode in nothing or c.old_blob != c.new_blob
            or SYMLINK in (c.old_mode, c.new_mode)
        ]  # fmt: skip
        texts = self._objects.read([c.new_blob for c in fresh])
        wanted = {id(c) for c in fresh}
        for change in written:
            text = next(texts) if id(change) in wanted else None
            if change.new_mode == SYMLINK:
                text = b"link " + (text or b"")
            new = change.old_mode in nothing
            properties = node_properties(change.new_mode)
            unchanged = not new and properties == node_properties(change.old_mode)
            action = b"add" if new else b"change"
            self._out.write(
                dumpstream.file(
                    self._path(change.path), action, text,
                    properties=None if unchanged else properties,
                )
            )  # fmt: skip

    def facts(self, notes: list[str]) -> Facts:
        """What was written, after the last revision."""
        notes = list(notes)
        if self._submodules:
            notes.append(f"{len(self._submodules)} submodules were left out.")
        if self._escaped:
            notes.append(
                f"{len(self._escaped)} paths that Subversion refuses (control characters, not "
                "UTF-8) were escaped, as in ?\\010."
            )
        if self._late:
            notes.append(
                f"{self._late} commits dated before the one that they follow got its date, because "
                "Subversion looks revisions up by date."
            )
        return Facts(revisions=self._number, notes=notes)

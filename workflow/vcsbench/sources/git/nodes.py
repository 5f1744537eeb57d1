"""The changes of one commit as nodes of a revision."""

from __future__ import annotations

from collections import defaultdict
from typing import BinaryIO, NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.sources import dumpstream
from vcsbench.sources.git.changes import ABSENT, EXECUTABLE, FOLDER, SUBMODULE, SYMLINK, Change
from vcsbench.sources.git.objects import Content, Objects
from vcsbench.sources.git.tree import check_path, link_target
from vcsbench.sources.names import reasons, subversion_path

# What Subversion has for git's modes.
PROPERTIES = {SYMLINK: {b"svn:special": b"*"}, EXECUTABLE: {b"svn:executable": b"*"}}
# Modes of what has no node.
NOTHING = (ABSENT, SUBMODULE)
# A larger blob is passed on in pieces, without its checksum, which would have to come first.
LARGE_BLOB = 16 << 20


class Node(NamedTuple):
    """A file's record but for its text, as dumpstream.file() takes it."""

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
        name = subversion_path(path)
        if name != path:
            for reason in reasons(path):
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
                self._out.write(dumpstream.deletion(self._path(line, path)))

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
            self._out.write(dumpstream.directory(self._path(line, change.path), origin=copyfrom))
        return copied

    def _copyfrom(self, change: Change, origin: tuple[bytes, int]) -> bytes:
        return dumpstream.copyfrom(self._path(origin[0], change.source), origin[1])

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
                self._out.write(dumpstream.file(*node))
            elif change.new_mode == SYMLINK:
                self._symlink(node, next(contents).whole())
            else:
                self._text(node, next(contents))
        for _ in contents:  # the last answer's end
            pass

    def _text(self, node: Node, content: Content) -> None:
        if content.size <= LARGE_BLOB:
            self._out.write(dumpstream.file(*node, text=content.whole()))
            return
        self._out.write(dumpstream.file_head(*node, text_length=content.size))
        for chunk in content.chunks():
            self._out.write(chunk)
        self._out.write(b"\n\n")

    def _symlink(self, node: Node, target: bytes) -> None:
        escaped = link_target(target)
        if escaped is not None:
            if escaped != target:
                self.targets.add(target)
            self._out.write(dumpstream.file(*node, text=b"link " + escaped))
        else:  # no system can make this link: every export would fail
            self.impossible.add(target)
            self._out.write(dumpstream.file(*node._replace(properties={}), text=target))


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
    return bool(folders) and not folders.isdisjoint(dumpstream.above(path))

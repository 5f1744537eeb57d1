"""The changes of trunk: edits, additions, deletions, copies, moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from vcsbench.sources import dumpstream
from vcsbench.sources.generated.edits import JOURNAL, Editor
from vcsbench.sources.generated.profile import FileKind, Profile
from vcsbench.sources.generated.quantiles import pick
from vcsbench.sources.generated.tree import Directory, File, Tree

# Of the new files, those whose place among the often changed ones follows from their size: changed
# files are, in the mean, two to four times as large as files are.
HEAT_BY_SIZE = 0.3
# No file is larger than this part of the tree, so that a small tree is not one file's; nor than
# so many bytes, which bounds the memory that its text takes.
LARGEST_SHARE = 0.04
LARGEST_FILE = 4 << 20
# So many files behind the growth law are caught up with by one import, and at most so many.
IMPORT_BEHIND = 30
IMPORT_AT_MOST = 400
IMPORT_SHARE = 0.05


class Trunk:
    """Trunk and its growth: each change() steers towards the size that it is given."""

    def __init__(
        self, profile: Profile, kinds: Sequence[FileKind], path: bytes, editor: Editor, rng: Random
    ) -> None:
        self.profile = profile
        self._kinds = kinds
        self.tree = Tree(path)
        self.journal: File | None = None
        self._editor = editor
        self._rng = rng
        self._number = 0
        self._touched: set[File] = set()  # in this revision
        self._grown = 0.0
        shape = sum(kind.share * kind.size for kind in kinds) * profile.file_bytes.mean()
        self._mean_size = profile.tree_bytes / profile.tree_files
        self._size_factor = self._mean_size / shape

    def start(self, grown: float) -> Iterator[bytes]:
        """The import of the first files."""
        self._grown = grown
        if self.profile.journal:
            text = self._editor.fresh(JOURNAL, self.journal_limit() // 2)
            self.journal = File(self.profile.journal, self.tree.root, JOURNAL, text)
            yield self._added(self.journal, 0.0, {b"svn:eol-style": b"native"})
        while self._missing() >= 1:
            yield from self._new_file()

    def change(self, grown: float, number: int) -> Iterator[bytes]:
        """One commit to trunk, revision `number`, that brings it towards `grown` of its size."""
        shares, rng = self.profile.shares, self._rng
        self._grown, self._number = grown, number
        self._touched = {self.journal} if self.journal else set()
        if self.journal and rng.random() < shares.journal:
            self.tree.change(self.journal, self._editor.enter(self.journal, self.journal_limit()))
            yield self._editor.changed(self.journal)
        kind = rng.random()
        if kind < shares.directory:
            yield from self._change_directory()
        elif kind < shares.directory + shares.rewrite:
            for file in self.tree.files:  # a program writes all its files anew
                if 0 < file.kind.churn < 1:
                    yield self._edited(file)
        elif self._missing() > IMPORT_BEHIND and rng.random() < IMPORT_SHARE:
            for _ in range(min(int(self._missing()), IMPORT_AT_MOST)):
                yield from self._new_file()
        else:
            # Whole-tree sweeps stay below half of a small tree.
            for _ in range(min(self.profile.paths.draw(rng), 1 + len(self.tree.files) // 2)):
                yield from self._change_path()

    def journal_limit(self) -> int:
        """The size at which the journal is cut in half: its median lies at three quarters."""
        return 2000 + int(self.profile.journal_bytes * self._grown * 4 / 3)

    def _excess(self) -> float:
        """How far its files are too large in the mean, from -1 (a twentieth too small) to 1."""
        share = self.tree.size / (self._mean_size * (len(self.tree.files) + 1))
        return max(-1.0, min(1.0, 20 * (share - 1)))

    def _missing(self) -> float:
        return self._grown * self.profile.tree_files - len(self.tree.files)

    def _change_path(self) -> Iterator[bytes]:
        shares, rng, tree = self.profile.shares, self._rng, self.tree
        kind = rng.random() - shares.add
        if kind < 0 and self._missing() >= 1:
            yield from self._new_file()
            return
        file = tree.pick_hot(rng, self.profile.heat)
        if file in self._touched:
            return
        if kind < 0 or kind > shares.delete + shares.move + shares.copy:
            self._touched.add(file)
            yield self._edited(file)
        elif (file := pick(rng, tree.files)) not in self._touched:
            self._touched.add(file)
            if kind >= shares.delete:
                yield self._copied(file)
            if kind < shares.delete + shares.move:
                yield dumpstream.deletion(file.path())
                tree.remove(file)

    def _edited(self, file: File) -> bytes:
        self.tree.change(file, self._editor.edit(file, self._excess()))
        return self._editor.changed(file)

    def _added(self, file: File, heat: float, properties: dict[bytes, bytes]) -> bytes:
        self.tree.add(file, heat)
        text = self._editor.text(file.kind, file.pieces)
        return dumpstream.file(file.path(), b"add", properties=properties, text=text)

    def _new_file(self) -> Iterator[bytes]:
        rng, profile = self._rng, self.profile
        directory, made = self._directory_for_new()
        if made:
            yield dumpstream.directory(directory.path())
        kind = self._file_kind()
        share = rng.random()
        size = self._size_factor * kind.size * profile.file_bytes.at(share)
        largest = min(LARGEST_FILE, LARGEST_SHARE * self._grown * profile.tree_bytes)
        text = self._editor.fresh(kind, int(min(size * (1 - 0.6 * self._excess()), largest)))
        file = File(directory.new_name(rng, kind.extension), directory, kind, text)
        self._touched.add(file)
        yield self._added(file, self._heat(kind, share), self._properties(kind))

    def _heat(self, kind: FileKind, share: float) -> float:
        """The heat of a file; `share` is how many files are smaller."""
        if kind.heat is not None:
            return kind.heat
        return share if self._rng.random() < HEAT_BY_SIZE else self._rng.random()

    def _properties(self, kind: FileKind) -> dict[bytes, bytes]:
        if kind.pool == "bytes":
            return {b"svn:mime-type": b"application/octet-stream"}
        executable = self._rng.random() < kind.executable
        style = self.profile.eol_style
        ends = {b"svn:eol-style": style} if style else {}
        return ends | ({b"svn:executable": b"*"} if executable else {})

    def _file_kind(self) -> FileKind:
        share = self._rng.random()
        for kind in self._kinds:
            share -= kind.share
            if share < 0:
                return kind
        return self._kinds[-1]

    def _directory_for_new(self) -> tuple[Directory, bool]:
        """Where the next file goes, and whether that directory is a new one itself."""
        rng, tree = self._rng, self.tree
        near = pick(rng, tree.directories)
        if tree.files and rng.random() < 0.5:  # large directories grow more than small ones
            near = pick(rng, tree.files).directory
        profile = self.profile
        if rng.random() < profile.new_directories and near.depth() < profile.deepest:
            return tree.make_directory(near.new_name(rng), near), True
        return near, False

    def _copied(self, file: File) -> bytes:
        origin = dumpstream.copyfrom(file.path(), self._number - 1)
        name = file.directory.new_name(self._rng, file.kind.extension)
        copy = File(name, file.directory, file.kind, file.pieces)
        self.tree.add(copy, self._rng.random())
        self._touched.add(copy)
        return dumpstream.file(copy.path(), b"add", origin=origin)

    def _change_directory(self) -> Iterator[bytes]:
        """Move a directory, or delete one; neither when it is a great part of the tree."""
        rng, tree = self._rng, self.tree
        directory = pick(rng, tree.directories)
        parent = directory.parent
        if parent is None or directory.count() > len(tree.files) // 50:
            return
        before = directory.path()
        if rng.random() < 0.5:
            tree.remove_directory(directory)
        else:
            tree.move_directory(directory, parent.new_name(rng))
            origin = dumpstream.copyfrom(before, self._number - 1)
            yield dumpstream.directory(directory.path(), origin=origin)
        yield dumpstream.deletion(before)

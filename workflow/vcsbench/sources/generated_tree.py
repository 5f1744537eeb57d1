"""The trunk and the branches of a generated project: trees whose files change at random, within limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from random import Random

from vcsbench.sources import dump_format
from vcsbench.sources.generated_profiles import FileKind, Profile, Quantiles
from vcsbench.sources.generated_text import NOUNS, VERBS, Editor, Pieces, noun, pick, size_of

# The first import of a project has the files of this number of revisions.
IMPORTED_REVISIONS = 100
# Only a sample of the files of a branch changes.
BRANCH_FILES = 48
# Share of new files whose frequency of changes follows from their size: large files change more often.
HEAT_BY_SIZE = 0.3
# Limits of a file: share of a tree, and bytes, because texts take memory.
LARGEST_SHARE = 0.04
LARGEST_FILE = 4 << 20
# If more files than this are missing from the law of growth, an import adds them.
IMPORT_BEHIND = 30
IMPORT_AT_MOST = 400
IMPORT_SHARE = 0.05
JOURNAL = FileKind(0, b"", "prose")


@dataclass(slots=True, eq=False)
class Directory:
    """A directory. A move is cheap, because its path follows from its parents."""

    name: bytes
    parent: Directory | None
    directories: dict[bytes, Directory] = field(default_factory=dict)
    files: dict[bytes, GeneratedFile] = field(default_factory=dict)

    def path(self) -> bytes:
        """Return the path from the root of the repository."""
        return self.name if self.parent is None else self.parent.path() + b"/" + self.name

    def depth(self) -> int:
        """Return the number of directories above it."""
        return 0 if self.parent is None else self.parent.depth() + 1

    def count(self) -> int:
        """Return the number of files below it."""
        return len(self.files) + sum(child.count() for child in self.directories.values())

    def new_name(self, rng: Random, extension: bytes = b"") -> bytes:
        """Return a random name that is free in it."""
        stem = noun(rng)
        while (name := stem + extension) in self.files or name in self.directories:
            words = NOUNS if rng.random() < 0.6 else VERBS
            stem += b"_" + pick(rng, words).encode("ascii")
        return name


@dataclass(slots=True, eq=False)
class GeneratedFile:
    """A file with its text; `index` is its position in the tree's list."""

    name: bytes
    directory: Directory
    kind: FileKind
    pieces: Pieces
    index: int = -1

    def path(self) -> bytes:
        """Return the path from the root of the repository."""
        return self.directory.path() + b"/" + self.name


class GeneratedTree:
    """The directories and files of a trunk. Files at the start of `files` change most often."""

    def __init__(self, root: bytes) -> None:
        self.root = Directory(root, None)
        self.files: list[GeneratedFile] = []
        self.directories: list[Directory] = [self.root]
        self.size = 0

    def add(self, file: GeneratedFile, heat: float) -> None:
        """Add a file; `heat` is the share of the files that change less often."""
        file.directory.files[file.name] = file
        self.files.append(file)
        file.index = int((1 - heat) * (len(self.files) - 1))
        moved = self.files[file.index]
        moved.index = len(self.files) - 1
        self.files[moved.index] = moved
        self.files[file.index] = file
        self.size += size_of(file.pieces)

    def remove(self, file: GeneratedFile) -> None:
        """Remove a file."""
        del file.directory.files[file.name]
        last = self.files.pop()
        if last is not file:
            last.index = file.index
            self.files[file.index] = last
        self.size -= size_of(file.pieces)

    def change(self, file: GeneratedFile, pieces: Pieces) -> None:
        """Replace the text of a file."""
        self.size += size_of(pieces) - size_of(file.pieces)
        file.pieces = pieces

    def make_directory(self, name: bytes, parent: Directory) -> Directory:
        """Add an empty directory."""
        directory = parent.directories[name] = Directory(name, parent)
        self.directories.append(directory)
        return directory

    def forget_directory(self, directory: Directory) -> None:
        """Remove the content of a directory, and the directory from the list."""
        for file in list(directory.files.values()):
            self.remove(file)
        for child in directory.directories.values():
            self.forget_directory(child)
        self.directories.remove(directory)

    def pick_hot(self, rng: Random, heat: Quantiles) -> GeneratedFile:
        """Return a random file, more likely one that changes often."""
        return self.files[int(heat.value(rng) * len(self.files))]


def growth(profile: Profile, age: int) -> float:
    """Return the part of trunk's final size after `age` revisions.

    That is the square root of the part of the history, so that a scaled repository is the beginning of the
    whole one. Trunk grows linearly if its import has nearly all of it.
    """
    if profile.imported:
        return min(1.0, profile.imported + (1 - profile.imported) * age / profile.revisions)
    return sqrt(min(1.0, max(age, IMPORTED_REVISIONS) / profile.revisions))


class Trunk:
    """A trunk whose changes steer towards the size that the law of growth gives."""

    def __init__(
        self, profile: Profile, kinds: Sequence[FileKind], path: bytes, editor: Editor, rng: Random
    ) -> None:
        self.profile = profile
        self._kinds = kinds
        self.tree = GeneratedTree(path)
        self.journal: GeneratedFile | None = None
        self._editor = editor
        self._rng = rng
        self._number = 0
        self._touched: set[GeneratedFile] = set()  # in this revision
        self._grown = 0.0
        mean_size = sum(kind.share * kind.size for kind in kinds) * profile.file_bytes.mean()
        self._mean_size = profile.tree_bytes / profile.tree_files
        self._size_factor = self._mean_size / mean_size

    def start(self, grown: float) -> Iterator[bytes]:
        """Yield the records of the first import."""
        self._grown = grown
        if self.profile.journal:
            pieces = self._editor.create(JOURNAL, self.journal_limit() // 2)
            self.journal = GeneratedFile(self.profile.journal, self.tree.root, JOURNAL, pieces)
            yield self._add(self.journal, 0.0, {b"svn:eol-style": b"native"})
        while self._missing() >= 1:
            yield from self._new_file()

    def change(self, grown: float, number: int) -> Iterator[bytes]:
        """Yield the records of revision `number`, which steers towards `grown` of the final size."""
        shares, rng = self.profile.shares, self._rng
        self._grown, self._number = grown, number
        self._touched = {self.journal} if self.journal else set()
        if self.journal and rng.random() < shares.journal:
            pieces = self._editor.add_entry(self.journal.pieces, self.journal_limit())
            self.tree.change(self.journal, pieces)
            yield self.record(self.journal)
        kind = rng.random()
        if kind < shares.directory:
            yield from self._change_directory()
        elif kind < shares.directory + shares.rewrite:
            for file in self.tree.files:
                if 0 < file.kind.churn < 1:
                    yield self._edit(file)
        elif self._missing() > IMPORT_BEHIND and rng.random() < IMPORT_SHARE:
            for _ in range(min(int(self._missing()), IMPORT_AT_MOST)):
                yield from self._new_file()
        else:
            # Changes of the whole tree stay below half of a small tree.
            for _ in range(min(self.profile.paths.draw(rng), 1 + len(self.tree.files) // 2)):
                yield from self._change_path()

    def record(self, file: GeneratedFile) -> bytes:
        """Return the record of a changed file."""
        text = self._editor.text(file.kind, file.pieces)
        return dump_format.file(file.path(), b"change", text=text)

    def journal_limit(self) -> int:
        """Return the size at which the journal is cut in half. Its median is three quarters of that."""
        return 2000 + int(self.profile.journal_bytes * self._grown * 4 / 3)

    def _excess(self) -> float:
        """Return from -1 to 1 if the mean file is up to a twentieth too small or too large."""
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
            yield self._edit(file)
        elif (file := pick(rng, tree.files)) not in self._touched:
            self._touched.add(file)
            if kind >= shares.delete:
                yield self._copy(file)
            if kind < shares.delete + shares.move:
                yield dump_format.deletion(file.path())
                tree.remove(file)

    def _edit(self, file: GeneratedFile) -> bytes:
        self.tree.change(file, self._editor.edit(file.kind, file.pieces, self._excess()))
        return self.record(file)

    def _add(self, file: GeneratedFile, heat: float, properties: dict[bytes, bytes]) -> bytes:
        self.tree.add(file, heat)
        text = self._editor.text(file.kind, file.pieces)
        return dump_format.file(file.path(), b"add", properties=properties, text=text)

    def _new_file(self) -> Iterator[bytes]:
        rng, profile = self._rng, self.profile
        directory, is_new = self._directory_for_new_file()
        if is_new:
            yield dump_format.directory(directory.path())
        kind = self._random_kind()
        share = rng.random()
        size = self._size_factor * kind.size * profile.file_bytes.at(share)
        largest = min(LARGEST_FILE, LARGEST_SHARE * self._grown * profile.tree_bytes)
        pieces = self._editor.create(kind, int(min(size * (1 - 0.6 * self._excess()), largest)))
        file = GeneratedFile(directory.new_name(rng, kind.extension), directory, kind, pieces)
        self._touched.add(file)
        heat = kind.heat
        if heat is None:
            heat = share if rng.random() < HEAT_BY_SIZE else rng.random()
        yield self._add(file, heat, self._properties(kind))

    def _properties(self, kind: FileKind) -> dict[bytes, bytes]:
        if kind.pool == "bytes":
            return {b"svn:mime-type": b"application/octet-stream"}
        style = self.profile.eol_style
        properties = {b"svn:eol-style": style} if style else {}
        if self._rng.random() < kind.executable:
            properties[b"svn:executable"] = b"*"
        return properties

    def _random_kind(self) -> FileKind:
        share = self._rng.random()
        for kind in self._kinds:
            share -= kind.share
            if share < 0:
                return kind
        return self._kinds[-1]

    def _directory_for_new_file(self) -> tuple[Directory, bool]:
        """Return a directory, and True if it is new."""
        rng, tree, profile = self._rng, self.tree, self.profile
        near = pick(rng, tree.directories)
        if tree.files and rng.random() < 0.5:  # large directories grow more than small ones
            near = pick(rng, tree.files).directory
        if rng.random() < profile.new_directories and near.depth() < profile.deepest:
            return tree.make_directory(near.new_name(rng), near), True
        return near, False

    def _copy(self, file: GeneratedFile) -> bytes:
        origin = dump_format.copyfrom(file.path(), self._number - 1)
        name = file.directory.new_name(self._rng, file.kind.extension)
        copy = GeneratedFile(name, file.directory, file.kind, file.pieces)
        self.tree.add(copy, self._rng.random())
        self._touched.add(copy)
        return dump_format.file(copy.path(), b"add", origin=origin)

    def _change_directory(self) -> Iterator[bytes]:
        """Move or delete a directory, unless it is a large part of the tree."""
        rng, tree = self._rng, self.tree
        directory = pick(rng, tree.directories)
        parent = directory.parent
        if parent is None or directory.count() > len(tree.files) // 50:
            return
        before = directory.path()
        is_deletion = rng.random() < 0.5
        name = directory.name if is_deletion else parent.new_name(rng)
        del parent.directories[directory.name]
        if is_deletion:
            tree.forget_directory(directory)
        else:
            directory.name = name
            parent.directories[name] = directory
            origin = dump_format.copyfrom(before, self._number - 1)
            yield dump_format.directory(directory.path(), origin=origin)
        yield dump_format.deletion(before)


class Branch:
    """A copy of trunk with the files that change on it."""

    def __init__(self, path: bytes, trunk: Trunk, rng: Random) -> None:
        self.path = path
        picks = (trunk.tree.pick_hot(rng, trunk.profile.heat) for _ in range(BRANCH_FILES))
        files = dict.fromkeys(file for file in picks if file is not trunk.journal)
        root = Directory(path, None)
        below = len(trunk.tree.root.name) + 1

        def copy(file: GeneratedFile) -> GeneratedFile:
            return GeneratedFile(file.path()[below:], root, file.kind, file.pieces)

        self.files = [copy(file) for file in files]
        self.journal = copy(trunk.journal) if trunk.journal else None

"""A generated project: a trunk whose files change at random, within limits, with branches and tags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import sqrt
from random import Random

from vcsbench.sources import dump_format
from vcsbench.sources.generated_profiles import FileKind, Profile, ProjectLayout
from vcsbench.sources.generated_text import (
    NOUNS,
    VERBS,
    Editor,
    Pieces,
    noun,
    pick,
    ranked,
    text_size,
)

LIVE_BRANCHES = 5
BRANCH_FILES = 48
IMPORTED_REVISIONS = 100
HEAT_BY_SIZE = 0.3
# Share of a tree, and bytes, because texts take memory.
LARGEST_SHARE = 0.04
LARGEST_FILE = 4 << 20
IMPORT_BEHIND = 30
IMPORT_AT_MOST = 400
IMPORT_SHARE = 0.05
JOURNAL = FileKind(0, b"", "prose")


@dataclass(slots=True, eq=False)
class Directory:
    """A directory. A move is cheap, because its path follows from its parents."""

    name: bytes
    parent: Directory | None = None
    directories: dict[bytes, Directory] = field(default_factory=dict)
    files: dict[bytes, GeneratedFile] = field(default_factory=dict)

    def path(self) -> bytes:
        return self.name if self.parent is None else self.parent.path() + b"/" + self.name

    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth() + 1

    def count(self) -> int:
        return len(self.files) + sum(child.count() for child in self.directories.values())

    def new_name(self, rng: Random, extension: bytes = b"") -> bytes:
        stem = noun(rng)
        while (name := stem + extension) in self.files or name in self.directories:
            words = NOUNS if rng.random() < 0.6 else VERBS
            stem += b"_" + pick(rng, words).encode("ascii")
        return name


@dataclass(slots=True, eq=False)
class GeneratedFile:
    """A file with its text; `index` is its position in the project's list."""

    name: bytes
    directory: Directory
    kind: FileKind
    pieces: Pieces
    index: int = -1

    def path(self) -> bytes:
        return self.directory.path() + b"/" + self.name


@dataclass(frozen=True)
class Branch:
    """A copy of trunk with the files that change on it."""

    path: bytes
    files: list[GeneratedFile]
    journal: GeneratedFile | None


def growth(profile: Profile, age: int) -> float:
    """Return the part of trunk's final size after `age` revisions.

    It is the square root of the part of the history: a scaled repository is the beginning of the whole one.
    Trunk grows linearly if its import has nearly all of it.
    """
    if profile.imported:
        return min(1.0, profile.imported + (1 - profile.imported) * age / profile.revisions)
    return sqrt(min(1.0, max(age, IMPORTED_REVISIONS) / profile.revisions))


class GeneratedProject:
    """A trunk with its branches and tags; changes of trunk steer towards the size of the law of growth.

    `first` is the revision in which it begins. `files`, `directories` and `size` (bytes) are trunk's; the
    first files change most often.
    """

    def __init__(
        self, profile: Profile, layout: ProjectLayout, editor: Editor, rng: Random, first: int
    ) -> None:
        self._profile = profile
        self._layout = layout
        self._editor = editor
        self._rng = rng
        self._first = first
        self._kinds = profile.kinds if first == 1 else profile.other_kinds
        self._root = Directory(layout.trunk)
        self.directories = [self._root]
        self.files: list[GeneratedFile] = []
        self.size = 0
        self._journal: GeneratedFile | None = None
        self._branches: list[Branch] = []
        self._names = 0
        self._number = 0
        self._touched: set[GeneratedFile] = set()
        self._grown = 0.0
        mean_size = sum(kind.share * kind.size for kind in self._kinds) * profile.file_bytes.mean()
        self._mean_size = profile.tree_bytes / profile.tree_files
        self._size_factor = self._mean_size / mean_size

    def make_layout(self) -> Iterator[bytes]:
        paths = (self._layout.trunk, *self._layout.branches, *self._layout.tags)
        folders = dict.fromkeys(d for path in paths for d in (*dump_format.above(path), path))
        return map(dump_format.directory, folders)

    def start(self, number: int) -> Iterator[bytes]:
        self._grown = growth(self._profile, number - self._first)
        if self._profile.journal:
            pieces = self._editor.create(JOURNAL.pool, self._journal_limit() // 2)
            self._journal = GeneratedFile(self._profile.journal, self._root, JOURNAL, pieces)
            yield self._add(self._journal, 0.0, {b"svn:eol-style": b"native"})
        while self._missing() >= 1:
            yield from self._new_file()

    def change(self, number: int) -> Iterator[bytes]:
        shares, rng, layout = self._profile.shares, self._rng, self._layout
        kind = rng.random()
        if kind < shares.new_branch or not self._branches:
            path = self._new_path(layout.branches)
            self._branches.append(self._branch(path))
            del self._branches[:-LIVE_BRANCHES]
            yield dump_format.directory(path, dump_format.copyfrom(layout.trunk, number - 1))
        elif kind < shares.new_branch + shares.new_tag:
            path = self._new_path(layout.tags)
            origin = dump_format.copyfrom(pick(rng, self._branches).path, number - 1)
            yield dump_format.directory(path, origin)
        elif kind < shares.new_branch + shares.new_tag + shares.branch:
            yield from self._change_branch()
        else:
            self._grown, self._number = growth(self._profile, number - self._first), number
            yield from self._change_trunk()

    def _new_path(self, folders: tuple[bytes, ...]) -> bytes:
        self._names += 1
        return b"%s/%s_%d" % (folders[self._names % len(folders)], noun(self._rng), self._names)

    def _branch(self, path: bytes) -> Branch:
        files = dict.fromkeys(self._hot_file() for _ in range(BRANCH_FILES))
        root, below = Directory(path), len(self._root.name) + 1

        def copy(file: GeneratedFile) -> GeneratedFile:
            return GeneratedFile(file.path()[below:], root, file.kind, file.pieces)

        journal = copy(self._journal) if self._journal else None
        return Branch(path, [copy(file) for file in files if file is not self._journal], journal)

    def _change_branch(self) -> Iterator[bytes]:
        rng, editor = self._rng, self._editor
        branch = pick(rng, self._branches)
        if (journal := branch.journal) and rng.random() < self._profile.shares.journal:
            journal.pieces = editor.add_entry(journal.pieces, self._journal_limit())
            yield self._record(journal)
        count = min(self._profile.paths.draw(rng), len(branch.files))
        for i in sorted({ranked(rng, len(branch.files), 2) for _ in range(count)}):
            file = branch.files[i]
            file.pieces = editor.edit(file.kind, file.pieces)
            yield self._record(file)

    def _change_trunk(self) -> Iterator[bytes]:
        shares, rng, journal = self._profile.shares, self._rng, self._journal
        self._touched = {journal} if journal else set()
        if journal and rng.random() < shares.journal:
            pieces = self._editor.add_entry(journal.pieces, self._journal_limit())
            yield self._replace_text(journal, pieces)
        kind = rng.random()
        if kind < shares.directory:
            yield from self._change_directory()
        elif kind < shares.directory + shares.rewrite:
            for file in self.files:
                if 0 < file.kind.churn < 1:
                    yield self._edit(file)
        elif self._missing() > IMPORT_BEHIND and rng.random() < IMPORT_SHARE:
            for _ in range(min(int(self._missing()), IMPORT_AT_MOST)):
                yield from self._new_file()
        else:
            for _ in range(min(self._profile.paths.draw(rng), 1 + len(self.files) // 2)):
                yield from self._change_path()

    def _change_path(self) -> Iterator[bytes]:
        shares, rng = self._profile.shares, self._rng
        kind = rng.random() - shares.add
        if kind < 0 and self._missing() >= 1:
            yield from self._new_file()
            return
        file = self._hot_file()
        if file in self._touched:
            return
        if kind < 0 or kind > shares.delete + shares.move + shares.copy:
            self._touched.add(file)
            yield self._edit(file)
        elif (file := pick(rng, self.files)) not in self._touched:
            self._touched.add(file)
            if kind >= shares.delete:
                yield self._copy(file)
            if kind < shares.delete + shares.move:
                yield dump_format.deletion(file.path())
                self._remove(file)

    def _change_directory(self) -> Iterator[bytes]:
        rng = self._rng
        directory = pick(rng, self.directories)
        parent = directory.parent
        if parent is None or directory.count() > len(self.files) // 50:
            return
        before = directory.path()
        is_deletion = rng.random() < 0.5
        name = directory.name if is_deletion else parent.new_name(rng)
        del parent.directories[directory.name]
        if is_deletion:
            self._forget_directory(directory)
        else:
            directory.name = name
            parent.directories[name] = directory
            origin = dump_format.copyfrom(before, self._number - 1)
            yield dump_format.directory(directory.path(), origin)
        yield dump_format.deletion(before)

    def _forget_directory(self, directory: Directory) -> None:
        for file in list(directory.files.values()):
            self._remove(file)
        for child in directory.directories.values():
            self._forget_directory(child)
        self.directories.remove(directory)

    def _new_file(self) -> Iterator[bytes]:
        rng, profile = self._rng, self._profile
        directory = pick(rng, self.directories)
        if self.files and rng.random() < 0.5:
            directory = pick(rng, self.files).directory
        if rng.random() < profile.new_directories and directory.depth() < profile.deepest:
            new = Directory(directory.new_name(rng), directory)
            directory.directories[new.name] = new
            self.directories.append(new)
            directory = new
            yield dump_format.directory(directory.path())
        kind = self._random_kind()
        share = rng.random()
        size = self._size_factor * kind.size * profile.file_bytes.at(share)
        largest = min(LARGEST_FILE, LARGEST_SHARE * self._grown * profile.tree_bytes)
        size = min(size * (1 - 0.6 * self._excess()), largest)
        pieces = self._editor.create(kind.pool, int(size))
        file = GeneratedFile(directory.new_name(rng, kind.extension), directory, kind, pieces)
        self._touched.add(file)
        heat = kind.heat
        if heat is None:
            heat = share if rng.random() < HEAT_BY_SIZE else rng.random()
        properties = {b"svn:eol-style": profile.eol_style} if profile.eol_style else {}
        if kind.pool == "bytes":
            properties = {b"svn:mime-type": b"application/octet-stream"}
        elif rng.random() < kind.executable:
            properties[b"svn:executable"] = b"*"
        yield self._add(file, heat, properties)

    def _random_kind(self) -> FileKind:
        share = self._rng.random()
        for kind in self._kinds:
            share -= kind.share
            if share < 0:
                return kind
        return self._kinds[-1]

    def _hot_file(self) -> GeneratedFile:
        return self.files[int(self._profile.heat.value(self._rng) * len(self.files))]

    def _edit(self, file: GeneratedFile) -> bytes:
        pieces = self._editor.edit(file.kind, file.pieces, self._excess())
        return self._replace_text(file, pieces)

    def _replace_text(self, file: GeneratedFile, pieces: Pieces) -> bytes:
        self.size += text_size(pieces) - text_size(file.pieces)
        file.pieces = pieces
        return self._record(file)

    def _record(self, file: GeneratedFile) -> bytes:
        text = self._editor.text(file.kind.pool, file.pieces)
        return dump_format.file(file.path(), b"change", text=text)

    def _add(self, file: GeneratedFile, heat: float, properties: dict[bytes, bytes]) -> bytes:
        self._insert(file, heat)
        text = self._editor.text(file.kind.pool, file.pieces)
        return dump_format.file(file.path(), b"add", properties=properties, text=text)

    def _copy(self, file: GeneratedFile) -> bytes:
        origin = dump_format.copyfrom(file.path(), self._number - 1)
        name = file.directory.new_name(self._rng, file.kind.extension)
        copy = GeneratedFile(name, file.directory, file.kind, file.pieces)
        self._insert(copy, self._rng.random())
        self._touched.add(copy)
        return dump_format.file(copy.path(), b"add", origin=origin)

    def _insert(self, file: GeneratedFile, heat: float) -> None:
        file.directory.files[file.name] = file
        self.files.append(file)
        file.index = int((1 - heat) * (len(self.files) - 1))
        moved = self.files[file.index]
        moved.index = len(self.files) - 1
        self.files[moved.index] = moved
        self.files[file.index] = file
        self.size += text_size(file.pieces)

    def _remove(self, file: GeneratedFile) -> None:
        del file.directory.files[file.name]
        last = self.files.pop()
        if last is not file:
            last.index = file.index
            self.files[file.index] = last
        self.size -= text_size(file.pieces)

    def _journal_limit(self) -> int:
        return 2000 + int(self._profile.journal_bytes * self._grown * 4 / 3)

    def _excess(self) -> float:
        """Return from -1 to 1 if the mean file is up to a twentieth too small or too large."""
        share = self.size / (self._mean_size * (len(self.files) + 1))
        return max(-1.0, min(1.0, 20 * (share - 1)))

    def _missing(self) -> float:
        return self._grown * self._profile.tree_files - len(self.files)

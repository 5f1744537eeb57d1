"""A generated project: a trunk whose files change at random, within limits, with branches and tags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from random import Random

from vcsbench.sources import dump_format
from vcsbench.sources.generated_profiles import FileKind, Profile, ProjectLayout
from vcsbench.sources.generated_text import NOUNS, VERBS, Pool, Text, noun, pick, ranked

LIVE_BRANCHES = 5
BRANCH_FILES = 48
IMPORTED_REVISIONS = 100
HEAT_BY_SIZE = 0.3
# Share of a tree, and bytes, because texts take memory.
LARGEST_SHARE = 0.04
LARGEST_FILE = 4 << 20
# An import adds the missing files; this share of the commits is one if so many are missing.
IMPORT_SHARE, IMPORT_BEHIND, IMPORT_AT_MOST = 0.05, 30, 400
JOURNAL = FileKind(0, b"", "prose")


@dataclass(slots=True, eq=False)
class GeneratedFile:
    """A file of a trunk or branch."""

    path: bytes
    kind: FileKind
    text: Text

    def directory(self) -> bytes:
        return self.path.rpartition(b"/")[0]

    def copy(self, path: bytes) -> GeneratedFile:
        return GeneratedFile(path, self.kind, self.text.copy())

    def add(self, properties: dict[bytes, bytes]) -> bytes:
        text = self.text.content()
        return dump_format.file(self.path, b"add", properties=properties, text=text)

    def change(self) -> bytes:
        return dump_format.file(self.path, b"change", text=self.text.content())


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
    first files change most often. The journal is not one of them.
    """

    def __init__(
        self,
        profile: Profile,
        layout: ProjectLayout,
        pools: dict[str, Pool],
        rng: Random,
        first: int,
    ) -> None:
        self._profile = profile
        self._layout = layout
        self._pools = pools
        self._rng = rng
        self._first = first
        self._kinds = profile.kinds if first == 1 else profile.other_kinds
        self.directories = [layout.trunk]
        self.files: list[GeneratedFile] = []
        self.size = 0
        self._paths: set[bytes] = set()
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
        if name := self._profile.journal:
            path = self._layout.trunk + b"/" + name
            text = Text.create(self._rng, self._pools["prose"], self._journal_limit() // 2)
            self._journal = GeneratedFile(path, JOURNAL, text)
            self._paths.add(path)
            self.size += text.size
            yield self._journal.add({b"svn:eol-style": b"native"})
        while self._missing() >= 1:
            yield from self._new_file()

    def change(self, number: int) -> Iterator[bytes]:
        shares, rng, layout = self._profile.shares, self._rng, self._layout
        kind = rng.random()
        if kind < shares.new_branch or not self._branches:
            path = self._new_copy(layout.branches)
            self._branches.append(self._branch(path))
            del self._branches[:-LIVE_BRANCHES]
            yield dump_format.directory(path, dump_format.copyfrom(layout.trunk, number - 1))
        elif kind < shares.new_branch + shares.new_tag:
            origin = dump_format.copyfrom(pick(rng, self._branches).path, number - 1)
            yield dump_format.directory(self._new_copy(layout.tags), origin)
        elif kind < shares.new_branch + shares.new_tag + shares.branch:
            yield from self._change_branch()
        else:
            self._grown, self._number = growth(self._profile, number - self._first), number
            yield from self._change_trunk()

    def _new_copy(self, folders: tuple[bytes, ...]) -> bytes:
        self._names += 1
        return b"%s/%s_%d" % (folders[self._names % len(folders)], noun(self._rng), self._names)

    def _branch(self, path: bytes) -> Branch:
        def copy(file: GeneratedFile) -> GeneratedFile:
            return file.copy(path + file.path.removeprefix(self._layout.trunk))

        files = dict.fromkeys(self._hot_file() for _ in range(BRANCH_FILES))
        return Branch(path, [*map(copy, files)], copy(self._journal) if self._journal else None)

    def _change_branch(self) -> Iterator[bytes]:
        rng = self._rng
        branch = pick(rng, self._branches)
        if branch.journal and rng.random() < self._profile.shares.journal:
            branch.journal.text.add_entry(rng, self._journal_limit())
            yield branch.journal.change()
        count = min(self._profile.paths.draw(rng), len(branch.files))
        for i in sorted({ranked(rng, len(branch.files), 2) for _ in range(count)}):
            file = branch.files[i]
            file.text.edit(rng, file.kind.churn)
            yield file.change()

    def _change_trunk(self) -> Iterator[bytes]:
        shares, rng, journal = self._profile.shares, self._rng, self._journal
        self._touched = set()
        if journal and rng.random() < shares.journal:
            before = journal.text.size
            journal.text.add_entry(rng, self._journal_limit())
            self.size += journal.text.size - before
            yield journal.change()
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
        is_edit = kind < 0 or kind > shares.delete + shares.move + shares.copy
        file = self._hot_file()
        if not is_edit and file not in self._touched:
            file = pick(rng, self.files)
        if file in self._touched:
            return
        self._touched.add(file)
        if is_edit:
            yield self._edit(file)
            return
        if kind >= shares.delete:
            origin = dump_format.copyfrom(file.path, self._number - 1)
            path = self._new_path(file.directory(), file.kind.extension)
            self._insert(file.copy(path), rng.random())
            yield dump_format.file(path, b"add", origin=origin)
        if kind < shares.delete + shares.move:
            self.files.remove(file)
            self.size -= file.text.size
            yield dump_format.deletion(file.path)

    def _change_directory(self) -> Iterator[bytes]:
        """Delete or move a directory with few files, but not trunk."""
        old = pick(self._rng, self.directories)
        files = [file for file in self.files if file.path.startswith(old + b"/")]
        if old == self._layout.trunk or len(files) > len(self.files) // 50:
            return
        folders = [path for path in self.directories if (path + b"/").startswith(old + b"/")]
        self.directories = [path for path in self.directories if path not in folders]
        if self._rng.random() < 0.5:
            self.files = [file for file in self.files if file not in files]
            self.size -= sum(file.text.size for file in files)
        else:
            new = self._new_path(old.rpartition(b"/")[0])
            yield dump_format.directory(new, dump_format.copyfrom(old, self._number - 1))
            self.directories += [new + path.removeprefix(old) for path in folders]
            for file in files:
                file.path = new + file.path.removeprefix(old)
            self._paths.update(self.directories, (file.path for file in files))
        yield dump_format.deletion(old)

    def _new_file(self) -> Iterator[bytes]:
        rng, profile = self._rng, self._profile
        directory = pick(rng, self.directories)
        if self.files and rng.random() < 0.5:
            directory = pick(rng, self.files).directory()
        depth = directory.count(b"/") - self._layout.trunk.count(b"/")
        if rng.random() < profile.new_directories and depth < profile.deepest:
            directory = self._new_path(directory)
            self.directories.append(directory)
            yield dump_format.directory(directory)
        kind = self._random_kind()
        share = rng.random()
        size = self._size_factor * kind.size * profile.file_bytes.at(share)
        largest = min(LARGEST_FILE, LARGEST_SHARE * self._grown * profile.tree_bytes)
        size = min(size * (1 - 0.6 * self._excess()), largest)
        text = Text.create(rng, self._pools[kind.pool], int(size))
        file = GeneratedFile(self._new_path(directory, kind.extension), kind, text)
        heat = kind.heat
        if heat is None:
            heat = share if rng.random() < HEAT_BY_SIZE else rng.random()
        self._insert(file, heat)
        properties = {b"svn:eol-style": profile.eol_style} if profile.eol_style else {}
        if kind.pool == "bytes":
            properties = {b"svn:mime-type": b"application/octet-stream"}
        elif rng.random() < kind.executable:
            properties[b"svn:executable"] = b"*"
        yield file.add(properties)

    def _new_path(self, directory: bytes, extension: bytes = b"") -> bytes:
        rng = self._rng
        stem = directory + b"/" + noun(rng)
        while (path := stem + extension) in self._paths:
            words = NOUNS if rng.random() < 0.6 else VERBS
            stem += b"_" + pick(rng, words).encode("ascii")
        self._paths.add(path)
        return path

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
        before = file.text.size
        file.text.edit(self._rng, file.kind.churn, self._excess())
        self.size += file.text.size - before
        return file.change()

    def _insert(self, file: GeneratedFile, heat: float) -> None:
        self.files.insert(int((1 - heat) * len(self.files)), file)
        self._touched.add(file)
        self.size += file.text.size

    def _journal_limit(self) -> int:
        return 2000 + int(self._profile.journal_bytes * self._grown * 4 / 3)

    def _excess(self) -> float:
        """Return from -1 to 1 if the mean file is up to a twentieth too small or too large."""
        share = self.size / (self._mean_size * (len(self.files) + 1))
        return max(-1.0, min(1.0, 20 * (share - 1)))

    def _missing(self) -> float:
        return self._grown * self._profile.tree_files - len(self.files)

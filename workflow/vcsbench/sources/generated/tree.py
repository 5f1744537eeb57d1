"""The tree of trunk as the generator remembers it: names and pieces, no texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from vcsbench.sources.generated.pieces import Pieces, size_of
from vcsbench.sources.generated.profile import FileKind
from vcsbench.sources.generated.quantiles import Quantiles, pick
from vcsbench.sources.generated.words import NOUNS, VERBS, noun


@dataclass(slots=True, eq=False)
class Directory:
    """A directory; its path comes from its parents, so that moving one costs nothing."""

    name: bytes
    parent: Directory | None
    directories: dict[bytes, Directory] = field(default_factory=dict)
    files: dict[bytes, File] = field(default_factory=dict)

    def path(self) -> bytes:
        """The path from the repository's root."""
        if self.parent is None:
            return self.name
        return self.parent.path() + b"/" + self.name

    def depth(self) -> int:
        """How many directories lie above it."""
        return 0 if self.parent is None else self.parent.depth() + 1

    def new_name(self, rng: Random, extension: bytes = b"") -> bytes:
        """A name that nothing in it has yet."""
        stem = noun(rng)
        while (name := stem + extension) in self.files or name in self.directories:
            words = NOUNS if rng.random() < 0.6 else VERBS
            stem += b"_" + pick(rng, words).encode("ascii")
        return name

    def count(self) -> int:
        """How many files lie below it."""
        return len(self.files) + sum(child.count() for child in self.directories.values())


@dataclass(slots=True, eq=False)
class File:
    """A file: where it is, and the pieces of its kind's pool that make up its text."""

    name: bytes
    directory: Directory
    kind: FileKind
    pieces: Pieces
    index: int = -1

    def path(self) -> bytes:
        """The path from the repository's root."""
        return self.directory.path() + b"/" + self.name


class Tree:
    """All directories and files of trunk, and random picks from them."""

    def __init__(self, root: bytes) -> None:
        self.root = Directory(root, None)
        self.files: list[File] = []
        self.directories: list[Directory] = [self.root]
        self.size = 0

    def add(self, file: File, heat: float) -> None:
        """Put a file where it says it is; `heat` is the share of the files that get changed less
        often than it."""
        file.directory.files[file.name] = file
        self.files.append(file)
        file.index = int((1 - heat) * (len(self.files) - 1))
        moved = self.files[file.index]
        moved.index = len(self.files) - 1
        self.files[moved.index] = moved
        self.files[file.index] = file
        self.size += size_of(file.pieces)

    def remove(self, file: File) -> None:
        """Take a file away."""
        del file.directory.files[file.name]
        last = self.files.pop()
        if last is not file:
            last.index = file.index
            self.files[file.index] = last
        self.size -= size_of(file.pieces)

    def change(self, file: File, pieces: Pieces) -> None:
        """Give a file new pieces."""
        self.size += size_of(pieces) - size_of(file.pieces)
        file.pieces = pieces

    def make_directory(self, name: bytes, parent: Directory) -> Directory:
        """Put an empty directory into `parent`."""
        made = Directory(name, parent)
        parent.directories[name] = made
        self.directories.append(made)
        return made

    def move_directory(self, directory: Directory, name: bytes) -> None:
        """Give a directory another name, where it is."""
        assert directory.parent is not None
        del directory.parent.directories[directory.name]
        directory.name = name
        directory.parent.directories[name] = directory

    def remove_directory(self, directory: Directory) -> None:
        """Take a directory away with all below it."""
        assert directory.parent is not None
        del directory.parent.directories[directory.name]
        self._forget(directory)

    def _forget(self, directory: Directory) -> None:
        for file in list(directory.files.values()):
            self.remove(file)
        for child in directory.directories.values():
            self._forget(child)
        self.directories.remove(directory)

    def pick_hot(self, rng: Random, heat: Quantiles) -> File:
        """A file to change: `heat` has the share of changes that go to a share of the files."""
        return self.files[int(heat.value(rng) * len(self.files))]

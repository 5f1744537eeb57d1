"""What a profile of a generated history says: the figures of a repository that histories are like."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from math import sqrt

from vcsbench.sources.generated.quantiles import Quantiles


@dataclass(frozen=True)
class FileKind:
    """Files that share an extension.

    `share` of all files; `pool` that their texts are cut from; `size` against the mean file;
    `churn` is the part of the text that each change replaces, in place of a few hunks: 1 for
    binary files, less for files that a program writes. `heat` is the share of all files that are
    changed less often than these; None leaves it to chance and size.
    """

    share: float
    extension: bytes
    pool: str
    size: float = 1.0
    executable: float = 0.0
    churn: float = 0.0
    heat: float | None = None


@dataclass(frozen=True)
class Layout:
    """Where lines of development lie; `branches` and `tags` are filled in round-robin."""

    trunk: bytes
    branches: tuple[bytes, ...]
    tags: tuple[bytes, ...]


@dataclass(frozen=True)
class Shares:
    """How often things happen.

    Of all revisions, `branch` change a branch, `new_branch` and `new_tag` copy one. Of the changes
    of files, `add`, `delete`, `move` and `copy` are other than edits. `journal` of the commits add
    an entry to the journal, `directory` move or delete a directory, and `rewrite` change all files
    at once that a program writes.
    """

    branch: float
    new_branch: float
    new_tag: float
    add: float
    delete: float
    move: float
    copy: float
    journal: float = 0.0
    directory: float = 0.001
    rewrite: float = 0.0


@dataclass(frozen=True)
class RepositorySize:
    """The size of the loaded repository (format 7, not packed) at a scale s, in bytes.

    tree * s ** 0.5 + history * s ** power, fitted to loaded and, at scale 1, computed sizes. The
    power is above 1 where what a revision changes grows with the tree.
    """

    tree: float
    history: float
    power: float

    def at(self, scale: float) -> int:
        """The bytes at a scale."""
        return int(self.tree * sqrt(scale) + self.history * scale**self.power)


@dataclass(frozen=True)
class Profile:
    """The figures of one repository at scale 1.

    `tree_files` and `tree_bytes` are those of trunk's export. `projects` lie side by side in the
    repository: the first is the one that export exports and gets `own_share` of the revisions;
    the trunks of the others are like its own, but of `other_kinds`. `journal_bytes` is the
    journal's median size. `imported` is the part of trunk that its import has: then a scale makes the
    tree smaller as it does the history; with 0 trunk grows by the law of growth. `eol_style` is
    svn:eol-style of text files, b"" for none. `new_directories` of the new files open
    a directory of their own, `deepest` ones below trunk at most.
    """

    name: str
    revisions: int
    tree_bytes: int
    tree_files: int
    first_date: datetime
    last_date: datetime
    authors: int
    kinds: tuple[FileKind, ...]
    shares: Shares
    paths: Quantiles
    file_bytes: Quantiles
    heat: Quantiles
    message_bytes: Quantiles
    repository: RepositorySize
    layout: Layout = Layout(b"trunk", (b"branches",), (b"tags",))
    journal: bytes = b""
    journal_bytes: int = 0
    projects: int = 1
    own_share: float = 1.0
    other_kinds: tuple[FileKind, ...] = ()
    imported: float = 0.0
    eol_style: bytes = b"LF"
    new_directories: float = 0.09
    deepest: int = 7

    def at(self, scale: float) -> Profile:
        """Where its import has nearly all of trunk: the profile whose repository is generated at a scale."""
        return replace(
            self,
            # The layout and the import come before what is updated over.
            revisions=2 + round((self.revisions - 2) * scale),
            tree_files=round(self.tree_files * scale),
            tree_bytes=round(self.tree_bytes * scale),
        )

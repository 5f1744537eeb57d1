"""What the generated histories are like, one profile per published repository.

docs/generated-model.md explains the model and says where each figure comes from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import sqrt

from vcsbench.sources.generated import measured
from vcsbench.sources.generated.quantiles import Quantiles

MIB = 1 << 20


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
    tree smaller as it does the history; with 0 trunk grows by the law of growth.
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

    def at(self, scale: float) -> Profile:
        """The profile whose repository is generated at a scale."""
        if not self.imported:
            return self
        return replace(
            self,
            revisions=max(2, round(self.revisions * scale)),
            tree_files=round(self.tree_files * scale),
            tree_bytes=round(self.tree_bytes * scale),
        )


def _date(year: int, month: int, day: int) -> datetime:
    return datetime(year, month, day, 12, tzinfo=UTC)


RUBY = Profile(
    name="ruby",
    revisions=46_054,
    tree_bytes=int(46.6 * MIB),
    tree_files=4_263,
    first_date=_date(1998, 1, 16),
    last_date=_date(2014, 5, 22),
    authors=91,
    kinds=(
        FileKind(0.66, b".rb", "ends", size=0.64),
        FileKind(0.09, b".c", "braces", size=2.4),
        FileKind(0.03, b".h", "braces", size=0.9),
        FileKind(0.13, b".txt", "prose"),
        FileKind(0.04, b".sh", "ends", size=0.4, executable=0.5),
        FileKind(0.05, b".gif", "bytes", size=0.25, churn=1, heat=0.3),
    ),
    shares=Shares(
        branch=0.211, new_branch=0.0007, new_tag=0.0085,
        add=0.044, delete=0.013, move=0.006, copy=0.001, journal=0.704,
    ),
    paths=measured.RUBY_PATHS,
    file_bytes=measured.RUBY_FILES,
    heat=measured.RUBY_HEAT,
    message_bytes=measured.RUBY_MESSAGES,
    repository=RepositorySize(14e6, 240e6, 1.0),
    journal=b"ChangeLog",
    journal_bytes=593_000,
)  # fmt: skip

BSD = Profile(
    name="bsd",
    revisions=263_988,
    tree_bytes=800 * MIB,
    tree_files=57_000,
    layout=Layout(
        b"head", (b"stable", b"projects", b"releng", b"user"), (b"release", b"vendor")
    ),
    first_date=_date(1993, 6, 12),
    last_date=_date(2014, 4, 1),
    authors=600,
    kinds=(
        FileKind(0.46, b".c", "braces", size=1.2),
        FileKind(0.26, b".h", "braces", size=0.9),
        FileKind(0.12, b".3", "prose", size=0.7),
        FileKind(0.09, b".mk", "ends", size=0.3),
        FileKind(0.04, b".sh", "ends", size=0.3, executable=0.6),
        FileKind(0.03, b".uu", "bytes", size=5.5, churn=1, heat=0.6),
    ),
    shares=Shares(
        branch=0.3, new_branch=0.004, new_tag=0.004,
        add=0.053, delete=0.019, move=0.005, copy=0.003, journal=0.01,
    ),
    paths=measured.HTTPD_PATHS,
    file_bytes=measured.SUBVERSION_FILES,
    heat=measured.KDELIBS_HEAT,
    message_bytes=measured.SUBVERSION_MESSAGES,
    repository=RepositorySize(250e6, 2.7e9, 1.0),
    journal=b"UPDATING",
    journal_bytes=60_000,
)  # fmt: skip

TSVN = Profile(
    name="tsvn",
    revisions=18_937,
    tree_bytes=81 * MIB,
    tree_files=3_460,
    first_date=_date(2003, 2, 15),
    last_date=_date(2010, 4, 1),
    authors=40,
    kinds=(
        FileKind(0.308, b".cpp", "braces", size=0.9),
        FileKind(0.35, b".h", "braces", size=0.35),
        FileKind(0.14, b".xml", "prose", size=0.5),
        FileKind(0.012, b".po", "prose", size=35, churn=0.5),
        FileKind(0.19, b".png", "bytes", size=0.5, churn=1, heat=0.3),
    ),
    shares=Shares(
        branch=0.08, new_branch=0.002, new_tag=0.003,
        add=0.044, delete=0.018, move=0.01, copy=0.002, rewrite=0.06,
    ),
    paths=measured.SUBVERSION_PATHS,
    file_bytes=measured.SUBVERSION_FILES,
    heat=measured.SUBVERSION_HEAT,
    message_bytes=measured.HTTPD_MESSAGES,
    repository=RepositorySize(30e6, 5.3e9, 1.55),
)  # fmt: skip

APACHE = Profile(
    name="apache",
    revisions=943_322,
    tree_bytes=38 * MIB,
    tree_files=1_726,
    layout=Layout(b"subversion/trunk", (b"subversion/branches",), (b"subversion/tags",)),
    first_date=_date(1996, 7, 3),
    last_date=_date(2010, 5, 11),
    authors=2_000,
    kinds=(
        FileKind(0.34, b".c", "braces", size=1.1),
        FileKind(0.22, b".h", "braces", size=0.6),
        FileKind(0.14, b".py", "ends", size=0.95, executable=0.69),
        FileKind(0.28, b".txt", "prose", size=0.9),
        FileKind(0.02, b".png", "bytes", size=2.5, churn=1, heat=0.3),
    ),
    shares=Shares(
        branch=0.26, new_branch=0.0087, new_tag=0.0039,
        add=0.044, delete=0.018, move=0.01, copy=0.002,
    ),
    paths=measured.SUBVERSION_PATHS,
    file_bytes=measured.SUBVERSION_FILES,
    heat=measured.SUBVERSION_HEAT,
    message_bytes=measured.SUBVERSION_MESSAGES,
    repository=RepositorySize(0, 27.5e9, 1.2),
    projects=60,
    own_share=0.048,
    other_kinds=(
        FileKind(0.60, b".java", "braces", size=0.5),
        FileKind(0.21, b".html", "prose", size=0.7),
        FileKind(0.04, b".png", "bytes", size=1, churn=1, heat=0.3),
        FileKind(0.15, b".jar", "bytes", size=6.5, churn=1, heat=0.7),
    ),
)  # fmt: skip

KDE = Profile(
    name="kde",
    revisions=1_125_690,
    tree_bytes=int(8.4 * 1024) * MIB,
    tree_files=359_800,
    first_date=_date(1997, 4, 13),
    last_date=_date(2010, 5, 12),
    authors=2_000,
    kinds=(
        FileKind(0.20, b".h", "braces", size=0.3),
        FileKind(0.20, b".cpp", "braces", size=0.6),
        FileKind(0.20, b".docbook", "prose", size=0.8),
        FileKind(0.25, b".po", "prose", size=1.5, churn=0.45),
        FileKind(0.15, b".png", "bytes", size=2, churn=1, heat=0.3),
    ),
    shares=Shares(
        branch=0.2, new_branch=0.001, new_tag=0.001,
        add=0.053, delete=0.026, move=0.02, copy=0.002,
    ),
    paths=measured.KDELIBS_PATHS,
    file_bytes=measured.KDELIBS_FILES,
    heat=measured.KDELIBS_HEAT,
    message_bytes=measured.KDELIBS_MESSAGES,
    repository=RepositorySize(3.8e9, 50e9, 0.9),
)  # fmt: skip

# 27,000 files and directories; the 1,000 revisions that were updated over, after an import.
LARGE_TREE = Profile(
    name="large-tree",
    revisions=1_002,
    tree_bytes=263 * MIB,
    tree_files=24_700,
    first_date=_date(2011, 6, 1),
    last_date=_date(2012, 2, 1),
    authors=30,
    kinds=(
        FileKind(0.34, b".c", "braces", size=1.1),
        FileKind(0.22, b".h", "braces", size=0.6),
        FileKind(0.14, b".py", "ends", size=0.95, executable=0.5),
        FileKind(0.25, b".txt", "prose", size=0.9),
        FileKind(0.05, b".png", "bytes", size=2.5, churn=1, heat=0.3),
    ),
    shares=Shares(
        branch=0.0, new_branch=0.0, new_tag=0.0,
        add=0.044, delete=0.018, move=0.01, copy=0.002,
    ),
    paths=measured.SUBVERSION_PATHS,
    file_bytes=measured.SUBVERSION_FILES,
    heat=measured.SUBVERSION_HEAT,
    message_bytes=measured.SUBVERSION_MESSAGES,
    repository=RepositorySize(0, 120e6, 1.0),
    imported=0.99,
)  # fmt: skip

PROFILES = {profile.name: profile for profile in (RUBY, BSD, TSVN, APACHE, KDE, LARGE_TREE)}

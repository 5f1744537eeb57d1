"""Describe the published repositories that generated histories resemble."""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from random import Random


class Quantiles:
    """A distribution of numbers as points (share, value): this share of all numbers is at or below the value.

    The first share is 0, and the last is 1. (0.5, 100) makes 100 the median. Only plain arithmetic is used,
    because exp() and log() need not give the same bits on every platform.
    """

    def __init__(self, *points: tuple[float, float]) -> None:
        self._shares, self._values = zip(*points, strict=True)

    def at(self, share: float) -> float:
        """Return the value of a share from 0 to below 1, interpolated between the two points around it."""
        i = bisect_right(self._shares, share)
        low, high = self._shares[i - 1], self._shares[i]
        first, last = self._values[i - 1], self._values[i]
        return first + (last - first) * (share - low) / (high - low)

    def value(self, rng: Random) -> float:
        """Return a random value."""
        return self.at(rng.random())

    def draw(self, rng: Random) -> int:
        """Return a random value, rounded down."""
        return int(self.value(rng))

    def mean(self) -> float:
        points = zip(self._shares, self._values, strict=True)
        # Not sum(), which gives other bits for floats since Python 3.12.
        total = 0.0
        for (share, value), (next_share, next_value) in pairwise(points):
            total += (next_share - share) * (next_value + value) / 2
        return total


@dataclass(frozen=True)
class FileKind:
    """Files that share an extension.

    - `share`: their share of all files. `executable`: the share of them that is executable.
    - `pool`: the name of the pool whose lines make up their texts, such as "prose".
    - `size`: their size as a multiple of the mean file's, before all sizes are scaled (size_factor).
    - `churn`: the part of the text that a change replaces. With 0, a change has a few hunks.
    - `heat`: the share of all files that change less often than a file of this kind; None for a random share.
    """

    share: float
    extension: bytes
    pool: str
    size: float = 1.0
    executable: float = 0.0
    churn: float = 0.0
    heat: float | None = None


@dataclass(frozen=True)
class ProjectLayout:
    """The paths of trunk, and of the folders that get new branches and new tags in turn."""

    trunk: bytes
    branches: tuple[bytes, ...]
    tags: tuple[bytes, ...]


@dataclass(frozen=True)
class Shares:
    """Frequencies of events, each from 0 to 1.

    - Shares of revisions: `branch` changes a branch, `new_branch` copies trunk, `new_tag` copies a branch.
      All other revisions change trunk.
    - Shares of the files that a revision changes: `add`, `delete`, `move` and `copy`. The rest are edits.
    - Shares of the revisions that change trunk: `journal` adds an entry to the journal (a change log; also on
      branches), `directory` moves or deletes a directory, `rewrite` changes all files that programs write.
    """

    branch: float = 0.0
    new_branch: float = 0.0
    new_tag: float = 0.0
    add: float = 0.0
    delete: float = 0.0
    move: float = 0.0
    copy: float = 0.0
    journal: float = 0.0
    directory: float = 0.001
    rewrite: float = 0.0


@dataclass(frozen=True)
class Profile:
    """The figures of one repository at scale 1.

    - `tree_files`, `tree_bytes`: of trunk's export. `journal_bytes`: the median size of its `journal`.
    - `repository`: t, h and p in the formula t * scale^0.5 + h * scale^p. It gives the bytes of the loaded
      repository (format 7, not packed) at a scale, and was fitted to loaded repositories.
    - `projects`: their number. The first project has the exported trunk, and gets `own_share` of the
      revisions. The files in the trunks of the other projects have `other_kinds`.
    - `imported`: the part of trunk in the first import. With 0, trunk grows by a square root (grown_share).
    - `new_directories`: the share of new files in a new directory, at most `deepest` levels below trunk.
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
    repository: tuple[float, float, float]
    layout: ProjectLayout = ProjectLayout(b"trunk", (b"branches",), (b"tags",))
    journal: bytes = b""
    journal_bytes: int = 0
    projects: int = 1
    own_share: float = 1.0
    other_kinds: tuple[FileKind, ...] = ()
    imported: float = 0.0
    eol_style: bytes = b"LF"
    new_directories: float = 0.09
    deepest: int = 7

    @property
    def mean_file_bytes(self) -> float:
        return self.tree_bytes / self.tree_files

    def size_factor(self, kinds: tuple[FileKind, ...]) -> float:
        """Return the factor that gives a file of this repository its size: factor * kind.size * drawn value.

        The value is drawn from `file_bytes`, which may be of another repository. With the factor, the mean
        size of files of all `kinds` is that of this repository's tree.
        """
        mean_kind = 0.0
        for kind in kinds:
            mean_kind += kind.share * kind.size
        return self.mean_file_bytes / (mean_kind * self.file_bytes.mean())


# Measured on public histories: shares and the values that they do not exceed.
_SHARES = (0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999, 1)
_FILES = (0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)


def _values(*values: float) -> Quantiles:
    return Quantiles(*zip(_SHARES, values, strict=True))


def _heat(*shares: float) -> Quantiles:
    """Return the distribution of positions of changed files, from 0 (the most changed file) to 1.

    `shares` are the shares of all changes that the most changed 0.1 %, 0.5 %, ... of files get (_FILES).
    """
    return Quantiles(*zip(shares, _FILES, strict=True))


# fmt: off
# Files changed per revision of trunk without the journal, rounded down.
RUBY_PATHS = Quantiles(
    (0, 0), (0.041, 1), (0.65, 2), (0.82, 3), (0.90, 4), (0.95, 6.5), (0.98, 12), (0.99, 19),
    (0.995, 31), (0.999, 112), (1, 300),
)
SUBVERSION_PATHS = Quantiles(
    (0, 1), (0.65, 2), (0.78, 3), (0.86, 4), (0.90, 5.5), (0.95, 8), (0.98, 14), (0.99, 21),
    (0.995, 32), (0.999, 114), (1, 400),
)
KDELIBS_PATHS = Quantiles(
    (0, 1), (0.55, 2), (0.77, 3), (0.86, 4), (0.90, 5.5), (0.95, 8.5), (0.98, 18), (0.99, 31),
    (0.995, 54), (0.999, 295), (1, 1000),
)
RUBY_FILES = _values(0, 88, 172, 472, 1755, 5953, 16987, 35890, 95572, 160755, 754604, 1500000)
SUBVERSION_FILES = _values(
    0, 888, 1281, 2362, 5346, 16261, 46376, 83632, 186284, 303743, 879066, 2011364
)
KDELIBS_FILES = _values(0, 32, 41, 660, 2135, 5503, 13977, 25281, 46066, 59584, 185789, 2952854)
GIT_FILES = _values(0, 77, 187, 628, 1786, 5343, 13496, 25162, 48946, 69607, 267439, 329781)
LINUX_FILES = _values(6, 159, 391, 1316, 4075, 11151, 26241, 42954, 71198, 97192, 310443, 873603)
HUNKS = Quantiles(
    (0, 1), (0.45, 2), (0.65, 3), (0.75, 4), (0.9, 9), (0.95, 16), (0.98, 31), (0.99, 51), (1, 80)
)
# Bytes that a hunk adds or removes; shares of hunks that only add, and that only remove.
HUNK_BYTES = Quantiles(
    (0, 2), (0.11, 19), (0.22, 30), (0.33, 38), (0.44, 49), (0.56, 62), (0.72, 93), (0.89, 220),
    (0.944, 390), (0.978, 790), (0.989, 1350), (0.9989, 5300), (1, 15000),
)
PURE_ADDITIONS, PURE_REMOVALS = 0.19, 0.085
# In ruby, the most changed hundredth of the files has 36 percent of the changes.
RUBY_HEAT = _heat(0, 0.114, 0.266, 0.36, 0.465, 0.603, 0.708, 0.816, 0.944, 1)
SUBVERSION_HEAT = _heat(0, 0.011, 0.071, 0.123, 0.194, 0.337, 0.48, 0.644, 0.845, 1)
KDELIBS_HEAT = _heat(0, 0.037, 0.105, 0.156, 0.238, 0.393, 0.533, 0.695, 0.904, 1)
RUBY_MESSAGES = _values(4, 10, 12, 39, 79, 138, 227, 319, 501, 674, 1675, 5141)
SUBVERSION_MESSAGES = _values(4, 40, 60, 109, 207, 423, 800, 1157, 1816, 2427, 4643, 9297)
HTTPD_MESSAGES = _values(3, 17, 22, 40, 78, 150, 262, 365, 513, 683, 1522, 4003)
KDELIBS_MESSAGES = _values(2, 12, 17, 31, 58, 121, 230, 329, 512, 726, 3075, 8000)
JOURNAL_ENTRIES = Quantiles(
    (0, 40), (0.05, 75), (0.1, 109), (0.25, 135), (0.5, 174), (0.75, 236), (0.9, 368),
    (0.95, 488), (0.98, 820), (0.99, 1007), (1, 2343),
)
GAPS = _values(0, 4, 9, 256, 1907, 9587, 30277, 52749, 87620, 135031, 513786, 2958204)

MIB = 1 << 20


def _date(year: int, month: int, day: int) -> datetime:
    return datetime(year, month, day, 12, tzinfo=UTC)


RUBY = Profile(
    name="ruby", revisions=46_054, tree_bytes=int(46.6 * MIB), tree_files=4_263, authors=91,
    first_date=_date(1998, 1, 16), last_date=_date(2014, 5, 22),
    kinds=(
        FileKind(0.66, b".rb", "ends", size=0.64),
        FileKind(0.09, b".c", "braces", size=2.4),
        FileKind(0.03, b".h", "braces", size=0.9),
        FileKind(0.13, b".txt", "prose"),
        FileKind(0.04, b".sh", "ends", size=0.4, executable=0.5),
        FileKind(0.05, b".gif", "bytes", size=0.25, churn=1, heat=0.3),
    ),
    shares=Shares(0.211, 0.0007, 0.0085, add=0.044, delete=0.013, move=0.006, copy=0.001, journal=0.704),
    paths=RUBY_PATHS, file_bytes=RUBY_FILES, heat=RUBY_HEAT, message_bytes=RUBY_MESSAGES,
    repository=(14e6, 240e6, 1.0), journal=b"ChangeLog", journal_bytes=593_000,
)
TSVN = Profile(
    name="tsvn", revisions=18_937, tree_bytes=81 * MIB, tree_files=3_460, authors=40,
    first_date=_date(2003, 2, 15), last_date=_date(2010, 4, 1),
    kinds=(
        FileKind(0.308, b".cpp", "braces", size=0.9),
        FileKind(0.35, b".h", "braces", size=0.35),
        FileKind(0.14, b".xml", "prose", size=0.5),
        FileKind(0.012, b".po", "prose", size=35, churn=0.5),
        FileKind(0.19, b".png", "bytes", size=0.5, churn=1, heat=0.3),
    ),
    shares=Shares(0.08, 0.002, 0.003, add=0.044, delete=0.018, move=0.01, copy=0.002, rewrite=0.06),
    paths=SUBVERSION_PATHS, file_bytes=SUBVERSION_FILES, heat=SUBVERSION_HEAT, message_bytes=HTTPD_MESSAGES,
    repository=(30e6, 5.3e9, 1.55),
)
APACHE = Profile(
    name="apache", revisions=943_322, tree_bytes=38 * MIB, tree_files=1_726, authors=2_000,
    first_date=_date(1996, 7, 3), last_date=_date(2010, 5, 11),
    layout=ProjectLayout(b"subversion/trunk", (b"subversion/branches",), (b"subversion/tags",)),
    kinds=(
        FileKind(0.34, b".c", "braces", size=1.1),
        FileKind(0.22, b".h", "braces", size=0.6),
        FileKind(0.14, b".py", "ends", size=0.95, executable=0.69),
        FileKind(0.28, b".txt", "prose", size=0.9),
        FileKind(0.02, b".png", "bytes", size=2.5, churn=1, heat=0.3),
    ),
    shares=Shares(0.26, 0.0087, 0.0039, add=0.044, delete=0.018, move=0.01, copy=0.002),
    paths=SUBVERSION_PATHS, file_bytes=SUBVERSION_FILES, heat=SUBVERSION_HEAT,
    message_bytes=SUBVERSION_MESSAGES,
    repository=(0, 27.5e9, 1.2), projects=60, own_share=0.048,
    other_kinds=(
        FileKind(0.60, b".java", "braces", size=0.5),
        FileKind(0.21, b".html", "prose", size=0.7),
        FileKind(0.04, b".png", "bytes", size=1, churn=1, heat=0.3),
        FileKind(0.15, b".jar", "bytes", size=6.5, churn=1, heat=0.7),
    ),
)
KDE = Profile(
    name="kde", revisions=1_125_690, tree_bytes=int(8.4 * 1024) * MIB, tree_files=359_800, authors=2_000,
    first_date=_date(1997, 4, 13), last_date=_date(2010, 5, 12),
    kinds=(
        FileKind(0.20, b".h", "braces", size=0.3),
        FileKind(0.20, b".cpp", "braces", size=0.6),
        FileKind(0.20, b".docbook", "prose", size=0.8),
        FileKind(0.25, b".po", "prose", size=1.5, churn=0.45),
        FileKind(0.15, b".png", "bytes", size=2, churn=1, heat=0.3),
    ),
    shares=Shares(0.2, 0.001, 0.001, add=0.053, delete=0.026, move=0.02, copy=0.002),
    paths=KDELIBS_PATHS, file_bytes=KDELIBS_FILES, heat=KDELIBS_HEAT, message_bytes=KDELIBS_MESSAGES,
    repository=(3.8e9, 50e9, 0.9),
)
# 27,000 files and directories: an import, and the 1,000 revisions of the published update.
LARGE_TREE = Profile(
    name="large-tree", revisions=1_002, tree_bytes=263 * MIB, tree_files=24_700, authors=30,
    first_date=_date(2011, 6, 1), last_date=_date(2012, 2, 1),
    kinds=(
        FileKind(0.34, b".c", "braces", size=1.1),
        FileKind(0.22, b".h", "braces", size=0.6),
        FileKind(0.14, b".py", "ends", size=0.95, executable=0.5),
        FileKind(0.25, b".txt", "prose", size=0.9),
        FileKind(0.05, b".png", "bytes", size=2.5, churn=1, heat=0.3),
    ),
    shares=Shares(add=0.044, delete=0.018, move=0.01, copy=0.002),
    paths=SUBVERSION_PATHS, file_bytes=SUBVERSION_FILES, heat=SUBVERSION_HEAT,
    message_bytes=SUBVERSION_MESSAGES, repository=(0, 120e6, 1.0), imported=0.99,
    # The published reflinks shared most of the tree. A file with translated line ends cannot be shared.
    eol_style=b"",
)
# Linux 2.6.21.3 as one commit: 21,614 files in 1,284 directories.
LINUX_TREE = Profile(
    name="linux-tree", revisions=2, tree_bytes=237_003_064, tree_files=21_614, authors=1,
    first_date=_date(2007, 5, 23), last_date=_date(2007, 5, 24),
    kinds=(
        FileKind(0.42, b".c", "braces", size=1.6),
        FileKind(0.40, b".h", "braces", size=0.52),
        FileKind(0.045, b".S", "braces", size=0.74),
        FileKind(0.115, b"", "ends", size=0.47, executable=0.009),
        FileKind(0.02, b".txt", "prose", size=0.9),
    ),
    shares=Shares(),
    paths=SUBVERSION_PATHS, file_bytes=LINUX_FILES, heat=SUBVERSION_HEAT, message_bytes=SUBVERSION_MESSAGES,
    repository=(0, 80e6, 1.0), imported=1.0, eol_style=b"", new_directories=0.059, deepest=4,
)
# git's own history up to v1.8.0, without its merges.
GIT = Profile(
    name="git", revisions=30_614, tree_bytes=15_979_431, tree_files=2_495, authors=1_072,
    first_date=_date(2005, 4, 7), last_date=_date(2012, 10, 21),
    kinds=(
        FileKind(0.29, b".sh", "ends", size=0.7, executable=0.9),
        FileKind(0.25, b".txt", "prose", size=0.7),
        FileKind(0.16, b".c", "braces", size=2),
        FileKind(0.06, b".h", "braces", size=0.6),
        FileKind(0.02, b".po", "prose", size=9, churn=0.3),
        FileKind(0.22, b"", "ends", size=0.5),
    ),
    shares=Shares(0.05, 0.0003, 0.008, add=0.044, delete=0.018, move=0.01, copy=0.002),
    paths=SUBVERSION_PATHS, file_bytes=GIT_FILES, heat=SUBVERSION_HEAT, message_bytes=SUBVERSION_MESSAGES,
    repository=(6e6, 130e6, 1.0),
)
# fmt: on

PROFILES = {p.name: p for p in (RUBY, TSVN, APACHE, KDE, LARGE_TREE, LINUX_TREE, GIT)}

"""What the generated histories are like, one profile per published repository.

docs/sources.md explains the model and says where each figure comes from.
"""

from __future__ import annotations

from datetime import UTC, datetime

from vcsbench.sources.generated import measured
from vcsbench.sources.generated.profile import FileKind, Layout, Profile, RepositorySize, Shares

MIB = 1 << 20


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
    eol_style=b"",  # as published, reflinks shared most of it: a file whose line ends are translated is none
)  # fmt: skip

# Linux 2.6.21.3 as one commit: 21,614 files in 1,284 folders.
LINUX_TREE = Profile(
    name="linux-tree",
    revisions=2,
    tree_bytes=237_003_064,
    tree_files=21_614,
    first_date=_date(2007, 5, 23),
    last_date=_date(2007, 5, 24),
    authors=1,
    kinds=(
        FileKind(0.42, b".c", "braces", size=1.6),
        FileKind(0.40, b".h", "braces", size=0.52),
        FileKind(0.045, b".S", "braces", size=0.74),
        FileKind(0.115, b"", "ends", size=0.47, executable=0.009),
        FileKind(0.02, b".txt", "prose", size=0.9),
    ),
    shares=Shares(
        branch=0.0, new_branch=0.0, new_tag=0.0, add=0.0, delete=0.0, move=0.0, copy=0.0,
    ),
    paths=measured.SUBVERSION_PATHS,
    file_bytes=measured.LINUX_FILES,
    heat=measured.SUBVERSION_HEAT,
    message_bytes=measured.SUBVERSION_MESSAGES,
    repository=RepositorySize(0, 80e6, 1.0),
    imported=1.0,
    eol_style=b"",
    new_directories=0.059,
    deepest=4,
)  # fmt: skip

PROFILES = {
    profile.name: profile for profile in (RUBY, BSD, TSVN, APACHE, KDE, LARGE_TREE, LINUX_TREE)
}

"""Subversion repositories as sources, local or at a URL. They are only read."""

from __future__ import annotations

import contextlib
import copy as copying
import hashlib
import itertools
import os
import stat
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from vcsbench import words
from vcsbench.errors import UserError
from vcsbench.external import (
    SMALL_FILE,
    URL_FORM,
    file_url,
    is_plain_url,
    parse_number,
    pegged,
    printable,
    read_bytes,
    read_number,
)
from vcsbench.formats import CONFIGURATION_LIMIT, Shape, read_shape
from vcsbench.processes import Program, output
from vcsbench.records import Head
from vcsbench.sources import dump_format
from vcsbench.sources.base import (
    FILE_SCHEME,
    TRUNK,
    Definition,
    Facts,
    LocalSource,
    Options,
    SizeEstimate,
    Source,
    digest_of,
    local_path,
    readable,
)
from vcsbench.sources.dump_reader import DumpReader
from vcsbench.sources.repository_files import SVN_PARTS, check_files
from vcsbench.storages.file_trees import OddPaths, older_revision

# svn reads the passwords that the user has let it store, asks for none, and stores none.
LOGIN = ("--non-interactive", "--no-auth-cache")
# Public histories have 4 to 60 KB per revision in the repository.
REVISION_BYTES = 20_000
# svn:// has no limit of its own. A server may need minutes for a large revision.
ANSWER_S, PAUSE_S = 60, 600
UNKNOWN_REVISIONS = 1000

SAMPLE = 8
REPLACE = "Replace it by a regular file or folder, or give another repository."
LARGEST_REVISION = 2**40
# Of older shards, only the folder is part of the identity.
YOUNGEST_SHARDS = 3
YOUNGEST_FILES = 5000
# Only a tree that was copied into itself many times has more.
MAX_ENTRIES = 10_000_000
# 200,000 files take 0.6 s, and 2 s from a device. Subversion gives a file the mode of the last file.
LISTED_FILES = 10_000


def is_svn_repository(path: Path) -> bool:
    """Return True if a Subversion repository lies at `path`, not merely below or above it."""
    # Subversion 1.0 wrote no fs-type: all was in Berkeley DB.
    names = ("fs-type", "DB_CONFIG")
    return (path / "format").exists() and any((path / "db" / name).exists() for name in names)


def check_repository(path: Path) -> None:
    """Raise UserError if a repository has files that no program may open (repository_files)."""
    check_files(path, SVN_PARTS, REPLACE)


def check_local_url(url: str) -> None:
    """Check the repository of a file:// URL like check_repository(). The URL may name a folder in it.

    svn and svnrdump then open the files themselves. For a URL of a server, only the server does.
    """
    if not url.startswith(FILE_SCHEME):
        return
    place = local_path(url)
    for folder in (place, *place.parents):
        if is_svn_repository(folder):
            check_repository(folder)
            return


def _revision_folders(repository: Path) -> list[str]:
    folders = (os.path.join(repository, "db", name) for name in ("revs", "revprops"))
    return [folder for folder in folders if os.path.isdir(folder)]


def list_history(repository: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the files and folders from which somebody can read a history; of many files an even sample."""
    yield from (entry for entry in os.scandir(repository) if entry.name == "db")
    names = ("current", "revs", "revprops")
    yield from (entry for entry in os.scandir(repository / "db") if entry.name in names)
    for top in _revision_folders(repository):
        yield from (entry for entry in os.scandir(top) if entry.is_dir())
        step = -(-sum(1 for _ in _revision_files(top)) // LISTED_FILES) or 1
        yield from itertools.islice(_revision_files(top), None, None, step)


def _revision_files(top: str) -> Iterator[os.DirEntry[str]]:
    for entry in os.scandir(top):
        if entry.is_dir():
            yield from os.scandir(entry.path)
        else:
            yield entry


def content_digest(repository: Path) -> str:
    """Return a digest of the files of revisions and revision properties.

    It covers names, sizes and times of the youngest files, and the times of all folders. A commit, an edit
    of a revision property, packing and filtering change some of these. Reading and `rsync -a` change none.
    """
    digest = hashlib.sha256()
    for top in _revision_folders(repository):
        shards = [entry.path for entry in _list_by_number(top) if entry.is_dir()]
        for folder in (top, *shards[-YOUNGEST_SHARDS:]):
            digest.update(_state("", os.stat(folder)))
            for entry in _list_by_number(folder)[-YOUNGEST_FILES:]:
                digest.update(_state(entry.name, entry.stat()))
    return digest.hexdigest()


def _list_by_number(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as scanned:
        # 10 comes after 9, and 3.pack between 2 and 4.
        return sorted(scanned, key=lambda entry: (len(entry.name.split(".")[0]), entry.name))


def _state(name: str, state: os.stat_result) -> bytes:
    facts = f"{state.st_size} {state.st_mtime_ns}"
    if stat.S_ISDIR(state.st_mode):
        # The size depends on the file system, and rsync does not copy fractions of a second.
        facts = f"{state.st_mtime_ns // 10**9}"
    return os.fsencode(name) + f"\0{facts}\n".encode()


def _failure(repository: str | Path, program: str) -> str:
    return f"{repository}: {program} failed (try `svnadmin verify`, or a newer Subversion)"


def summarize_tree(repository: Path, tree: str, revision: str = "") -> tuple[str, OddPaths]:
    """Return the folder for `log`, and the numbers of odd paths below `tree` at a revision.

    The folder lies right below `tree` and has the most entries, the first by name; `tree` without any.
    """
    above = f"{tree}/".lstrip("/").encode(errors="surrogateescape")
    entries: Counter[bytes] = Counter()
    impossible = reserved = 0
    at = ["-r", revision] if revision else []
    argv = ["svnlook", "tree", "--full-paths", *at, "--", os.path.abspath(repository), tree]
    with Program(argv, _failure(repository, "svnlook tree")) as program:
        for number, line in enumerate(program.stdout):
            if number == MAX_ENTRIES:
                raise UserError(
                    f"{repository}: /{tree} has more than {MAX_ENTRIES:,} files and folders. Name a smaller "
                    "folder in `tree` or by TREE=."
                )
            path = line.rstrip(b"\n").lstrip(b"/").removeprefix(above).rstrip(b"/")
            top, slash, _ = path.partition(b"/")
            entries[top] += bool(slash)
            impossible += dump_format.is_impossible(path)
            reserved += dump_format.is_reserved(path)
        program.finish()
    odd_paths = OddPaths(impossible, reserved)
    if not (+entries):
        return tree, odd_paths
    largest = min(entries, key=lambda name: (-entries[name], name))
    return (above + largest).decode(errors="surrogateescape"), odd_paths


class SourceWithTree(LocalSource):
    """A source whose definition can name the folder that export exports."""

    keys = ("path", "tree")

    def _tree_in(self, repository: Path) -> str:
        """Return the definition's `tree`, or trunk if the youngest revision has one, or the root."""
        argv = ["svnlook", "tree", "-N", "--full-paths", "--", os.path.abspath(repository)]
        if self._tree is None:
            listed = output(argv, _failure(repository, "svnlook tree")).split(b"\n")
            return TRUNK if b"trunk/" in listed else ""
        if self._tree:
            try:
                listed = output([*argv, self._tree], "").split(b"\n")
            except UserError:
                listed = [b""]
            # A slash at the end of a name marks a folder.
            if not listed[0].endswith(b"/"):
                raise self._no_tree(self._tree)
        return self._tree

    def _no_tree(self, tree: str) -> UserError:
        return self._options.error(
            "tree",
            f"{self._path} has no folder {tree[:200]!r} at its youngest revision. Name another by TREE=, "
            "or use TREE=/ for the root.",
        )


class SvnSource(SourceWithTree):
    """A local repository."""

    kind = "svn"

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        super().__init__(name, definition, where)
        self._is_checked = False
        self._path = Path(os.path.abspath(self._path))
        self._name = os.fspath(self._path)

    @cached_property
    def youngest(self) -> int:
        with readable(self._path):
            return read_number(self._path / "db" / "current", LARGEST_REVISION)

    def identity(self) -> str:
        """Return a digest of the repository's UUID, youngest revision, settings and content_digest."""
        self._check_place()
        return self._identity

    @cached_property
    def _identity(self) -> str:
        limits = {"uuid": SMALL_FILE, "format": SMALL_FILE, "fsfs.conf": CONFIGURATION_LIMIT}
        db = self._path / "db"
        if not (db / "fsfs.conf").exists():
            del limits["fsfs.conf"]
        with readable(self._path):
            words = [
                read_bytes(db / n, limit).decode(errors="replace") for n, limit in limits.items()
            ]
            content = content_digest(self._path)
        tree = [] if self._tree is None else [self._tree]
        return digest_of("svn", *words, self.youngest, content, *tree)

    def _check_place(self) -> None:
        with readable(self._path):
            if not self._path.exists():
                raise self._wrong("does not exist. Check the path.")
            if not is_svn_repository(self._path):
                raise self._wrong("is not a Subversion repository. Check the path.")
            check_repository(self._path)
            kind = self._kind()
            read_bytes(self._path / "format", SMALL_FILE)
        if kind == "bdb":
            raise self._wrong(
                "is kept in Berkeley DB, which today's Subversion does not read. Run `svnadmin dump` of "
                "the old Subversion that serves it, and give the dump file."
            )
        self._is_checked = True

    def _checked_path(self) -> Path:
        """Return the path for a program, and check the files there if nothing has checked them yet."""
        if not self._is_checked:
            self._check_place()
        return self._path

    def _kind(self) -> str:
        file = self._path / "db" / "fs-type"
        kind = read_bytes(file, SMALL_FILE) if file.exists() else b"bdb"
        return kind.decode(errors="replace").strip()

    def stored(self) -> Shape | str:
        try:
            kind = self._kind()
            if kind != "fsfs":
                return f"its file system is {printable(kind)}, not FSFS"
            return read_shape(self._path)
        except (OSError, ValueError, UserError) as error:
            return f"its files do not say it: {error}"

    @property
    def repository(self) -> Path:
        return self._checked_path().resolve()

    def at(self, copy: Path) -> SvnSource:
        """Return the source that reads an exact copy instead. Errors name the user's repository.

        Raise UserError if the copy has later commits.
        """
        with readable(copy):
            if read_number(copy / "db" / "current", LARGEST_REVISION) != self.youngest:
                raise self.changed()
        source_of_copy = copying.copy(self)
        source_of_copy._path = copy
        return source_of_copy

    def head(self) -> Head:
        url = file_url(self.repository)
        return {"kind": self.kind, "url": url, "revision": self.youngest, "tree": self._tree}

    def check(self) -> None:
        self._check_place()
        if self.youngest == 0:
            raise self._wrong("is empty: it has no revision 1. Give another.")
        self.tree()

    def describe(self) -> str:
        path = printable(os.fspath(self._path))
        return f"Subversion repository {path}, {words.count_of(self.youngest, 'revision')}"

    @cached_property
    def _estimate(self) -> SizeEstimate:
        # Without shards, each revision is a file here.
        shards = sorted((self._path / "db" / "revs").iterdir())
        sample = shards[:: 1 + len(shards) // SAMPLE]
        size = 0
        for shard in sample:
            for file in (shard, *shard.glob("*")):
                if file.is_file():
                    size += file.stat().st_size
        return SizeEstimate(self.youngest, size * len(shards) // max(1, len(sample)))

    def odd_paths(self, behind: int = 0) -> OddPaths:
        if not behind:
            return summarize_tree(self._checked_path(), self.tree())[1]
        revision = str(older_revision(self.youngest, behind))
        # The older revision may lack the tree.
        with contextlib.suppress(UserError):
            return summarize_tree(self._checked_path(), self.tree(), revision)[1]
        return OddPaths()

    def write(self, out: BinaryIO) -> Facts:
        # A larger cache than svnadmin's default halves the time that full texts take.
        revisions, path = f"0:{self.youngest}", str(self._checked_path())
        argv = ["svnadmin", "dump", "-q", "-M", "256", "-r", revisions, path]
        return _pass_on(Program(argv, _failure(self._name, "svnadmin dump")), self._name, out)

    def tree(self, loaded: Path | None = None) -> str:
        return self._tree_in(self._checked_path())


def export_head(
    url: str, folder: str, svn: str, revision: str, tree: str | None = None
) -> list[str]:
    """Export the tree of a revision, or of the youngest one (0), to a new folder by the client `svn`.

    Without `tree`, it is trunk if there is one. Raise UserError if a server prints nothing for a long time:
    the client prints each file.
    """
    check_local_url(url)
    failure, options = f"{url}: svn export failed", ["--non-interactive"]
    options += ["-r", revision] if int(revision) else []
    if tree is None:
        names = output([svn, "list", *options, pegged(url)], failure, limit_s=ANSWER_S)
        tree = TRUNK if f"{TRUNK}/".encode() in names.split(b"\n") else ""
    place = pegged(f"{url}/{urllib.parse.quote(tree)}".rstrip("/"))
    argv = [svn, "export", "--ignore-externals", *options, place, folder]
    with Program(argv, failure, limit_s=PAUSE_S) as program:
        for _ in program.stdout:
            pass
        program.finish()
    return []


def _pass_on(dumping: Program, name: str, out: BinaryIO) -> Facts:
    remedy = "Check it with svnadmin verify."
    with dumping:
        reader = DumpReader(name, dumping.stdout, out=out, remedy=remedy)
        reader.run_on(dumping)
    out.flush()
    return reader.facts()


class SvnUrlSource(Source):
    """A repository behind a server, which is loaded once. Only write() needs the server."""

    kind = "svn"

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        self._options = Options(name, definition, where, "url", "tree")
        self._url = self._options.text("url").rstrip("/")
        # The URL is not shown: it may contain a password.
        if not is_plain_url(self._url):
            raise self._options.error("url", f"{URL_FORM}.")
        self._tree = self._options.tree()

    def identity(self) -> str:
        tree = [] if self._tree in (None, TRUNK) else [self._tree]
        return digest_of("svn", self._url, 0, *tree)

    def head(self) -> Head:
        return {"kind": self.kind, "url": self._url, "revision": 0, "tree": self._tree}

    def describe(self) -> str:
        return f"Subversion repository {self._url}"

    @cached_property
    def _estimate(self) -> SizeEstimate:
        try:
            revisions = self._youngest()
        except UserError:
            revisions = UNKNOWN_REVISIONS
        return SizeEstimate(revisions, revisions * REVISION_BYTES)

    def _youngest(self) -> int:
        failure = f"{self._options.place_of('url')}: {self._url} cannot be read"
        printed = self._info(failure, "revision", pegged(self._url))
        number = parse_number(printed, LARGEST_REVISION)
        if number is None:
            raise UserError(
                f"{failure}: its youngest revision is {printed[:40]!r}. Check the server."
            )
        return number

    def _info(self, failure: str, item: str, *words: str) -> bytes:
        check_local_url(self._url)
        argv = ["svn", "info", *LOGIN, "--show-item", item, *words]
        return output(argv, failure, ANSWER_S)

    def write(self, out: BinaryIO) -> Facts:
        """Write the output of `svnrdump dump`: a stream of format 3, with deltas."""
        youngest = self._youngest()
        if youngest == 0:
            raise self._options.error(
                "url", f"{self._url} is empty: it has no revision 1. Give another."
            )
        self._tree = self._tree_at(youngest)
        # svnrdump takes no @ behind its URL.
        argv = ["svnrdump", "dump", "-q", *LOGIN, "-r", f"0:{youngest}", self._url]
        failure = f"{self._url}: svnrdump dump failed"
        dumping = Program(argv, failure, limit_s=PAUSE_S)
        return _pass_on(dumping, self._url, out)

    def _tree_at(self, revision: int) -> str:
        if self._tree is None:
            with contextlib.suppress(UserError):
                if self._kind_of(TRUNK, revision, "") == b"dir":
                    return TRUNK
            return ""
        failure = (
            f"{self._options.place_of('tree')}: {self._url} has no folder {self._tree!r} at revision "
            f"{revision}. Name another, or '' for the root"
        )
        if self._kind_of(self._tree, revision, failure) != b"dir":
            raise UserError(f"{failure}.")
        return self._tree

    def _kind_of(self, tree: str, revision: int, failure: str) -> bytes:
        place = f"{self._url}/{urllib.parse.quote(tree)}".rstrip("/")
        return self._info(failure, "kind", "-r", str(revision), f"{place}@{revision}").strip()

    def tree(self, loaded: Path | None = None) -> str:
        """Return the definition's `tree`, or the one from write()."""
        return TRUNK if self._tree is None else self._tree

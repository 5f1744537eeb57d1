"""A local Subversion repository as a source: it is only ever read."""

from __future__ import annotations

import copy as copying
import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from vcsbench.errors import UserError
from vcsbench.external import SMALL_FILE, printable, read_bytes, read_number
from vcsbench.formats import CONFIGURATION_LIMIT, effective_settings, packed_of, read_format
from vcsbench.sources.base import Estimate, Facts, Options, Source, Stored, digest_of
from vcsbench.sources.dump.reader import DumpReader
from vcsbench.sources.process import Program
from vcsbench.sources.trees import check_tree, default_tree
from vcsbench.urls import file_url

# A shard has a thousand files or, packed, two. Estimates are wanted at each start.
SAMPLE = 8
LARGEST_REVISION = 2**40
# The files of so many shards count in a repository's identity; older ones by their folder alone.
YOUNGEST_SHARDS = 3
YOUNGEST_FILES = 5000


class Digest(Protocol):
    """A digest of hashlib."""

    def update(self, data: bytes, /) -> None:
        """Add data."""


def is_repository(path: Path) -> bool:
    """Return True if a Subversion repository lies at `path`, not merely below or above it."""
    return (path / "format").exists() and (path / "db" / "fs-type").exists()


def revision_bytes(folder: Path) -> int:
    """Return the bytes below a repository's db/revs, from a sample of its shards if it has many."""
    shards = sorted(folder.iterdir())
    sample = shards[:: 1 + len(shards) // SAMPLE]
    files = (file for shard in sample for file in (shard, *shard.glob("*")) if file.is_file())
    return sum(file.stat().st_size for file in files) * len(shards) // max(1, len(sample))


def _check_files(repository: Path) -> None:
    """Raise UserError if a file of a repository is a pipe or a device, which would block svnlook."""
    for folder in (repository, repository / "db"):
        for entry in os.scandir(folder):
            mode = entry.stat().st_mode if entry.name != "locks" else stat.S_IFDIR
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise UserError(f"{printable(entry.path)}: this is not a regular file.")


def content_digest(repository: Path) -> str:
    """Return a digest of the files of revisions and revision properties.

    It covers names, sizes and times of the youngest files, and the times of all folders. A commit, an edit of
    a revision property, packing and filtering change some of these. Reading and `rsync -a` change none.
    A repository of 100,000 revisions takes milliseconds, because old shards are not listed.
    """
    digest = hashlib.sha256()
    for name in ("revs", "revprops"):
        folder = os.path.join(repository, "db", name)
        shards = _states(folder, digest)
        for shard in shards[-YOUNGEST_SHARDS:]:
            _states(os.path.join(folder, shard), digest)
    return digest.hexdigest()


def _states(folder: str, digest: Digest) -> list[str]:
    """Add the times of a folder and of what lies in it, and return the folders in it, the youngest last."""
    with os.scandir(folder) as found:
        # By number: 10 comes after 9, and 3.pack between 2 and 4.
        entries = sorted(found, key=lambda entry: (len(entry.name.split(".")[0]), entry.name))
    _add_state(digest, "", os.stat(folder))
    # Only the old layout without shards has so many.
    for entry in entries[-YOUNGEST_FILES:]:
        _add_state(digest, entry.name, entry.stat())
    return [entry.name for entry in entries if entry.is_dir()]


def _add_state(digest: Digest, name: str, state: os.stat_result) -> None:
    facts = f"{state.st_size} {state.st_mtime_ns}"
    if stat.S_ISDIR(state.st_mode):
        # The size depends on the file system, and rsync leaves fractions of a second as they are.
        facts = f"{state.st_mtime_ns // 10**9}"
    digest.update(os.fsencode(name) + f"\0{facts}\n".encode())


class SvnSource(Source):
    """A repository on this machine."""

    kind = "svn"

    def __init__(self, name: str, definition: Mapping[str, Any], where: str) -> None:
        self._options = Options(name, definition, where)
        self._options.allow("path", "tree")
        self._path = Path(os.path.abspath(self._options.path("path")))
        self._tree = self._options.tree()

    def _youngest(self) -> int:
        try:
            return read_number(self._path / "db" / "current", LARGEST_REVISION)
        except (OSError, UserError) as error:
            raise self._options.error(
                "path", f"{_clause(error)} It has no youngest revision."
            ) from error

    def identity(self) -> str:
        """Return a digest of the repository's UUID, youngest revision, settings and content_digest."""
        self._check_place()
        return self._identity

    @cached_property
    def _identity(self) -> str:
        try:
            db = self._path / "db"
            words = [
                read_bytes(db / name, limit).decode(errors="replace")
                for name, limit in (
                    *(("uuid", SMALL_FILE), ("format", SMALL_FILE)),
                    ("fsfs.conf", CONFIGURATION_LIMIT),
                )
                # Formats 1 to 3 have no fsfs.conf.
                if name != "fsfs.conf" or (db / name).exists()
            ]
            content = content_digest(self._path)
        except (OSError, UserError) as error:
            raise self._options.error("path", _clause(error)) from error
        tree = [] if self._tree is None else [self._tree]
        return digest_of("svn", *words, self._youngest(), content, *tree)

    def _check_place(self) -> None:
        try:
            if not self._path.exists():
                raise self._options.error("path", f"{self._path} does not exist")
            if not is_repository(self._path):
                raise self._options.error("path", f"{self._path} is not a Subversion repository")
            kind = self._kind()
            _check_files(self._path)
        except (OSError, UserError) as error:
            if isinstance(error, UserError) and str(error).startswith(self._options.where):
                raise
            raise self._options.error("path", _clause(error)) from error
        if kind == "bdb":
            raise self._options.error(
                "path",
                f"{self._path} is kept in Berkeley DB, which today's Subversion does not read; dump it "
                f"with the svnadmin that serves it, and give the dump file",
            )

    def _kind(self) -> str:
        file = self._path / "db" / "fs-type"
        try:
            return read_bytes(file, SMALL_FILE).decode("ascii").strip()
        except (UnicodeDecodeError, UserError) as error:
            raise self._options.error(
                "path", f"{file} does not name a file system: {error}"
            ) from error

    def stored(self) -> Stored | str:
        """As its own files say."""
        try:
            if (kind := self._kind()) != "fsfs":
                return f"its file system is {printable(kind)}, not FSFS"
            said = read_format(self._path)
            full = (self._youngest() + 1) // said.shard if said.shard else 0
            packed = packed_of(self._path, said.shard)
        except (OSError, ValueError, IndexError, UserError) as error:
            return f"its files do not say it: {error}"
        settings = effective_settings(self._path, said.number)
        return Stored(said.number, said.shard, said.is_logical, full, packed, settings)

    def repository(self) -> Path | None:
        """Return its path."""
        return self._path.resolve()

    def at(self, copy: Path) -> SvnSource:
        """Return a source with the same options that reads a copy."""
        other = copying.copy(self)
        other._path = copy
        return other

    def head(self) -> dict[str, Any]:
        """The youngest revision; `tree` is None where it is to be found out."""
        url = file_url(self._path.resolve())
        return {"kind": self.kind, "url": url, "revision": self._youngest(), "tree": self._tree}

    def check(self) -> None:
        """Check that the repository can be read, is not empty, and has the folder `tree`."""
        self._check_place()
        if self._youngest() == 0:
            raise self._options.error("path", f"{self._path} is empty: it has no revision 1")
        self.tree()

    def describe(self) -> str:
        """Return one line for reports."""
        path = printable(os.fspath(self._path))
        return f"Subversion repository {path}, {self._youngest():,} revisions"

    @cached_property
    def _estimate(self) -> Estimate:
        """From the size of its revision files."""
        return Estimate(self._youngest(), revision_bytes(self._path / "db" / "revs"))

    def write(self, out: BinaryIO) -> Facts:
        """Write what `svnadmin dump` writes."""
        # Commits that arrive in the meantime are left for the next time.
        youngest = self._youngest()
        # A larger cache than svnadmin's default halves the time that full texts take.
        argv = ["svnadmin", "dump", "-q", "-M", "256", "-r", f"0:{youngest}", str(self._path)]
        return pass_on(argv, out, str(self._path), f"{self._path}: svnadmin dump failed")

    def tree(self, loaded: Path | None = None) -> str:
        """Return the definition's `tree`, or trunk if there is one, or the root."""
        if self._tree is None:
            return default_tree(self._path)
        if self._tree:
            check_tree(self._path, self._tree, self._no_tree)
        return self._tree

    def _no_tree(self) -> UserError:
        return self._options.error(
            "tree",
            f"{self._path} has no folder {self._tree!r} at its youngest revision; name another by TREE=, "
            f"or TREE=/ for the root",
        )


def pass_on(argv: Sequence[str], out: BinaryIO, name: str, failure: str, secret: str = "") -> Facts:
    """Write the dump stream that a program prints to `out`, and return what there is to note of it."""
    with Program(argv, failure, secret=secret) as program:
        reader = DumpReader(
            name,
            program.stdout,
            out=out,
            checks_texts=False,
            remedy="check it with svnadmin verify",
        )
        try:
            reader.run()
        except UserError:
            if reader.is_at_end and program.process.wait() != 0:
                raise program.failed() from None
            raise
        program.finish()
    out.flush()
    return reader.facts()


def _clause(error: OSError | UserError) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}."
    return str(error)

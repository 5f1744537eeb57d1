"""A local Subversion repository as a source. It is only read."""

from __future__ import annotations

import contextlib
import copy as copying
import os
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from vcsbench import processes, words
from vcsbench.errors import UserError
from vcsbench.external import SMALL_FILE, file_url, printable, read_bytes, read_number
from vcsbench.formats import CONFIGURATION_LIMIT, Shape, read_shape
from vcsbench.processes import Program
from vcsbench.records import Head
from vcsbench.sources import svn_files
from vcsbench.sources.base import Definition, Facts, SizeEstimate, digest_values, readable
from vcsbench.sources.dump_reader import DumpReader
from vcsbench.sources.svn_tree import SourceWithTree, describe_failure, summarize_tree
from vcsbench.storages.file_trees import OddPaths, describe_missing_tree, older_revision

# Shards whose files are counted for an estimate. Without shards, single files are counted. Their sizes differ
# much more than the sizes of shards, so there are more of them.
SAMPLE = 8
FILE_SAMPLE = 10_000
LARGEST_REVISION = 2**40
VERIFY = "Check it with svnadmin verify."


class SvnSource(SourceWithTree):
    """A local repository."""

    kind = "svn"

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        super().__init__(name, definition, where)
        self._is_checked = False
        self._path = Path(os.path.abspath(self._path))
        # Errors name the user's repository, also if a copy of it is read (from_copy).
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
        """Return the digest of identity(). If it has changed, a run loads and copies the repository again."""
        db = self._path / "db"
        # The files whose content is part of the identity, and the largest size of each in bytes.
        limits = {"uuid": SMALL_FILE}
        # Repositories of early releases of Subversion have no file `format`.
        if (db / "format").exists():
            limits["format"] = SMALL_FILE
        # Formats before 4 have no settings.
        if (db / "fsfs.conf").exists():
            limits["fsfs.conf"] = CONFIGURATION_LIMIT
        with readable(self._path):
            texts = []
            for name, limit in limits.items():
                texts.append(read_bytes(db / name, limit).decode(errors="replace"))
            content = svn_files.content_digest(self._path)
        # The folder to export, such as trunk, if the definition of the source names one.
        tree = [] if self._tree is None else [self._tree]
        return digest_values("svn", *texts, self.youngest, content, *tree)

    def _check_place(self) -> None:
        """Raise UserError unless the path has a repository that programs can read safely.

        The repository must have no links, pipes or devices (repository_files), and not be in Berkeley DB.
        """
        with readable(self._path):
            self._check_exists()
            if not svn_files.is_svn_repository(self._path):
                raise self._path_error("is not a Subversion repository. Check the path.")
            # This check comes before the first file is opened: a pipe blocks its reader for ever.
            svn_files.check_repository(self._path)
            fs_type = self._read_fs_type()
        if fs_type == "bdb":
            raise self._path_error(
                "is kept in Berkeley DB, which today's Subversion does not read. Run `svnadmin dump` of "
                "the old Subversion that serves it, and give the dump file."
            )
        self._is_checked = True

    def _checked_path(self) -> Path:
        """Return the path for a program, and check the files there if nothing has checked them yet."""
        if not self._is_checked:
            self._check_place()
        return self._path

    def _read_fs_type(self) -> str:
        """Return the kind of the repository's file system: `fsfs`, `bdb` or `fsx`."""
        file = self._path / "db" / "fs-type"
        # Subversion 1.0 wrote no such file, and had Berkeley DB only.
        content = read_bytes(file, SMALL_FILE) if file.exists() else b"bdb"
        return content.decode(errors="replace").strip()

    def read_layout(self) -> Shape | str:
        try:
            fs_type = self._read_fs_type()
            if fs_type != "fsfs":
                return f"its file system is {printable(fs_type)}, not FSFS"
            return read_shape(self._path)
        except (OSError, ValueError, UserError) as error:
            return f"its files do not say it: {error}"

    @property
    def repository(self) -> Path:
        """The path without links."""
        return self._checked_path().resolve()

    def from_copy(self, copy: Path) -> SvnSource:
        """Return the source that reads an exact copy instead. Errors name the user's repository.

        Raise UserError if the copy has later commits.
        """
        with readable(copy):
            if read_number(copy / "db" / "current", LARGEST_REVISION) != self.youngest:
                raise self.changed_error()
        source_of_copy = copying.copy(self)
        source_of_copy._path = copy
        return source_of_copy

    def head(self) -> Head:
        url = file_url(self.repository)
        return {"kind": self.kind, "url": url, "revision": self.youngest, "tree": self._tree}

    def check(self) -> None:
        self._check_place()
        if self.youngest == 0:
            raise self._path_error("is empty: it has no revision 1. Give another.")
        # tree() is called only for its error.
        self.tree()

    def describe(self) -> str:
        path = printable(os.fspath(self._path))
        return f"Subversion repository {path}, {words.count_of(self.youngest, 'revision')}"

    @cached_property
    def _estimate(self) -> SizeEstimate:
        """The size of the revisions on disk, from an even sample of shards, or of files without shards."""
        # A shard is a folder of usually 1,000 revisions. Without shards, `shards` has the revisions' files.
        shards = sorted((self._path / "db" / "revs").iterdir())
        has_files = bool(shards) and shards[0].is_file()
        step = 1 + len(shards) // (FILE_SAMPLE if has_files else SAMPLE)
        sample = shards[::step]
        size = 0
        for shard in sample:
            # glob() finds nothing below a file.
            for file in (shard, *shard.glob("*")):
                if file.is_file():
                    size += file.stat().st_size
        return SizeEstimate(self.youngest, size * len(shards) // max(1, len(sample)))

    def odd_paths(self, behind: int = 0) -> OddPaths:
        repository = self._checked_path()
        tree = self.tree()
        if not behind:
            return summarize_tree(repository, tree).odd_paths
        revision = older_revision(self.youngest, behind)
        # The older revision may lack the tree.
        with contextlib.suppress(UserError):
            return summarize_tree(repository, tree, revision).odd_paths
        return OddPaths()

    def why_no_update(self, behind: int) -> str:
        """Return why no update can begin `behind` revisions before the youngest, in a clause; "" if one can.

        The update begins with a working copy of the tree, such as trunk, at an older revision. So the tree
        must have had its present path there.
        """
        reason = super().why_no_update(behind)
        tree = self.tree()
        # The root ("") is there in each revision.
        if reason or not tree:
            return reason
        revision = older_revision(self.youngest, behind)
        # svnlook lists changes of the tree with its path in each, the youngest first. The last change up to
        # `revision` is needed. Each younger revision has at most one change, which is listed before it.
        limit = (self.youngest - revision) + 1
        argv = ["svnlook", "history", "-r", str(self.youngest), "--limit", str(limit)]
        argv += ["--", os.fspath(self._checked_path()), tree]
        printed = processes.output(argv, describe_failure(self._name, "svnlook history"))
        path_then = _find_path(printed, revision)
        path_now = os.path.normpath(f"/{tree}").encode(errors="surrogateescape")
        if path_then == path_now:
            return ""
        return describe_missing_tree(tree, revision)

    def write(self, out: BinaryIO) -> Facts:
        """Write the output of `svnadmin dump`: a stream of format 2, without deltas."""
        revisions = f"0:{self.youngest}"
        # A larger cache than svnadmin's default halves the time that full texts take.
        argv = ["svnadmin", "dump", "-q", "-M", "256", "-r", revisions, str(self._checked_path())]
        dumping = Program(argv, describe_failure(self._name, "svnadmin dump"))
        return pass_on(dumping, self._name, out)

    def tree(self, loaded: Path | None = None) -> str:
        """Return the tree of the repository itself, which is known without loading it."""
        return self._find_tree(self._checked_path())


def _find_path(history: bytes, revision: int) -> bytes:
    """Return the path that a tree had in a revision, by the output of `svnlook history`; b"" without one.

    After two lines of headings, a line is such as `     7   /trunk`. The youngest revision comes first.
    """
    for line in history.split(b"\n"):
        number, _, path = line.lstrip(b" ").partition(b" ")
        if number.isdigit() and int(number) <= revision:
            return path.lstrip(b" ")
    return b""


def pass_on(dumping: Program, name: str, out: BinaryIO) -> Facts:
    """Write the output of a running program that dumps a repository. `name` is the repository in errors."""
    with dumping:
        reader = DumpReader(name, dumping.stdout, out=out, remedy=VERIFY)
        reader.run_on(dumping)
    out.flush()
    return reader.facts()

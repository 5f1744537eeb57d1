"""A local Subversion repository as a source: it is only ever read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from vcsbench.formats import packed_of, read_format
from vcsbench.sources.base import Estimate, Facts, Options, Source, Stored, digest_of
from vcsbench.sources.process import output, stream
from vcsbench.urls import file_url

# A shard has a thousand files or, packed, two. Estimates are wanted at each start.
SAMPLE = 8


def is_repository(path: Path) -> bool:
    """Whether a Subversion repository lies at `path` (not merely below or above it)."""
    return (path / "format").is_file() and (path / "db" / "fs-type").is_file()


def revision_bytes(folder: Path) -> int:
    """The bytes below a repository's db/revs, from a sample of its shards where it has many."""
    shards = sorted(folder.iterdir())
    sample = shards[:: 1 + len(shards) // SAMPLE]
    files = (file for shard in sample for file in (shard, *shard.glob("*")) if file.is_file())
    return sum(file.stat().st_size for file in files) * len(shards) // max(1, len(sample))


class SvnSource(Source):
    """A repository on this machine."""

    kind = "svn"

    def __init__(self, name: str, definition: Mapping[str, Any], where: str) -> None:
        self._options = Options(name, definition, where)
        self._options.allow("path", "tree")
        self._path = self._options.path("path")
        self._tree = self._options.tree()

    def _youngest(self) -> int:
        try:
            return int((self._path / "db" / "current").read_text().split()[0])
        except (OSError, ValueError, IndexError) as error:
            raise self._options.error(
                "path", f"{self._path}/db/current cannot be read as a revision: {error}"
            ) from error

    def identity(self) -> str:
        """From the repository's UUID and youngest revision."""
        self._check_place()
        try:
            identity = (self._path / "db" / "uuid").read_text()
        except OSError as error:
            raise self._options.error("path", f"{error.filename}: {error.strerror}") from error
        return digest_of("svn", identity, self._youngest())

    def _check_place(self) -> None:
        try:
            if not self._path.exists():
                raise self._options.error("path", f"{self._path} does not exist")
            if not is_repository(self._path):
                raise self._options.error("path", f"{self._path} is not a Subversion repository")
            if self._kind() == "bdb":
                raise self._options.error(
                    "path",
                    f"{self._path} is kept in Berkeley DB, which today's Subversion does not read; dump it "
                    f"with the svnadmin that serves it, and give the dump file",
                )
        except OSError as error:
            raise self._options.error("path", f"{error.filename}: {error.strerror}") from error

    def _kind(self) -> str:
        return (self._path / "db" / "fs-type").read_text().strip()

    def stored(self) -> Stored | str:
        """As its own files say."""
        try:
            if (kind := self._kind()) != "fsfs":
                return f"its file system is {kind}, not FSFS"
            said = read_format(self._path)
            full = (self._youngest() + 1) // said.shard if said.shard else 0
            packed = packed_of(self._path, said.shard)
        except (OSError, ValueError, IndexError) as error:
            return f"its files do not say it: {error}"
        return Stored(said.number, said.shard, said.is_logical, full, packed)

    def head(self) -> dict[str, Any]:
        """The youngest revision; `tree` is None where it is to be found out."""
        url = file_url(self._path.resolve())
        return {"kind": self.kind, "url": url, "revision": self._youngest(), "tree": self._tree}

    def check(self) -> None:
        """The repository is one, can be read, and is not empty."""
        self._check_place()
        if self._youngest() == 0:
            raise self._options.error("path", f"{self._path} is empty: it has no revision 1")
        if tree := self.tree():
            self._check_tree(tree)

    def _check_tree(self, tree: str) -> None:
        failure = f"{self._options.where}.tree: {self._path} has no folder {tree!r}"
        # The slash in its words tells a folder from a file.
        said = output(["svnlook", "tree", "-N", "--", str(self._path), tree], failure)
        if not said.split(b"\n")[0].endswith(b"/"):
            raise self._options.error("tree", f"{tree!r} is a file in {self._path}, no folder")

    def describe(self) -> str:
        """One line for reports."""
        return f"Subversion repository {self._path}, {self._youngest():,} revisions"

    @cached_property
    def _estimate(self) -> Estimate:
        """From the size of its revision files."""
        return Estimate(self._youngest(), revision_bytes(self._path / "db" / "revs"))

    def write(self, out: BinaryIO) -> Facts:
        """What `svnadmin dump` writes."""
        # Commits that arrive meanwhile are left for the next time.
        youngest = self._youngest()
        # A larger cache than svnadmin's default halves the time that full texts take.
        argv = ["svnadmin", "dump", "-q", "-M", "256", "-r", f"0:{youngest}", str(self._path)]
        stream(argv, out, f"{self._path}: svnadmin dump failed")
        return Facts(revisions=youngest)

    def tree(self) -> str:
        """The definition's `tree`, or trunk where there is one, or else the root."""
        if self._tree is not None:
            return self._tree
        top = output(
            ["svnlook", "tree", "-N", "--full-paths", str(self._path)],
            f"{self._path}: svnlook tree failed",
        )
        return "trunk" if b"trunk/" in top.split(b"\n") else ""

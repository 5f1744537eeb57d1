"""A local Subversion repository as a source: it is only ever read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from vcsbench.sources.base import Estimate, Facts, Options
from vcsbench.sources.process import output, stream

# Dump bytes per byte of repository: full texts against deltas. Rough; real ones have 5 to 40.
DUMP_FACTOR = 20


def is_repository(path: Path) -> bool:
    """Whether a Subversion repository lies at `path` (not merely below or above it)."""
    return (path / "format").is_file() and (path / "db" / "fs-type").is_file()


class SvnSource:
    """A repository on this machine."""

    kind = "svn"

    def __init__(self, name: str, definition: Mapping[str, Any], where: str) -> None:
        self._options = Options(name, definition, where)
        self._options.allow("path", "tree")
        self._path = Path(self._options.text("path").removeprefix("file://")).expanduser()
        self._tree = definition.get("tree")
        if self._tree is not None and not isinstance(self._tree, str):
            raise self._options.error("tree", f"must be a path, not {self._tree!r}")

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
        parts = f"svn {identity} {self._youngest()}"
        return hashlib.sha256(parts.encode()).hexdigest()

    def _check_place(self) -> None:
        if not self._path.exists():
            raise self._options.error("path", f"{self._path} does not exist")
        if not is_repository(self._path):
            raise self._options.error("path", f"{self._path} is not a Subversion repository")

    def check(self) -> None:
        """The repository is one, can be read, and is not empty."""
        self._check_place()
        if self._youngest() == 0:
            raise self._options.error("path", f"{self._path} is empty: it has no revision 1")
        self.tree()

    def scale(self) -> float:
        """What the user brought is measured whole."""
        return 1.0

    def describe(self) -> str:
        """One line for reports."""
        return f"Subversion repository {self._path}, {self._youngest():,} revisions"

    def estimate(self) -> Estimate:
        """From the size of its files."""
        used = sum(file.stat().st_size for file in (self._path / "db").rglob("*") if file.is_file())
        return Estimate(
            revisions=self._youngest(),
            dump_bytes=used * DUMP_FACTOR,
            repository_bytes=used,
            files=max(1, used // 20_000),
            tree_bytes=used,
        )

    def write(self, out: BinaryIO) -> Facts:
        """What `svnadmin dump` writes."""
        failure = f"{self._path}: svnadmin dump failed"
        # A larger cache than svnadmin's default halves the time that full texts take.
        stream(["svnadmin", "dump", "-q", "-M", "256", str(self._path)], out, failure)
        return Facts(revisions=self._youngest())

    def tree(self) -> str:
        """The definition's `tree`, or trunk where there is one, or else the root."""
        if self._tree is not None:
            return self._tree.strip("/")
        top = output(
            ["svnlook", "tree", "-N", "--full-paths", str(self._path)],
            f"{self._path}: svnlook tree failed",
        )
        return "trunk" if b"trunk/" in top.split(b"\n") else ""

"""The sources `directory` and `archive`."""

from __future__ import annotations

import errno
import os
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from vcsbench.errors import UserError
from vcsbench.sources import dumpstream
from vcsbench.sources.base import Estimate, Facts, Options, Source, digest_of, digest_of_file
from vcsbench.sources.tree import unpack
from vcsbench.sources.tree.nodes import Nodes
from vcsbench.sources.tree.unpack import shown_path
from vcsbench.treefiles import entries

TRUNK = "trunk"
# One revision makes the tree.
REVISIONS = 1
# The only date that there is, so that the same tree gives the same bytes.
DATE = b"2000-01-01T00:00:00.000000Z"
# Of a repository's size against its tree's, and of an unpacked archive against a packed one.
REPOSITORY_FACTOR, PACKED_FACTOR = 0.5, 4


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn the system's errors about files below a path into UserError; those of writing pass."""
    try:
        yield
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        raise _unreadable(path, error) from error
    except OSError as error:
        if error.errno not in (errno.ENAMETOOLONG, errno.ELOOP, errno.EIO, errno.ESTALE):
            raise
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> UserError:
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(path)
    name = name if len(name) <= 200 else f"{name[:197]}..."
    return UserError(f"{shown_path(Path(name))}: cannot be read: {error.strerror}.")


class _Tree(Source):
    def __init__(self, name: str, definition: Mapping[str, Any], where: str) -> None:
        self._options = Options(name, definition, where)
        self._options.allow("path")
        self._path = self._options.path("path")

    def describe(self) -> str:
        """One line for reports."""
        return f"the {self.kind} {self._path}, as one commit"

    def head(self) -> dict[str, Any]:
        """Itself."""
        return {"kind": self.kind, "path": str(self._path)}

    def coming(self) -> int:
        """The one revision."""
        return REVISIONS

    def tree(self, loaded: Path | None = None) -> str:
        """Trunk."""
        return TRUNK

    @contextmanager
    def _open(self, counts: Counter[str]) -> Iterator[Path]:
        """Yield the folder of the tree; add to `counts` what it lacks."""
        yield self._path

    def write(self, out: BinaryIO) -> Facts:
        """Write the tree as revision 1."""
        counts = Counter[str]()
        with _readable(self._path), self._open(counts) as root:
            nodes = Nodes(root, TRUNK.encode())
            nodes.changed = counts
            identity = str(uuid.uuid5(uuid.NAMESPACE_OID, self.identity()))
            out.write(dumpstream.header(identity))
            for number in range(REVISIONS + 1):
                out.write(dumpstream.revision(number, {b"svn:date": DATE}))
            for record in nodes.records():
                out.write(record)
            out.flush()
            return Facts(REVISIONS, nodes.notes())


class DirectorySource(_Tree):
    """Any directory."""

    kind = "directory"

    def identity(self) -> str:
        """Return a digest of the names, sizes, modes and times of everything in it."""
        self.check()
        with _readable(self._path):
            said = [
                (os.path.relpath(path, self._path), s.st_mode, s.st_size, s.st_mtime_ns)
                for path, s in entries(self._path)
            ]
        return digest_of("directory", self._path.resolve(), said)

    def check(self) -> None:
        """It has to be one that can be read."""
        if not self._path.is_dir():
            what = "is no folder" if self._path.exists() else "does not exist"
            raise self._options.error("path", f"{self._path} {what}")
        if not os.access(self._path, os.R_OK | os.X_OK):
            raise self._options.error("path", f"{self._path} cannot be read")

    @cached_property
    def _estimate(self) -> Estimate:
        """Estimate from the sizes of its files."""
        with _readable(self._path):
            found = [s.st_size for _, s in entries(self._path)]
        total = sum(found)
        return Estimate(REVISIONS, int(total * REPOSITORY_FACTOR), len(found), total)


class ArchiveSource(_Tree):
    """An archive: .tar, .tar.gz, .tar.xz, .tar.zst or .zip, recognised by its first bytes.

    A single folder at its top is left out.
    """

    kind = "archive"

    def identity(self) -> str:
        """From the file's path, size and time."""
        self.check()
        return digest_of_file(self.kind, self._path)

    def check(self) -> None:
        """It has to be one that can be unpacked."""
        self._options.check_file("path", self._path)
        if not unpack.is_archive(self._path):
            raise self._options.error(
                "path", f"{self._path} is no archive (.tar, plain or .gz, .xz, .zst; .zip)"
            )

    @cached_property
    def _estimate(self) -> Estimate:
        """From the file's size."""
        total = self._path.stat().st_size * PACKED_FACTOR
        return Estimate(REVISIONS, int(total * REPOSITORY_FACTOR), tree_bytes=total)

    @contextmanager
    def _open(self, counts: Counter[str]) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="vcsbench-archive-") as folder:
            yield unpack.unpack(self._path, Path(folder), counts)

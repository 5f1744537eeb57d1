"""Provide an empty repository: on it, a command takes its fixed cost only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from vcsbench.config.configuration import EMPTY
from vcsbench.sources import dumpstream
from vcsbench.sources.base import Estimate, Facts, Options, Source

UUID = "7a1d3f0c-5c0e-4d0e-9a55-3a4c9f3e9e01"
TREE = "trunk"


class EmptySource(Source):
    """One revision with one empty folder."""

    kind = EMPTY

    def __init__(self, name: str, definition: Mapping[str, Any], where: str) -> None:
        Options(name, definition, where).allow()

    def identity(self) -> str:
        """Return a constant: the history never changes."""
        return UUID.replace("-", "")

    def describe(self) -> str:
        """Return one line for reports."""
        return "an empty repository"

    @cached_property
    def _estimate(self) -> Estimate:
        return Estimate(revisions=1, repository_bytes=100_000)

    def write(self, out: BinaryIO) -> Facts:
        """Write revisions 0 and 1."""
        properties = {
            b"svn:log": b"Add trunk.",
            b"svn:author": b"vcsbench",
            b"svn:date": dumpstream.date(datetime(2014, 1, 1, tzinfo=UTC)),
        }
        out.write(dumpstream.header(UUID))
        out.write(dumpstream.revision(1, properties))
        out.write(dumpstream.directory(TREE.encode("ascii")))
        out.flush()
        return Facts(revisions=1)

    def tree(self, loaded: Path | None = None) -> str:
        """Return the path of the empty folder."""
        return TREE

"""A Subversion repository at a URL as a source, read with svnrdump."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, BinaryIO

from vcsbench.errors import UserError
from vcsbench.sources.base import Estimate, Facts, Options, Source, digest_of
from vcsbench.sources.process import output, stream

SCHEMES = ("http", "https", "svn", "svn+ssh", "file")
_URL = re.compile(r"({})://[^\s]+".format("|".join(map(re.escape, SCHEMES))))
INFO = ("svn", "info", "--non-interactive", "--show-item")
# Rough sizes per revision: public histories have 4 to 60 KB in the repository.
REPOSITORY_BYTES = 20_000
# Where the server cannot be asked, the history is taken to fill a shard.
SHARD = 1000


class SvnUrlSource(Source):
    """A repository behind a server. Only write() needs the server: check() does not ask it.

    It is loaded once: later revisions come with a higher `revision` in the definition.
    """

    kind = "svn"

    def __init__(self, name: str, definition: Mapping[str, Any], where: str) -> None:
        self._options = Options(name, definition, where)
        self._options.allow("url", "tree", "revision")
        self._url = self._options.text("url").rstrip("/")
        if not _URL.fullmatch(self._url):
            raise self._options.error(
                "url", f"must begin with {':// or '.join(SCHEMES)}://, not {self._url!r}"
            )
        tree = self._options.tree()
        self._tree = "trunk" if tree is None else tree
        self._revision = self._options.whole("revision", 0)
        if self._revision < 1 and "revision" in definition:
            raise self._options.error("revision", f"must be 1 or more, not {self._revision}")

    def identity(self) -> str:
        """From the URL and the revision that the definition names."""
        return digest_of("svn", self._url, self._revision)

    def head(self) -> dict[str, Any]:
        """The revision that the definition names, or the youngest (0)."""
        said = {"url": self._url, "revision": self._revision, "tree": self._tree}
        return {"kind": self.kind, **said}

    def describe(self) -> str:
        """One line for reports."""
        until = f", up to revision {self._revision:,}" if self._revision else ""
        return f"Subversion repository {self._url}{until}"

    @cached_property
    def _estimate(self) -> Estimate:
        """From the number of revisions, for which the server is asked where none is named."""
        try:
            revisions = self._youngest()
        except UserError:  # write() will say it; what was loaded before needs no server
            revisions = SHARD
        return Estimate(revisions, revisions * REPOSITORY_BYTES)

    def _youngest(self) -> int:
        if self._revision:
            return self._revision
        failure = f"{self._options.where}.url: {self._url} cannot be read"
        return int(output([*INFO, "revision", "--", f"{self._url}@"], failure))

    def write(self, out: BinaryIO) -> Facts:
        """What `svnrdump dump` writes: a stream of format 3, with deltas."""
        youngest = self._youngest()
        if youngest == 0:
            raise self._options.error("url", f"{self._url} is empty: it has no revision 1")
        self._check_tree(youngest)
        argv = ["svnrdump", "dump", "-q", "--non-interactive", "-r", f"0:{youngest}", self._url]
        stream(argv, out, f"{self._url}: svnrdump dump failed")
        return Facts(revisions=youngest)

    def _check_tree(self, revision: int) -> None:
        place = f"{self._url}/{self._tree}".rstrip("/")
        failure = (
            f"{self._options.where}.tree: {self._url} has no folder {self._tree!r} at revision "
            f"{revision}; name another, or '' for the root"
        )
        argv = [*INFO, "kind", "-r", str(revision), "--", f"{place}@{revision}"]
        if output(argv, failure).strip() != b"dir":
            raise UserError(failure)

    def tree(self) -> str:
        """The definition's `tree`, or trunk."""
        return self._tree

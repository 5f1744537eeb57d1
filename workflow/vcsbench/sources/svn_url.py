"""A Subversion repository at a URL as a source, read with svnrdump."""

from __future__ import annotations

import contextlib
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from vcsbench.errors import UserError
from vcsbench.external import parse_number
from vcsbench.sources.base import Estimate, Facts, Options, Source, digest_of
from vcsbench.sources.process import Program
from vcsbench.sources.svn import LARGEST_REVISION, pass_on
from vcsbench.urls import pegged, split_credentials

SCHEMES = ("http", "https", "svn", "svn+ssh", "file")
_URL = re.compile(r"({})://[^\s]+".format("|".join(map(re.escape, SCHEMES))))
# Rough sizes per revision: public histories have 4 to 60 KB in the repository.
REPOSITORY_BYTES = 20_000
# Where the server cannot be asked, the history is taken to fill a shard.
SHARD = 1000
TRUNK = "trunk"


class SvnUrlSource(Source):
    """A repository behind a server. Only write() needs the server: check() does not connect to it.

    It is loaded once: later revisions come with a higher `revision` in the definition.
    """

    kind = "svn"

    def __init__(self, name: str, definition: Mapping[str, Any], where: str) -> None:
        self._options = Options(name, definition, where)
        self._options.allow("url", "tree", "revision")
        self._url, self._user, self._password = split_credentials(
            self._options.text("url").rstrip("/")
        )
        if not _URL.fullmatch(self._url):
            raise self._options.error(
                "url", f"must begin with {':// or '.join(SCHEMES)}://, not {self._url!r}"
            )
        self._tree = self._options.tree()
        self._revision = self._options.whole("revision", 0)
        if self._revision < 1 and "revision" in definition:
            raise self._options.error("revision", f"must be 1 or more, not {self._revision}")

    def identity(self) -> str:
        """From the URL and the revision that the definition names."""
        tree = self._tree if self._tree not in (None, TRUNK) else None
        return digest_of("svn", self._url, self._revision, *([] if tree is None else [tree]))

    def head(self) -> dict[str, Any]:
        """Return the revision that the definition names, or the youngest (0); {} where a password is needed,
        which belongs in no result."""
        if self._password:
            return {}
        said = {"url": self._url, "revision": self._revision, "tree": self._tree}
        return {"kind": self.kind, **said}

    def describe(self) -> str:
        """Return one line for reports."""
        until = f", up to revision {self._revision:,}" if self._revision else ""
        return f"Subversion repository {self._url}{until}"

    @cached_property
    def _estimate(self) -> Estimate:
        """From the number of revisions, for which the server is asked where none is named."""
        try:
            revisions = self._youngest()
        except UserError:  # write() reports it; what was loaded before needs no server
            revisions = SHARD
        return Estimate(revisions, revisions * REPOSITORY_BYTES)

    def _youngest(self) -> int:
        if self._revision:
            return self._revision
        failure = f"{self._options.where}.url: {self._url} cannot be read"
        printed = self._info(failure, "revision", pegged(self._url))
        number = parse_number(printed, LARGEST_REVISION)
        if number is None:
            raise UserError(f"{failure}: its youngest revision is {printed[:40]!r}")
        return number

    def _info(self, failure: str, item: str, *words: str) -> bytes:
        argv = ["svn", "info", *self._login(), "--show-item", item, *words]
        with Program(argv, failure, secret=self._password) as program:
            return program.whole()

    def _login(self) -> Sequence[str]:
        """Return the options of a client. The password goes through its standard input."""
        options = ["--non-interactive", "--no-auth-cache"]
        if self._user:
            options += ["--username", self._user]
        return [*options, "--password-from-stdin"] if self._password else options

    def write(self, out: BinaryIO) -> Facts:
        """Write what `svnrdump dump` prints: a stream of format 3, with deltas."""
        youngest = self._youngest()
        if youngest == 0:
            raise self._options.error("url", f"{self._url} is empty: it has no revision 1")
        self._tree = self._tree_at(youngest)
        # svnrdump takes no @ behind its URL.
        argv = ["svnrdump", "dump", "-q", *self._login(), "-r", f"0:{youngest}", self._url]
        failure = f"{self._url}: svnrdump dump failed"
        return pass_on(argv, out, self._url, failure, secret=self._password)

    def _tree_at(self, revision: int) -> str:
        """Return the definition's `tree`, or trunk if there is one, or the root. The server is asked."""
        if self._tree is None:
            with contextlib.suppress(UserError):
                if self._kind_of(TRUNK, revision, "") == b"dir":
                    return TRUNK
            return ""
        failure = (
            f"{self._options.where}.tree: {self._url} has no folder {self._tree!r} at revision "
            f"{revision}; name another, or '' for the root"
        )
        if self._kind_of(self._tree, revision, failure) != b"dir":
            raise UserError(failure)
        return self._tree

    def _kind_of(self, tree: str, revision: int, failure: str) -> bytes:
        place = f"{self._url}/{urllib.parse.quote(tree)}".rstrip("/")
        return self._info(failure, "kind", "-r", str(revision), f"{place}@{revision}").strip()

    def tree(self, loaded: Path | None = None) -> str:
        """Return the definition's `tree`, or what write() found."""
        return TRUNK if self._tree is None else self._tree

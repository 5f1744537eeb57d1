"""Subversion repositories at URLs: as sources, and their youngest trees as folders."""

import shlex
import urllib.parse
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from vcsbench.errors import UserError
from vcsbench.external import URL_FORM, is_plain_url, parse_number, pegged
from vcsbench.processes import Program, output
from vcsbench.records import Head
from vcsbench.sources.base import (
    TRUNK,
    Definition,
    Facts,
    Options,
    SizeEstimate,
    Source,
    digest_values,
)
from vcsbench.sources.svn_files import check_local_url
from vcsbench.sources.svn_source import LARGEST_REVISION, SvnSource, pass_on
from vcsbench.sources.svn_tree import choose_tree

# svn reads the passwords that the user has let it store, asks for none, and stores none.
LOGIN = ("--non-interactive", "--no-auth-cache")
# svn:// has no limit of its own. A server may need minutes for a large revision.
ANSWER_S, PAUSE_S = 60, 600
# Public histories have 4 to 60 KB per revision in the repository.
REVISION_BYTES = 20_000
# For an estimate, if the server does not answer.
UNKNOWN_REVISIONS = 1000


class SvnUrlSource(Source):
    """A repository behind a server, which is loaded once. Only write() needs the server."""

    kind = SvnSource.kind

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        self._options = Options(name, definition, where, "url", "tree")
        self._url = self._options.get_text("url").rstrip("/")
        # The URL is not shown: it may contain a password.
        if not is_plain_url(self._url):
            raise self._options.error("url", f"{URL_FORM}.")
        self._tree = self._options.get_tree()

    def identity(self) -> str:
        """Return a digest of the URL and the tree, and not of revisions: later commits are not loaded."""
        # trunk is the usual tree, so a definition that names it has the same identity as one without a tree.
        tree = [] if self._tree in (None, TRUNK) else [self._tree]
        return digest_values("svn", self._url, 0, *tree)

    def head(self) -> Head:
        # 0 stands for the youngest revision (export_head).
        return {"kind": self.kind, "url": self._url, "revision": 0, "tree": self._tree}

    def describe(self) -> str:
        return f"Subversion repository {self._url}"

    @cached_property
    def _estimate(self) -> SizeEstimate:
        try:
            revisions = self._read_youngest()
        except UserError:
            revisions = UNKNOWN_REVISIONS
        return SizeEstimate(revisions, revisions * REVISION_BYTES)

    def _read_youngest(self) -> int:
        failure = f"{self._options.describe_key('url')}: {self._url} cannot be read"
        printed = self._run_info(failure, "revision", pegged(self._url))
        number = parse_number(printed, LARGEST_REVISION)
        if number is None:
            raise UserError(
                f"{failure}: its youngest revision is {printed[:40]!r}. Check the server."
            )
        return number

    def _run_info(self, failure: str, item: str, *words: str) -> bytes:
        """Return an item of `svn info`, such as "revision". `words` are further options, and the URL."""
        check_local_url(self._url)
        argv = ["svn", "info", *LOGIN, "--show-item", item, *words]
        return output(argv, failure, ANSWER_S)

    def write(self, out: BinaryIO) -> Facts:
        """Write the output of `svnrdump dump`: a stream of format 3, with deltas."""
        youngest = self._read_youngest()
        if youngest == 0:
            raise self._options.error(
                "url", f"{self._url} is empty: it has no revision 1. Give another."
            )
        self._tree = self._find_tree(youngest)
        # svnrdump takes no @ behind its URL.
        argv = ["svnrdump", "dump", "-q", *LOGIN, "-r", f"0:{youngest}", self._url]
        dumping = Program(argv, f"{self._url}: svnrdump dump failed", limit_s=PAUSE_S)
        return pass_on(dumping, self._url, out)

    def _find_tree(self, revision: int) -> str:
        """Return the path of the folder to export, which the server has at this revision; "" is the root.

        It is the definition's `tree`. Without one, it is trunk if trunk exists, otherwise the root. Raise
        UserError if the repository has no folder at the definition's `tree`.
        """
        if self._tree is None:
            # `svn info` of trunk would fail without trunk, but also if the server does not answer.
            argv = ["svn", "list", *LOGIN, "-r", str(revision), f"{self._url}@{revision}"]
            names = output(argv, f"{self._url}: its folders cannot be listed", ANSWER_S)
            return choose_tree(names)
        failure = (
            f"{self._options.describe_key('tree')}: {self._url} has no folder {self._tree!r} at revision "
            f"{revision}. Name another, or '' for the root"
        )
        # Without @ and a number, svn would look for the youngest folder of this name.
        tree_url = f"{_url_of_tree(self._url, self._tree)}@{revision}"
        kind = self._run_info(failure, "kind", "-r", str(revision), tree_url).strip()
        if kind != b"dir":
            raise UserError(f"{failure}.")
        return self._tree

    def tree(self, loaded: Path | None = None) -> str:
        """Return the definition's `tree`, or the tree from write()."""
        return TRUNK if self._tree is None else self._tree


def _url_of_tree(url: str, tree: str) -> str:
    return f"{url}/{urllib.parse.quote(tree)}".rstrip("/")


def export_head(
    url: str, folder: str, svn: str, revision: str, tree: str | None = None
) -> list[str]:
    """Export a folder of a repository to a new local folder, by a client of Subversion.

    `svn` is the start of the client's command line, for a shell, such as "env LD_LIBRARY_PATH=/lib /x/svn".
    `revision` "0" is the youngest revision. Without `tree`, trunk is exported, or the root if there is no
    trunk. Return notes for reports: always []. Raise UserError if svn fails, or does not answer in time.
    """
    check_local_url(url)
    failure = f"{url}: svn export failed"
    client = shlex.split(svn)
    options = ["--non-interactive"]
    if revision != "0":
        options += ["-r", revision]
    if tree is None:
        argv = [*client, "list", *options, pegged(url)]
        names = output(argv, failure, limit_s=ANSWER_S)
        tree = choose_tree(names)
    tree_url = pegged(_url_of_tree(url, tree))
    argv = [*client, "export", "--ignore-externals", *options, tree_url, folder]
    with Program(argv, failure, limit_s=PAUSE_S) as program:
        # svn prints each file that it has exported, so a silence of PAUSE_S seconds is a failure.
        for _ in program.stdout:
            pass
        program.finish()
    return []

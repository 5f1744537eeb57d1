"""Define the clones of Mercurial and Fossil with a working tree, which commands read or bring up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench.storages.file_trees import copy_tree
from vcsbench.subjects import Words
from vcsbench.subjects.client_folder import Checkout
from vcsbench.subjects.repository import Repository
from vcsbench.systems.fossil import FOSSIL_FILE, newest_checkins, query_database, run_fossil
from vcsbench.systems.mercurial import run_hg

if TYPE_CHECKING:
    from vcsbench.records import TreeRecord

TRUNK = "trunk"
# Mercurial's last revision of trunk before a number of the newest revisions of all branches. Mercurial stores
# tags in a revision of their own, which no other system has.
OLDER_REVISION = "max(ancestors(trunk) - last(sort(all() - file('path:.hgtags'), date), {}))"
# Fossil's database of a working tree, next to its files.
CHECKOUT_DATABASE = ".fslckout"
# The number of trunk's check-ins among a number of the newest check-ins of all branches.
TRUNK_OF_NEWEST = (
    "SELECT count(*) FROM (SELECT objid FROM event WHERE type = 'ci' ORDER BY mtime DESC LIMIT ?) "
    "JOIN tagxref ON tagxref.rid = objid JOIN tag ON tag.tagid = tagxref.tagid "
    "WHERE tagname = 'branch' AND value = 'trunk'"
)
CLUSTERS = (
    "SELECT uuid FROM blob JOIN tagxref ON tagxref.rid = blob.rid JOIN tag ON tag.tagid = tagxref.tagid "
    "WHERE tagname = 'cluster'"
)


class FossilRepository(Repository):
    """A copy of a Fossil repository. {trunk} in commands is its newest check-in (commit) of trunk."""

    @property
    def trunk(self) -> str:
        (checkin,) = newest_checkins(self.path / FOSSIL_FILE, 1)
        return checkin

    def words(self) -> Words:
        return {**Repository.words(self), "trunk": lambda: self.trunk}

    def idle_words(self) -> Words:
        return {**super().idle_words(), "trunk": TRUNK}


class HgCheckout(Checkout):
    """A clone of a Mercurial repository."""

    kind = "hg_checkout"

    def _make(self, path: Path, temporary: Path) -> TreeRecord:
        """Make the template: a clone of trunk without the newest commits."""
        # Mercurial writes caches into a repository that it reads, so it reads a temporary copy.
        source = temporary / "source"
        copy_tree(self.repository.path, source)
        revision = TRUNK
        # The clone will lack the newest `commits` commits of all branches.
        if self.commits:
            options = ("-R", source, "-r", OLDER_REVISION.format(self.commits), "-T", "{node}")
            revision = run_hg("log", *options)
        # A clone on one disk would have links to the files of its source. --pull copies them by the protocol.
        run_hg("clone", "--quiet", "--pull", "-r", revision, "-u", revision, source, path)
        # hgrc has the path of the source, which is removed with `temporary`.
        (path / ".hg" / "hgrc").unlink()
        return {}


class FossilCheckout(Checkout):
    """A clone of a Fossil repository. Its file is in its working tree."""

    kind = "fossil_checkout"

    def check(self) -> None:
        super().check()
        # The first command in a home folder writes a user's settings there. So it must not be a timed run.
        run_fossil(self.run, "timeline", "-n", "1", cwd=self.path)

    def _make(self, path: Path, temporary: Path) -> TreeRecord:
        """Make the template: a clone without the newest check-ins (commits) of trunk."""
        source = temporary / "source"
        copy_tree(self.repository.path, source)
        # Fossil may write to a repository that it clones, and the prepared copies are read-only.
        (source / FOSSIL_FILE).chmod(0o644)
        path.mkdir()
        clone = path / FOSSIL_FILE
        run_fossil(temporary, "clone", "--no-open", source / FOSSIL_FILE, clone)
        # Of the newest `commits` check-ins of all branches, those of trunk are removed from the clone.
        (number_removed,) = query_database(clone, TRUNK_OF_NEWEST, self.commits)
        # The list begins with the newest check-in. The last one is the newest of those that stay.
        *removed, newest_left = newest_checkins(clone, int(number_removed) + 1)
        run_fossil(temporary, "open", clone, newest_left, "--workdir", path)
        if removed:
            _remove_checkins(path, removed, temporary)
        return {}

    def _copy(self) -> None:
        super()._copy()
        # The copied database has the path of the template's repository, and gets the path of the copy's.
        _change(
            self.path / CHECKOUT_DATABASE,
            "UPDATE vvar SET value = ? WHERE name = 'repository'",
            self.path / FOSSIL_FILE,
        )

    def restore(self) -> None:
        super().restore()
        # A clone that lacks no commits is not updated.
        if not self.commits:
            return
        assert self.origin
        # The timed update fetches from this URL. The server has an address only now, after check().
        _change(
            self.path / FOSSIL_FILE,
            "REPLACE INTO config(name, value, mtime) VALUES ('last-sync-url', ?, 0)",
            self.origin(),
        )


def _remove_checkins(path: Path, checkins: Sequence[str], home: Path) -> None:
    """Remove check-ins from the clone at `path`, so that an update can fetch them."""
    run_fossil(home, "purge", "checkins", *checkins, cwd=path)
    # A cluster is a list of artifacts, such as check-ins. The server names only clusters, and artifacts that
    # are in none. A clone that kept the newest cluster would seem to have all, and would fetch nothing.
    clusters = query_database(path / FOSSIL_FILE, CLUSTERS)
    if clusters:
        run_fossil(home, "purge", "artifacts", *clusters, cwd=path)
    # `purge` moves artifacts to a store in the clone, from which Fossil could restore them.
    for number in query_database(path / FOSSIL_FILE, "SELECT peid FROM purgeevent"):
        run_fossil(home, "purge", "obliterate", number, "--force", cwd=path)


def _change(file: Path, statement: str, value: str | Path) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(statement, (str(value),))

"""A local git repository as a source."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.external import one_line, printable
from vcsbench.processes import Program
from vcsbench.sources import dump_format, git_estimate, git_log, git_objects
from vcsbench.sources.base import Definition, Facts, Head, LocalSource, SizeEstimate
from vcsbench.sources.git_conversion import RevisionWriter
from vcsbench.sources.git_layout import find_layout
from vcsbench.sources.git_repository import Git, open_repository

FIRST_PARENT = "first-parent"
SHALLOW = "The clone is shallow: its history begins in the middle."


class GitSource(LocalSource):
    """The history of a branch along first parents, as trunk."""

    kind = "git"
    doing = "converting and loading"
    keys: tuple[str, ...] = ("path", "branch", "history")

    def __init__(
        self, name: str, definition: Definition, where: str, *, root: str | Path = "."
    ) -> None:
        """Raise UserError for a wrong definition. `root` is the checkout, for git's private folder."""
        super().__init__(name, definition, where)
        self._root = root
        self._branch: str = definition.get("branch", "HEAD")
        self._planned_revisions = 0

    @contextmanager
    def _open(self) -> Iterator[Git]:
        """Yield git on the repository. Raise UserError without a repository, and without the program git."""
        self._check_exists()
        if not shutil.which("git"):
            reason = f"only the program git can read {self._path}. Install the package git."
            raise self._options.error("path", reason)
        if find_layout(self._path) is None:
            raise self._path_error("is not a git repository. Give one.")
        with open_repository(self._path, self._root) as git:
            yield git

    def _find_commit(self, git: Git) -> str:
        """Return the full name of the commit at the end of the branch, its hex digest.

        Raise UserError if the branch names no commit, or if the commit's object is missing.
        """
        # The name of a commit, or of a tag with a message.
        name = self._parse(git, self._branch)
        # `^main` means all commits that are not on main, so it names no commit.
        if name.startswith("^"):
            raise self._no_commit_error(git)
        # rev-parse finds the name of an object without reading the object, which may be missing.
        try:
            git.output("cat-file", "-e", name)
        except UserError:
            raise git.missing_error(name.encode()) from None
        # A tag leads to a commit, perhaps through other tags.
        return self._parse(git, f"{name}^{{commit}}")

    def _parse(self, git: Git, name: str) -> str:
        """Return the full name of the object that a name such as `main` or `HEAD` stands for in git."""
        try:
            parsed = git.output("rev-parse", "--verify", "-q", "--end-of-options", name)
        except UserError:
            raise self._no_commit_error(git) from None
        return parsed.decode("ascii").strip()

    def _no_commit_error(self, git: Git) -> UserError:
        """Return the error of a branch that names no commit. Raise git's own error if refs are damaged."""
        # This command is only run for its error.
        git.output("for-each-ref", "--count=1")
        if self._branch != "HEAD":
            reason = f"{self._path} has no commit {self._branch[:200]!r}. Give a branch of it."
            return self._options.error("branch", reason)
        branch = printable(git.head.removeprefix(b"ref:").strip())
        return self._path_error(
            f"has no commit on its current branch, {branch}. `git symbolic-ref HEAD refs/heads/NAME` in "
            "it chooses another one."
        )

    def identity(self) -> str:
        """Return a digest of the commit, and of a shallow clone's start, at the time of the first call."""
        return self._identity

    @cached_property
    def _identity(self) -> str:
        with self._open() as git:
            return self._read_identity(git)

    def _read_identity(self, git: Git) -> str:
        state = f"git {self._find_commit(git)} {FIRST_PARENT}".encode() + git.shallow
        return hashlib.sha256(state).hexdigest()

    def head(self) -> Head:
        with self._open() as git:
            return {"kind": self.kind, "path": str(self._path), "commit": self._find_commit(git)}

    def check(self) -> None:
        with self._open() as git:
            self._find_commit(git)

    def describe(self) -> str:
        """Return such as `git repository /srv/x, first parents of main at 0123456789ab`."""
        with self._open() as git:
            commit = self._find_commit(git)[:12]
        branch = printable(self._branch)
        return f"git repository {one_line(self._path)}, first parents of {branch} at {commit}"

    @cached_property
    def _estimate(self) -> SizeEstimate:
        """The estimated size of the history in Subversion: its revisions, and the bytes of its texts.

        git reads all commits and trees, which takes 1 s for 50,000 commits. Raise UserError if an object is
        missing, as in a partial clone, or if the youngest tree cannot be loaded.
        """
        with self._open() as git:
            commit = self._find_commit(git)
            commits = _count_commits(git, commit)
            # read_tree() is called only for its error.
            git_objects.read_tree(git, commit)
            # One git pipes the names of all objects to another git, which prints their sizes. Python would be
            # slow at passing on millions of names.
            with _walk(git, commit, "rev-list", "--objects") as listing:
                object_list = listing.process.stdout
                # This is for the type checker.
                assert object_list is not None
                with git.start("cat-file", git_estimate.SIZES, stdin=object_list) as sizes:
                    text_bytes = git_estimate.estimate_texts(sizes.stdout, git)
                    # If `sizes` failed, nobody reads the list any more, and `listing` would wait for ever.
                    sizes.finish()
                listing.finish()
        # Revision 1 makes the folders trunk, branches and tags.
        return SizeEstimate(1 + commits, text_bytes)

    def write(self, out: BinaryIO) -> Facts:
        """Write the converted history as a dump stream, and return facts about it.

        Raise UserError if the history has changed since identity() was called, or if git cannot read it.
        """
        with self._open() as git:
            # identity() returns the digest of its first call.
            if self._read_identity(git) != self.identity():
                raise self.changed_error()
            commit = self._find_commit(git)
            with progress.stage("counting the commits"):
                commits = _count_commits(git, commit)
            # A progress display compares this number with the revisions that are loaded.
            self._planned_revisions = 1 + commits
            out.write(dump_format.header(self.identity()))
            # One git reads the texts of files. Another git prints the changes, the oldest commit first.
            with (
                git_objects.open_blobs(git) as blobs,
                _walk(git, commit, "log", "--reverse", *git_log.DETAILS) as log,
            ):
                writer = RevisionWriter(blobs, out)
                for _ in range(commits):
                    writer.write(git_log.read_details(log, git))
                # git may fail after its last commit.
                log.finish()
            out.flush()
            facts = writer.facts()
            if git.shallow:
                facts.notes.append(SHALLOW)
        return facts

    def expected_revisions(self) -> int:
        """Return the number of revisions, 0 before write() has counted the commits."""
        return self._planned_revisions


def _walk(git: Git, commit: str, *words: str) -> Program:
    """Start a command of git, such as ("rev-list", "--count"), on a commit and its first parents."""
    return git.start(*words, f"--{FIRST_PARENT}", commit, "--")


def _count_commits(git: Git, commit: str) -> int:
    with _walk(git, commit, "rev-list", "--count") as counting:
        return int(counting.read_all())

"""A local git repository as a source."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, BinaryIO

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.external import one_line, printable
from vcsbench.sources import dump_format
from vcsbench.sources.base import Definition, Facts, Head, Options, SizeEstimate, Source
from vcsbench.sources.git_history import Commit, ConversionPlan, RevisionWriter, read_commits
from vcsbench.sources.git_objects import (
    DIFF_TREE,
    FOLDER,
    SUBMODULE,
    Objects,
    blob_sizes,
    list_tree,
    missing,
    read_changes,
)
from vcsbench.sources.git_repository import (
    HEADS,
    REMOTES,
    Git,
    Ref,
    find_layout,
    open_repository,
    pack_bytes,
)

FIRST_PARENT = "first-parent"
WHOLE = "whole"
# Bytes of repository per byte of git's packs: 0.5 to 1.2 on four histories of 1,000 to 35,000 commits.
REPOSITORY_FACTOR = 1.2


def is_repository(path: Path) -> bool:
    """Return True if a git repository lies at `path` itself: bare, a work tree's top or a linked one.

    Raise UserError with git's own reason if one lies there that git cannot read.
    """
    if find_layout(path) is None:
        return False
    with open_repository(path):
        return True


class GitSource(Source):
    """The history of a branch along first parents as trunk, or all of the history."""

    kind = "git"
    doing = "converting and loading"

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        self._options = Options(name, definition, where)
        self._options.allow("path", "branch", "history")
        self._path = self._options.path("path")
        self._branch = self._options.text("branch", "HEAD")
        self._history = self._options.choice("history", (FIRST_PARENT, WHOLE), FIRST_PARENT)
        self._coming = 0

    @contextmanager
    def _open(self) -> Iterator[Git]:
        """Yield git on the repository; UserError that names the key if that is not possible."""
        if not self._path.exists():
            raise self._options.error("path", f"{self._path} does not exist")
        if not shutil.which("git"):
            why = f"the program git is needed to read {self._path}: install the package git"
            raise self._options.error("path", why)
        if find_layout(self._path) is None:
            raise self._options.error("path", f"{self._path} is not a git repository")
        with open_repository(self._path) as git:
            yield git

    def _commit(self, git: Git) -> str:
        """Return the branch's commit."""
        try:
            name = git.output("rev-parse", "--verify", "-q", "--end-of-options", self._branch)
        except UserError:
            raise self._missing(git) from None
        object_name = name.decode("ascii").strip()
        return self._peeled(git, object_name)

    def _peeled(self, git: Git, name: str) -> str:
        """Return the commit that an object, perhaps a tag of a tag, leads to."""
        try:
            peeled = git.output("rev-parse", "--verify", f"{name}^{{}}").decode("ascii").strip()
            kind = git.output("cat-file", "-t", peeled).strip()
        except UserError:
            raise missing(git.layout.shown, name) from None
        if kind != b"commit":
            raise self._missing(git)
        return peeled

    def _missing(self, git: Git) -> UserError:
        """Return the error about a branch without a commit."""
        if self._branch != "HEAD":
            why = f"{self._path} has no commit {self._branch[:200]!r}"
            return self._options.error("branch", why)
        branch = git.head.removeprefix(b"ref: ")
        others = [name for name in git.refs if name.startswith((HEADS, REMOTES))]
        why = f"{self._path} has no commit on its current branch, {printable(branch)}"
        if others:
            remedy = (
                f"`git symbolic-ref HEAD {printable(sorted(others)[0])}` in it chooses another one"
            )
        else:
            remedy = "commit something to it"
        return self._options.error("path", f"{why}; {remedy}")

    def identity(self) -> str:
        """Return a digest of the branch's commit, the start of a shallow clone, and with `whole` all refs."""
        with self._open() as git:
            state = f"git {self._commit(git)} {self._history}".encode() + git.shallow
            if self._history == WHOLE:
                state += git.output("for-each-ref", "--format=%(objectname) %(refname)")
        return hashlib.sha256(state).hexdigest()

    def head(self) -> Head:
        """Return the branch's commit."""
        with self._open() as git:
            return {"kind": self.kind, "path": str(self._path), "commit": self._commit(git)}

    def check(self) -> None:
        """Check that the path is a repository with a commit on the branch."""
        with self._open() as git:
            self._commit(git)

    def describe(self) -> str:
        """Return one line for reports."""
        what = "all branches and tags, trunk is" if self._history == WHOLE else "first parents of"
        with self._open() as git:
            commit = self._commit(git)[:12]
        return (
            f"git repository {one_line(self._path)}, {what} {printable(self._branch)} at {commit}"
        )

    @cached_property
    def _estimate(self) -> SizeEstimate:
        """Estimate from the number of commits, and the sizes of git's packs and of the youngest tree."""
        with self._open() as git:
            tip = self._commit(git)
            which = (
                ["--branches", "--tags", tip] if self._history == WHOLE else ["--first-parent", tip]
            )
            revisions = int(git.output("rev-list", "--count", *which))
            blobs = (
                entry.name for entry in list_tree(git, tip) if entry.mode not in (FOLDER, SUBMODULE)
            )
            sizes = list(blob_sizes(git, blobs))
            # Objects that a clone borrows may be of other histories.
            packed = max(pack_bytes(git.layout), sum(sizes) // 4)
        return SizeEstimate(
            revisions=revisions + 1,
            repository_bytes=int(packed * REPOSITORY_FACTOR),
            files=len(sizes),
            tree_bytes=sum(sizes),
        )

    def write(self, out: BinaryIO) -> Facts:
        """Write revision 1 with the usual layout, and one revision per commit."""
        with self._open() as git:
            return self._write(git, out)

    def _write(self, git: Git, out: BinaryIO) -> Facts:
        with progress.stage("listing the commits"):
            plan = self._plan(git)
        identity = uuid.uuid5(uuid.NAMESPACE_OID, self.identity())
        out.write(dump_format.header(str(identity)))
        with (
            tempfile.TemporaryFile() as pairs,
            git.start("cat-file", "--batch", stdin=subprocess.PIPE) as contents,
        ):
            self._list_pairs(git, plan.commits, pairs)
            with git.start(*DIFF_TREE, stdin=pairs) as trees:
                revisions = RevisionWriter(plan, Objects(contents, git.layout.shown), out)
                self._coming = revisions.total
                try:
                    revisions.write(read_changes(trees.stdout))
                except (EOFError, StopIteration):
                    raise trees.failed() from None
                trees.finish()
        out.flush()
        facts = revisions.facts()
        if git.shallow:
            facts.notes.append("The clone is shallow: its history begins in the middle.")
        return facts

    def coming(self) -> int:
        """Return the number of revisions after the commits are listed, otherwise 0."""
        return self._coming

    def _plan(self, git: Git) -> ConversionPlan:
        tip = self._commit(git).encode("ascii")
        trunk = Ref(self._branch.encode(), tip, tip)
        if self._history == FIRST_PARENT:
            return ConversionPlan(self._list_commits(git, ["--first-parent"], [tip]), [trunk], [])
        full = git.output("rev-parse", "--symbolic-full-name", self._branch).strip()
        branches = [r for r in git.branches() if full not in (HEADS + r.name, REMOTES + r.name)]
        tags = git.tags()
        tips = [ref.commit for ref in (trunk, *branches, *tags)]
        return ConversionPlan(
            self._list_commits(git, ["--date-order"], tips), [trunk, *branches], tags
        )

    def _list_commits(self, git: Git, options: list[str], tips: list[bytes]) -> list[Commit]:
        with tempfile.TemporaryFile() as starts:
            starts.write(b"\n".join(dict.fromkeys(tips)) + b"\n")
            starts.seek(0)
            with git.start(
                "log", "--stdin", "--reverse", "--no-show-signature", "--encoding=none",
                "--format=%H %T %ct %P", *options, stdin=starts,
            ) as log:  # fmt: skip
                commits = read_commits(log.stdout)
                log.finish()
        return commits

    def _list_pairs(self, git: Git, commits: list[Commit], pairs: IO[bytes]) -> None:
        """Fill `pairs` with the tree of each commit's first parent and its own."""
        nothing = git.output("hash-object", "-t", "tree", "/dev/null").strip()
        for commit in commits:
            before = commits[commit.parents[0]].tree if commit.parents else nothing
            pairs.write(b"%s %s\n" % (before, commit.tree))
        pairs.seek(0)

    def tree(self, loaded: Path | None = None) -> str:
        """Return trunk."""
        return "trunk"

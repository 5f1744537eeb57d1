"""A local git repository's history as a source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, Any, BinaryIO

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.sources import dumpstream
from vcsbench.sources.base import Estimate, Facts, Options, Source
from vcsbench.sources.git.changes import DIFF_TREE, read_changes
from vcsbench.sources.git.command import HEADS, REMOTES, Git, Ref
from vcsbench.sources.git.graph import Commit, Plan, read_commits
from vcsbench.sources.git.objects import Objects
from vcsbench.sources.git.revisions import Revisions

FIRST_PARENT = "first-parent"
WHOLE = "whole"
# Bytes of repository per byte of git's packs: measured on three histories of 1,000 to 2,300 commits
# were 0.5 to 1.2, on one of 35,000 0.7.
REPOSITORY_FACTOR = 1.2


def is_repository(path: Path) -> bool:
    """Whether a git repository lies at `path` itself: bare, a work tree's top or a linked one."""
    if not path.is_dir():
        return False
    try:
        Git(path).output("rev-parse", "--git-dir")
    except UserError:
        return False
    return True


class GitSource(Source):
    """The history of a branch along first parents as trunk, or all of the history."""

    kind = "git"
    doing = "converting and loading"

    def __init__(self, name: str, definition: Mapping[str, Any], where: str) -> None:
        self._options = Options(name, definition, where)
        self._options.allow("path", "branch", "history")
        self._path = self._options.path("path")
        self._branch = self._options.text("branch", "HEAD")
        self._history = self._options.choice("history", (FIRST_PARENT, WHOLE), FIRST_PARENT)
        self._git = Git(self._path)
        self._coming = 0

    def _commit(self) -> str:
        name = f"{self._branch}^{{commit}}"
        try:
            found = self._git.output("rev-parse", "--verify", "-q", "--end-of-options", name)
        except UserError as error:
            raise self._missing() from error
        return found.decode("ascii").strip()

    def _missing(self) -> UserError:
        if not self._path.exists():
            why = f"{self._path} does not exist"
        elif not shutil.which("git"):
            why = f"the program git is needed to read {self._path}: install the package git"
        elif not is_repository(self._path):
            why = f"{self._path} is not a git repository"
        elif self._branch == "HEAD":
            why = f"{self._path} has no commit on its current branch; name one with `branch`"
        else:
            return self._options.error("branch", f"{self._path} has no commit {self._branch!r}")
        return self._options.error("path", why)

    def identity(self) -> str:
        """From the commit that the branch is at and where a shallow clone begins; for the whole
        history from all refs."""
        state = f"git {self._commit()} {self._history}".encode() + self._shallow()
        if self._history == WHOLE:
            state += self._git.output("for-each-ref", "--format=%(objectname) %(refname)")
        return hashlib.sha256(state).hexdigest()

    def head(self) -> dict[str, Any]:
        """The commit that the branch is at."""
        return {"kind": self.kind, "path": str(self._path), "commit": self._commit()}

    def check(self) -> None:
        """The path is a repository with at least one commit on the branch, and has its files."""
        self._commit()
        self._refuse_partial()

    def describe(self) -> str:
        """One line for reports."""
        what = "all branches and tags, trunk is" if self._history == WHOLE else "first parents of"
        return f"git repository {self._path}, {what} {self._branch} at {self._commit()[:12]}"

    @cached_property
    def _estimate(self) -> Estimate:
        """From the number of commits and the sizes of git's packs."""
        tip = self._commit()
        which = ["--branches", "--tags", tip] if self._history == WHOLE else ["--first-parent", tip]
        revisions = int(self._git.output("rev-list", "--count", *which))
        counts = dict(
            line.split(b": ", 1) for line in self._git.output("count-objects", "-v").splitlines()
        )
        packed = 1024 * (int(counts[b"size-pack"]) + int(counts[b"size"]))
        entries = self._git.output("ls-tree", "-r", "-l", "-z", tip).split(b"\0")
        sizes = [
            int(words[3]) for e in entries if (words := e.split(None, 4)) and words[1] == b"blob"
        ]
        # What a clone borrows from another is not counted as its own; the tree is there at least.
        packed = max(packed, sum(sizes) // 4)
        return Estimate(
            revisions=revisions + 1,
            repository_bytes=int(packed * REPOSITORY_FACTOR),
            files=len(sizes),
            tree_bytes=sum(sizes),
        )

    def write(self, out: BinaryIO) -> Facts:
        """Each commit becomes a revision, after revision 1, which makes the usual layout."""
        self._refuse_partial()
        with progress.stage("listing the commits"):
            plan = self._plan()
        identity = uuid.uuid5(uuid.NAMESPACE_OID, self.identity())
        out.write(dumpstream.header(str(identity)))
        with (
            tempfile.TemporaryFile() as pairs,
            self._git.start("cat-file", "--batch", stdin=subprocess.PIPE) as contents,
        ):
            self._list_pairs(plan.commits, pairs)
            with self._git.start(*DIFF_TREE, stdin=pairs) as trees:
                revisions = Revisions(plan, Objects(contents, str(self._path)), out)
                self._coming = revisions.total
                try:
                    revisions.write(read_changes(trees.stdout))
                except (EOFError, StopIteration):
                    raise trees.failed() from None
                trees.finish()
        out.flush()
        facts = revisions.facts()
        if self._shallow():
            facts.notes.append("The clone is shallow: its history begins in the middle.")
        return facts

    def coming(self) -> int:
        """Known for sure when the commits are listed."""
        return self._coming

    def _plan(self) -> Plan:
        tip = self._commit().encode("ascii")
        trunk = Ref(self._branch.encode(), tip, tip)
        if self._history == FIRST_PARENT:
            return Plan(self._list_commits(["--first-parent"], [tip]), [trunk], [])
        full = self._git.output("rev-parse", "--symbolic-full-name", self._branch).strip()
        branches = [
            r for r in self._git.branches() if full not in (HEADS + r.name, REMOTES + r.name)
        ]
        tags = self._git.tags()
        tips = [ref.commit for ref in (trunk, *branches, *tags)]
        return Plan(self._list_commits(["--date-order"], tips), [trunk, *branches], tags)

    def _list_commits(self, options: list[str], tips: list[bytes]) -> list[Commit]:
        with tempfile.TemporaryFile() as starts:
            starts.write(b"\n".join(dict.fromkeys(tips)) + b"\n")
            starts.seek(0)
            with self._git.start(
                "log", "--stdin", "--reverse", "--no-show-signature", "--encoding=none",
                "--format=%H %T %ct %P", *options, stdin=starts,
            ) as log:  # fmt: skip
                commits = read_commits(log.stdout)
                log.finish()
        return commits

    def _list_pairs(self, commits: list[Commit], pairs: IO[bytes]) -> None:
        """Fill `pairs` with the tree of each commit's first parent and its own."""
        nothing = self._git.output("hash-object", "-t", "tree", "/dev/null").strip()
        for commit in commits:
            before = commits[commit.parents[0]].tree if commit.parents else nothing
            pairs.write(b"%s %s\n" % (before, commit.tree))
        pairs.seek(0)

    def _refuse_partial(self) -> None:
        config = self._git.output("config", "--list", "--name-only", "-z").split(b"\0")
        if any(key.endswith(b".promisor") for key in config):
            why = "is a partial clone, which lacks files; clone it without --filter"
            raise self._options.error("path", f"{self._path} {why}")

    def _shallow(self) -> bytes:
        """The commits whose parents a shallow clone lacks; nothing when it has them all."""
        name = self._git.output("rev-parse", "--git-path", "shallow").removesuffix(b"\n")
        try:
            return (self._path / os.fsdecode(name)).read_bytes()
        except FileNotFoundError:
            return b""

    def tree(self, loaded: Path | None = None) -> str:
        """The branch is trunk."""
        return "trunk"

"""A local git repository's history as a source."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

from vcsbench.errors import UserError
from vcsbench.sources import dumpstream
from vcsbench.sources.base import Estimate, Facts, Options
from vcsbench.sources.git.blobs import Objects
from vcsbench.sources.git.changes import Stream, read_changes
from vcsbench.sources.git.command import Git
from vcsbench.sources.git.revisions import Revisions

# Repository bytes per byte of git's packs, measured on histories of 1,000 to 2,300 commits.
REPOSITORY_FACTOR = 3


def is_repository(path: Path) -> bool:
    """Whether a git repository lies at `path` itself: bare, a work tree's top or a linked one."""
    if not path.is_dir():
        return False
    try:
        Git(path).output("rev-parse", "--git-dir")
    except UserError:
        return False
    return True


class GitSource:
    """The history of one branch along first parents, as trunk."""

    kind = "git"

    def __init__(self, name: str, definition: Mapping[str, Any], where: str) -> None:
        self._options = Options(name, definition, where)
        self._options.allow("path", "branch", "history")
        self._path = self._options.path("path")
        self._branch = self._options.text("branch", "HEAD")
        self._history = self._options.choice("history", ("first-parent",), "first-parent")
        self._git = Git(self._path)

    def _commit(self) -> str:
        try:
            name = self._git.output(
                "rev-parse", "--verify", "--quiet", "--end-of-options", f"{self._branch}^{{commit}}"
            )
        except UserError as error:
            raise self._missing() from error
        return name.decode("ascii").strip()

    def _missing(self) -> UserError:
        if not self._path.exists():
            return self._options.error("path", f"{self._path} does not exist")
        if not is_repository(self._path):
            return self._options.error("path", f"{self._path} is not a git repository")
        if self._branch == "HEAD":
            return self._options.error(
                "path", f"{self._path} has no commit on its current branch; name one with `branch`"
            )
        return self._options.error("branch", f"{self._path} has no commit {self._branch!r}")

    def identity(self) -> str:
        """From the commit that the branch is at."""
        return hashlib.sha256(f"git {self._commit()} {self._history}".encode()).hexdigest()

    def check(self) -> None:
        """The path is a repository with at least one commit on the branch."""
        self._commit()

    def scale(self) -> float:
        """What the user brought is measured whole."""
        return 1.0

    def describe(self) -> str:
        """One line for reports."""
        return f"git repository {self._path}, {self._branch} at {self._commit()[:12]}"

    def estimate(self) -> Estimate:
        """From the sizes of the objects."""
        commit = self._commit()
        revisions = int(self._git.output("rev-list", "--count", "--first-parent", commit))
        counts = dict(
            line.split(b": ", 1) for line in self._git.output("count-objects", "-v").splitlines()
        )
        packed = 1024 * (int(counts[b"size-pack"]) + int(counts[b"size"]))
        sizes = [
            int(line.split(None, 4)[3])
            for line in self._git.output("ls-tree", "-r", "-l", "-z", commit).split(b"\0")
            if line and line.split(None, 4)[1] == b"blob"
        ]
        return Estimate(
            revisions=revisions + 1,
            dump_bytes=packed * 20,
            repository_bytes=packed * REPOSITORY_FACTOR,
            files=len(sizes),
            tree_bytes=sum(sizes),
        )

    def write(self, out: BinaryIO) -> Facts:
        """Each commit along first parents becomes a revision of trunk, after revision 1."""
        tip = self._commit()
        identity = uuid.uuid5(uuid.NAMESPACE_OID, f"git {tip} {self._history}")
        out.write(dumpstream.header(str(identity)))
        with (
            tempfile.TemporaryFile() as commits,
            tempfile.TemporaryFile() as pairs,
            self._git.start("cat-file", "--batch", stdin=subprocess.PIPE) as contents,
        ):
            self._list_commits(tip, commits, pairs)
            with self._git.start(
                "diff-tree", "--stdin", "-r", "--raw", "-z", "--no-renames", "--full-index",
                stdin=pairs,
            ) as trees:  # fmt: skip
                revisions = Revisions(Objects(contents, str(self._path)), out)
                changes = read_changes(Stream(trees.stdout))
                for line in commits:
                    revisions.write(line.split()[0], next(changes))
                trees.finish()
        out.flush()
        return revisions.facts(self._notes())

    def _list_commits(self, tip: str, commits: IO[bytes], pairs: IO[bytes]) -> None:
        """Fill `commits` with lines of commit and tree, `pairs` with each tree and the next."""
        failure = f"{self._path}: git log failed"
        before = self._git.output("hash-object", "-t", "tree", "/dev/null").strip()
        with self._git.start(
            "log", "--first-parent", "--reverse", "--format=%H %T", tip
        ) as log:  # fmt: skip
            for line in log.stdout:
                commits.write(line)
                tree = line.split()[1]
                pairs.write(b"%s %s\n" % (before, tree))
                before = tree
            log.finish()
        if commits.tell() == 0:
            raise UserError(f"{failure}: it lists no commit")
        commits.seek(0)
        pairs.seek(0)

    def _notes(self) -> list[str]:
        if self._git.output("rev-parse", "--is-shallow-repository").strip() == b"true":
            return ["The clone is shallow: its history begins in the middle."]
        return []

    def tree(self) -> str:
        """The branch's history is trunk."""
        return "trunk"

"""A local git repository as a source, and a tree of it as a folder."""

import hashlib
import os
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.external import one_line, printable
from vcsbench.processes import Program
from vcsbench.sources import dump_format, git_objects
from vcsbench.sources.base import (
    TRUNK,
    Definition,
    Facts,
    Head,
    LocalSource,
    SizeEstimate,
    check_space,
    notes_of,
)
from vcsbench.sources.git_history import SUBMODULES, ConversionPlan, RevisionWriter
from vcsbench.sources.git_repository import (
    HEADS,
    REMOTES,
    TAGS,
    Git,
    Ref,
    find_layout,
    open_repository,
)

FIRST_PARENT = "first-parent"
WHOLE = "whole"
OTHER_REFS = "Refs left out: other remotes, stashes, notes, tags of files or folders"


def is_git_repository(path: Path) -> bool:
    """Return True if a git repository lies at `path` itself: bare, a work tree's top or a linked one.

    Raise UserError with git's own reason if one lies there that git cannot read.
    """
    if find_layout(path) is None:
        return False
    with open_repository(path):
        return True


class GitSource(LocalSource):
    """The history of a branch along first parents as trunk, or all of the history."""

    kind = "git"
    doing = "converting and loading"
    keys = ("path", "branch", "history")

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        super().__init__(name, definition, where)
        self._branch = definition.get("branch", "HEAD")
        self._history = definition.get("history", FIRST_PARENT)
        self._coming = 0

    @contextmanager
    def _open(self) -> Iterator[Git]:
        if not self._path.exists():
            raise self._wrong("does not exist. Check the path.")
        if not shutil.which("git"):
            why = f"only the program git can read {self._path}. Install the package git."
            raise self._options.error("path", why)
        if find_layout(self._path) is None:
            raise self._wrong("is not a git repository. Give one.")
        with open_repository(self._path) as git:
            yield git

    def _commit(self, git: Git) -> str:
        name = self._parse(git, self._branch)
        if name.startswith("^"):  # git's word for all commits but these
            raise self._missing(git)
        try:
            git.output("cat-file", "-e", name)
        except UserError:
            raise git.missing(name.encode()) from None
        return self._parse(git, f"{name}^{{commit}}")

    def _parse(self, git: Git, name: str) -> str:
        try:
            parsed = git.output("rev-parse", "--verify", "-q", "--end-of-options", name)
        except UserError:
            raise self._missing(git) from None
        return parsed.decode("ascii").strip()

    def _missing(self, git: Git) -> UserError:
        # Raises git's own reason if it cannot read the refs.
        git.output("for-each-ref", "--count=1")
        if self._branch != "HEAD":
            why = f"{self._path} has no commit {self._branch[:200]!r}. Give a branch of it."
            return self._options.error("branch", why)
        branch = printable(git.head.removeprefix(b"ref: "))
        return self._wrong(
            f"has no commit on its current branch, {branch}. `git symbolic-ref HEAD refs/heads/NAME` in "
            "it chooses another one."
        )

    def identity(self) -> str:
        """Return a digest of the commit, a shallow clone's start, and with `whole` of branches and tags."""
        return self._identity

    @cached_property
    def _identity(self) -> str:
        with self._open() as git:
            return self._read_identity(git)

    def _read_identity(self, git: Git) -> str:
        state = f"git {self._commit(git)} {self._history}".encode() + git.shallow
        if self._history == WHOLE:
            used = (prefix.decode() for prefix in (HEADS, REMOTES, TAGS))
            state += git.output("for-each-ref", "--format=%(objectname) %(refname)", *used)
        return hashlib.sha256(state).hexdigest()

    def head(self) -> Head:
        with self._open() as git:
            return {"kind": self.kind, "path": str(self._path), "commit": self._commit(git)}

    def check(self) -> None:
        with self._open() as git:
            self._commit(git)

    def check_history(self) -> None:
        """Read all commits and trees, and check that their files exist: 1 s for 50,000 commits."""
        with (
            self._open() as git,
            self._walk(git, self._refs(git), "rev-list", "--objects", "--quiet") as listing,
        ):
            listing.finish()

    def describe(self) -> str:
        what = "all branches and tags, trunk is" if self._history == WHOLE else "first parents of"
        with self._open() as git:
            commit = self._commit(git)[:12]
        return (
            f"git repository {one_line(self._path)}, {what} {printable(self._branch)} at {commit}"
        )

    @cached_property
    def _estimate(self) -> SizeEstimate:
        with self._open() as git:
            tip = self._commit(git)
            with self._walk(git, self._refs(git), "rev-list", "--count") as counted:
                revisions = int(counted.read_all())
            entries = git_objects.read_tree(git, tip)
            tree_bytes = sum(entry.size for entry in entries)
            with self._walk(git, self._refs(git), "rev-list", "--objects") as listing:
                assert listing.process.stdout is not None
                sizes = git.start("cat-file", git_objects.SIZES, stdin=listing.process.stdout)
                with sizes:
                    text_bytes = git_objects.estimate_texts(sizes.stdout)
                    sizes.finish()
                listing.finish()
        files = sum(
            entry.mode not in (git_objects.FOLDER, git_objects.SUBMODULE) for entry in entries
        )
        return SizeEstimate(revisions + 1, text_bytes, files, tree_bytes)

    def write(self, out: BinaryIO) -> Facts:
        with self._open() as git:
            refs = self._refs(git)
            if self._read_identity(git) != self.identity():
                raise self.changed()
            with (
                progress.stage("listing the commits"),
                self._walk(git, refs, "log", "--reverse", *git_objects.COMMITS) as log,
            ):
                plan = ConversionPlan(git_objects.read_commits(log.stdout), *refs)
                log.finish()
            self._coming = plan.revisions
            out.write(dump_format.header(str(uuid.uuid5(uuid.NAMESPACE_OID, self.identity()))))
            with (
                git_objects.open_objects(git) as objects,
                self._walk(git, refs, "log", "--reverse", *git_objects.REVISIONS) as log,
            ):
                writer = RevisionWriter(plan, objects, out)
                for commit in range(len(plan.commits)):
                    writer.write(commit, git_objects.read_revision(log, git))
                log.finish()
            out.flush()
            facts = writer.facts()
            if self._history == WHOLE:
                facts.notes += notes_of({OTHER_REFS: git.count_other_refs()})
        if git.shallow:
            facts.notes.append("The clone is shallow: its history begins in the middle.")
        return facts

    def coming(self) -> int:
        return self._coming

    def _refs(self, git: Git) -> tuple[list[Ref], list[Ref]]:
        """Return the branches, trunk first, and the tags."""
        tip = self._commit(git).encode("ascii")
        trunk = Ref(self._branch.encode(), tip)
        if self._history == FIRST_PARENT:
            return [trunk], []
        full = git.output("rev-parse", "--symbolic-full-name", self._branch).strip()
        branches = [trunk]
        for ref in git.branches():
            if full not in (HEADS + ref.name, REMOTES + ref.name):
                branches.append(ref)
        return branches, git.refs(TAGS)

    @contextmanager
    def _walk(self, git: Git, refs: tuple[list[Ref], list[Ref]], *words: str) -> Iterator[Program]:
        """Run a command of git on the commits of the history."""
        order = "--date-order" if self._history == WHOLE else f"--{FIRST_PARENT}"
        with tempfile.TemporaryFile() as tips:
            tips.writelines(ref.commit + b"\n" for ref in chain(*refs))
            tips.seek(0)
            with git.start(*words, order, "--stdin", stdin=tips) as program:
                yield program

    def tree(self, loaded: Path | None = None) -> str:
        return TRUNK


def write_tree(git: Git, commit: str, folder: Path) -> list[str]:
    """Write the tree of a commit to a new folder and return notes on renames and omissions.

    Names are as in the loaded history. No name is `..` or has a slash, and no two entries have one path
    (git_objects.read_tree, subversion_path), so nothing is written outside of the folder. Links are made at
    the end, so no file is written through one.
    """
    counts = Counter[str]()
    entries = git_objects.read_tree(git, commit)
    check_space(sum(entry.size for entry in entries), folder.parent, git.where)
    folder.mkdir()
    folder.chmod(0o755)
    files: list[tuple[bytes, git_objects.TreeEntry]] = []
    for entry in entries:
        if entry.mode == git_objects.SUBMODULE:
            counts[SUBMODULES] += 1
            continue
        name = dump_format.subversion_path(entry.path)
        counts[dump_format.RENAMED] += name != entry.path
        path = os.fsencode(folder) + b"/" + name
        if entry.mode == git_objects.FOLDER:
            os.mkdir(path)
            os.chmod(path, 0o755)
        else:
            files.append((path, entry))
    links: list[tuple[bytes, bytes]] = []
    with git_objects.open_objects(git) as objects:
        blobs = objects.read([entry.object for _, entry in files])
        for (path, entry), (size, chunks) in zip(files, blobs, strict=True):
            is_link = entry.mode == git_objects.SYMLINK
            text = b"".join(chunks) if is_link and size <= dump_format.LONGEST_TARGET else b""
            if dump_format.is_link_target(text):
                links.append((path, text))
                continue
            counts[dump_format.LINKS] += is_link
            with open(path, "xb") as file:
                file.writelines(chain([text], chunks))
                os.fchmod(file.fileno(), 0o755 if entry.mode == git_objects.EXECUTABLE else 0o644)
    for path, target in links:
        os.symlink(target, path)
    return notes_of(counts)

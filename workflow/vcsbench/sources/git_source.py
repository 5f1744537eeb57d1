"""A local git repository as a source, and a tree of it as a folder."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.external import one_line, printable
from vcsbench.sources import dump_format
from vcsbench.sources.archives import ContainedFolder, Parts
from vcsbench.sources.base import (
    Definition,
    Facts,
    Head,
    LocalSource,
    Program,
    SizeEstimate,
    check_space,
    notes_of,
)
from vcsbench.sources.dump_format import (
    LINKS,
    LONGEST_TARGET,
    RENAMED,
    is_link_target,
    subversion_path,
)
from vcsbench.sources.git_history import SUBMODULES, ConversionPlan, RevisionWriter
from vcsbench.sources.git_objects import (
    DIFF_TREE,
    EXECUTABLE,
    FOLDER,
    SUBMODULE,
    SYMLINK,
    Change,
    Objects,
    missing,
    read_changes,
    read_commits,
    read_revisions,
    size_of,
)
from vcsbench.sources.git_repository import HEADS, REMOTES, Git, Ref, find_layout, open_repository

FIRST_PARENT = "first-parent"
WHOLE = "whole"
# Bytes of repository per byte of git's packs: 0.5 to 1.2 on four histories of 1,000 to 35,000 commits.
REPOSITORY_FACTOR = 1.2


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
        self._branch = self._options.text("branch", "HEAD")
        self._history = definition.get("history", FIRST_PARENT)
        self._coming = 0

    @contextmanager
    def _open(self) -> Iterator[Git]:
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
        def parse(*words: str) -> str:
            return git.output("rev-parse", "--verify", *words).decode("ascii").strip()

        try:
            name = parse("-q", "--end-of-options", self._branch)
        except UserError:
            raise self._missing(git) from None
        try:
            git.output("cat-file", "-e", name)
        except UserError:
            raise missing(git.where, name) from None
        try:
            return parse("-q", f"{name}^{{commit}}")
        except UserError:
            raise self._missing(git) from None

    def _missing(self, git: Git) -> UserError:
        # Raises git's own reason if it cannot read the refs.
        git.output("for-each-ref", "--count=1")
        if self._branch != "HEAD":
            why = f"{self._path} has no commit {self._branch[:200]!r}"
            return self._options.error("branch", why)
        why = f"{self._path} has no commit on its current branch, "
        why += printable(git.head.removeprefix(b"ref: "))
        remedy = "`git symbolic-ref HEAD refs/heads/NAME` in it chooses another one"
        return self._options.error("path", f"{why}; {remedy}")

    def identity(self) -> str:
        """Return a digest of the branch's commit, the start of a shallow clone, and with `whole` all refs."""
        with self._open() as git:
            state = f"git {self._commit(git)} {self._history}".encode() + git.shallow
            if self._history == WHOLE:
                refs = git.output("for-each-ref", "--format=%(objectname) %(refname)")
                state += re.sub(rb"(?m)^\w+ refs/replace/.*\n", b"", refs)
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
            sizes = _blob_sizes(git, _list_tree(git, tip))
            # Objects that a clone borrows may be of other histories.
            packed = max(git.packed_bytes(), sum(sizes) // 4)
        repository_bytes = int(packed * REPOSITORY_FACTOR)
        return SizeEstimate(revisions + 1, repository_bytes, len(sizes), sum(sizes))

    def write(self, out: BinaryIO) -> Facts:
        with self._open() as git:
            with progress.stage("listing the commits"):
                plan = self._plan(git)
            identity = uuid.uuid5(uuid.NAMESPACE_OID, self.identity())
            out.write(dump_format.header(str(identity)))
            facts = self._write_revisions(git, plan, out)
            out.flush()
        if git.shallow:
            facts.notes.append("The clone is shallow: its history begins in the middle.")
        return facts

    def _write_revisions(self, git: Git, plan: ConversionPlan, out: BinaryIO) -> Facts:
        commits = plan.commits
        lines = (
            b" ".join([commit.name, *(commits[parent].name for parent in commit.parents[:1])])
            for commit in commits
        )
        with (
            git.start("cat-file", "--batch", stdin=subprocess.PIPE) as contents,
            _diff_tree(git, lines) as program,
        ):
            revisions = RevisionWriter(plan, Objects(contents, git.where), out)
            self._coming = revisions.total
            facts = revisions.write(read_revisions(program.stdout, git.where))
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
        others = [
            ref for ref in git.branches() if full not in (HEADS + ref.name, REMOTES + ref.name)
        ]
        return [trunk, *others], git.tags()

    @contextmanager
    def _walk(self, git: Git, refs: tuple[list[Ref], list[Ref]], *words: str) -> Iterator[Program]:
        """Run a command of git on the commits of the history."""
        order = "--date-order" if self._history == WHOLE else f"--{FIRST_PARENT}"
        tips = dict.fromkeys(ref.commit for ref in chain(*refs))
        with _lines(tips) as stdin, git.start(*words, order, "--stdin", stdin=stdin) as program:
            yield program

    def _plan(self, git: Git) -> ConversionPlan:
        refs = self._refs(git)
        words = ("--reverse", "--no-show-signature", "--encoding=none", "--format=%H %T %ct %P")
        with self._walk(git, refs, "log", *words) as log:
            commits = read_commits(log.stdout)
            log.finish()
        return ConversionPlan(commits, *refs)

    def tree(self, loaded: Path | None = None) -> str:
        return "trunk"


@contextmanager
def _lines(lines: Iterable[bytes]) -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as file:
        file.writelines(line + b"\n" for line in lines)
        file.seek(0)
        yield file


@contextmanager
def _diff_tree(git: Git, lines: Iterable[bytes]) -> Iterator[Program]:
    with _lines(lines) as stdin, git.start(*DIFF_TREE, stdin=stdin) as program:
        try:
            yield program
        except (EOFError, StopIteration):
            raise program.failed() from None
        program.finish()


def _list_tree(git: Git, commit: str) -> list[Change]:
    """Return everything in the tree of a commit, folders before their content."""
    tree = git.output("rev-parse", f"{commit}^{{tree}}").strip()
    with _diff_tree(git, [git.empty_tree.encode() + b" " + tree]) as program:
        program.stdout.readline()
        return read_changes(program.stdout, git.where)


def _blob_sizes(git: Git, entries: list[Change]) -> list[int]:
    """Return the size of each file and link of a tree. Raise UserError if one is missing."""
    blobs = (entry.new_object for entry in entries if entry.new_mode not in (FOLDER, SUBMODULE))
    sizes = []
    with (
        _lines(blobs) as requests,
        git.start("cat-file", "--batch-check", "--buffer", stdin=requests) as answers,
    ):
        for line in answers.stdout:
            sizes.append(size_of(line.split(), git.where))
        answers.finish()
    return sizes


def write_tree(git: Git, commit: str, folder: Path) -> list[str]:
    """Write the tree of a commit to a new folder and return notes on renames and omissions.

    Names are as in the loaded history.
    """
    counts = Counter[str]()
    entries = _list_tree(git, commit)
    size = sum(_blob_sizes(git, entries))
    check_space(size, folder.parent, git.where)
    folder.mkdir()
    folder.chmod(0o755)
    files: list[tuple[Parts, Change]] = []
    with (
        ContainedFolder(folder, size) as contained,
        git.start("cat-file", "--batch", stdin=subprocess.PIPE) as program,
    ):
        for entry in entries:
            path = subversion_path(entry.path)
            if entry.new_mode == SUBMODULE:
                counts[SUBMODULES] += 1
                continue
            counts[RENAMED] += path != entry.path
            parts = tuple(path.split(b"/"))
            if entry.new_mode == FOLDER:
                contained.add_folder(parts)
            else:
                files.append((parts, entry))
        blobs = Objects(program, git.where).read([entry.new_object for _, entry in files])
        for (parts, entry), blob in zip(files, blobs, strict=True):
            is_link = entry.new_mode == SYMLINK
            text = blob.read_all() if is_link and blob.size <= LONGEST_TARGET else b""
            if is_link_target(text):
                contained.add_link(parts, text)
                continue
            counts[LINKS] += is_link
            mode = 0o755 if entry.new_mode == EXECUTABLE else 0o644
            contained.add_file(parts, chain([text], blob.chunks), mode=mode)
        contained.close()
    return notes_of(counts)

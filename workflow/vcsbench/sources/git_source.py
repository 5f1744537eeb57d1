"""A local git repository as a source, and a tree of it as a folder."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
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
from typing import BinaryIO, NamedTuple

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.external import one_line, printable
from vcsbench.sources import dump_format
from vcsbench.sources.base import (
    CHUNK,
    Definition,
    Facts,
    Head,
    LocalSource,
    Program,
    SizeEstimate,
    check_space,
    notes_of,
)
from vcsbench.sources.dump_format import IMPOSSIBLE, LONGEST_TARGET, link_target
from vcsbench.sources.git_history import SUBMODULES, ConversionPlan, RevisionWriter
from vcsbench.sources.git_objects import (
    BLOBS,
    DIFF_TREE,
    EXECUTABLE,
    FOLDER,
    MAX_ENTRIES,
    SUBMODULE,
    SYMLINK,
    Blob,
    Objects,
    check_path,
    damaged_tree,
    missing,
    read_changes,
    read_commits,
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
        self._history = self._options.choice("history", (FIRST_PARENT, WHOLE), FIRST_PARENT)
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
        peeled = parse(f"{name}^{{}}")
        if git.output("cat-file", "-t", peeled).strip() != b"commit":
            raise self._missing(git)
        return peeled

    def _missing(self, git: Git) -> UserError:
        prefixes = (HEADS.decode(), REMOTES.decode())
        # Raises git's own reason if it cannot read the refs.
        names = git.output("for-each-ref", "--format=%(refname)", *prefixes).splitlines()
        if self._branch != "HEAD":
            why = f"{self._path} has no commit {self._branch[:200]!r}"
            return self._options.error("branch", why)
        branch = git.head.removeprefix(b"ref: ")
        why = f"{self._path} has no commit on its current branch, {printable(branch)}"
        others = {*names} - {branch}
        remedy = "commit something to it"
        if others:
            name = shlex.quote(printable(min(others)))
            remedy = f"`git symbolic-ref HEAD {name}` in it chooses another one"
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
            sizes = _blob_sizes(git, tip)
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
        nothing = git.empty_tree.encode()
        commits = plan.commits
        firsts = (commits[c.parents[0]].tree if c.parents else nothing for c in commits)
        pairs = (b"%s %s" % (first, c.tree) for first, c in zip(firsts, commits, strict=True))
        with (
            _lines(pairs) as stdin,
            git.start("cat-file", "--batch", stdin=subprocess.PIPE) as contents,
            git.start(*DIFF_TREE, stdin=stdin) as trees,
        ):
            revisions = RevisionWriter(plan, Objects(contents, git.where), out)
            self._coming = revisions.total
            try:
                facts = revisions.write(read_changes(trees.stdout))
            except (EOFError, StopIteration):
                raise trees.failed() from None
            trees.finish()
        return facts

    def coming(self) -> int:
        return self._coming

    def _refs(self, git: Git) -> tuple[list[Ref], list[Ref]]:
        """Return the branches, trunk first, and the tags."""
        tip = self._commit(git).encode("ascii")
        trunk = Ref(self._branch.encode(), tip, tip)
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


class TreeEntry(NamedTuple):
    """A file, folder, link or submodule of a tree."""

    mode: bytes
    name: bytes
    path: bytes


def _list_tree(git: Git, commit: str) -> Iterator[TreeEntry]:
    """Yield everything in the tree of a commit, folders before their content.

    Raise UserError for trees that are damaged, too large, too deep, or have too long paths.
    """
    count = 0
    folders, others = {b""}, set[bytes]()
    with git.start("ls-tree", "-r", "-t", "-z", "--full-tree", commit) as listing:
        rest = b""
        while chunk := listing.stdout.read1(CHUNK):
            *lines, rest = (rest + chunk).split(b"\0")
            count += len(lines)
            if count > MAX_ENTRIES:
                raise UserError(
                    f"{git.where}: the tree of {commit[:12]} has more than {MAX_ENTRIES} "
                    "files and folders. Choose another branch."
                )
            for line in lines:
                head, _, path = line.partition(b"\t")
                mode, _, name = head.split(b" ")
                check_path(path, git.where)
                if path in folders or path in others or path.rpartition(b"/")[0] not in folders:
                    raise damaged_tree(git.where, path)
                (folders if mode == FOLDER else others).add(path)
                yield TreeEntry(mode, name, path)
        listing.finish()


def _blob_sizes(git: Git, commit: str) -> list[int]:
    """Return the size of each file and link of a commit's tree. Raise UserError if one is missing."""
    entries = _list_tree(git, commit)
    blobs = (entry.name for entry in entries if entry.mode not in (FOLDER, SUBMODULE))
    sizes = []
    with (
        _lines(blobs) as requests,
        git.start("cat-file", "--batch-check", "--buffer", stdin=requests) as answers,
    ):
        for line in answers.stdout:
            sizes.append(size_of(line.split(), BLOBS, git.where))
        answers.finish()
    return sizes


def write_tree(git: Git, commit: str, folder: Path) -> list[str]:
    """Write the tree of a commit to a new folder and return notes on renames and omissions.

    Names are as in the loaded history. Every folder is created here, so no link is followed.
    """
    counts = Counter[str]()
    check_space(sum(_blob_sizes(git, commit)), folder.parent, git.where)
    root = os.fsencode(folder)
    os.mkdir(root)
    os.chmod(root, 0o755)
    files = dict[bytes, TreeEntry]()
    for entry in _list_tree(git, commit):
        if entry.mode == SUBMODULE:
            counts[SUBMODULES] += 1
            continue
        path, reasons = dump_format.renamed_path(entry.path)
        counts.update(reasons)
        if entry.mode == FOLDER:
            os.mkdir(root + b"/" + path)
            os.chmod(root + b"/" + path, 0o755)
        else:
            files[path] = entry
    with git.start("cat-file", "--batch", stdin=subprocess.PIPE) as program:
        blobs = Objects(program, git.where).read([entry.name for entry in files.values()])
        for (path, entry), blob in zip(files.items(), blobs, strict=True):
            _write_file(entry.mode, blob, root + b"/" + path, counts)
    return notes_of(counts)


def _write_file(mode: bytes, blob: Blob, path: bytes, counts: Counter[str]) -> None:
    chunks: Iterable[bytes] = blob.chunks
    if mode == SYMLINK:
        text = blob.read_all() if blob.size <= LONGEST_TARGET else b""
        target, reasons = link_target(text)
        counts.update(reasons)
        if IMPOSSIBLE not in reasons:
            os.symlink(target, path)
            return
        chunks = chain([text], blob.chunks)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.writelines(chunks)
        os.fchmod(file.fileno(), 0o755 if mode == EXECUTABLE else 0o644)

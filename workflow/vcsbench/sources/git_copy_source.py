"""A local git repository as a source that stays as it is: its objects, packs, indices and refs are copied.

Nothing else of it is: no configuration, hook, attribute, graft, index or work tree. git reads it through a
private folder (git_repository), and nothing in it is changed or run.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vcsbench.external import one_line, open_regular, printable
from vcsbench.sources import git_objects
from vcsbench.sources.base import Facts, SizeEstimate, format_notes, readable
from vcsbench.sources.git_layout import (
    REF_BYTES,
    GitLayout,
    find_layout,
    find_object_folders,
    read_limited,
    read_optional,
)
from vcsbench.sources.git_repository import Git
from vcsbench.sources.git_source import GitSource

LIST_BYTES = 1 << 29
AS_IS_HISTORY = "as-is"
# git follows a symbolic ref to another one this number of times.
SYMBOLIC_DEPTH = 5
# Refs of one work tree, and of replaced objects, which change what git reads.
LEFT_OUT_REFS = ("refs/replace/", "refs/bisect/", "refs/worktree/", "refs/rewritten/")
REPLACED = "refs/replace/"
_PACK = re.compile(r"(pack-[0-9a-f]+)\.(pack|idx|rev|bitmap|mtimes)")
_PACK_INDEX_OF_ALL = re.compile(r"multi-pack-index(-[0-9a-f]+\.(bitmap|rev))?")
_GRAPH = re.compile(
    r"info/(commit-graph|commit-graphs/(commit-graph-chain|graph-[0-9a-f]+\.graph))"
)
_LOOSE = re.compile(r"[0-9a-f]{2}/([0-9a-f]{38}|[0-9a-f]{62})")
# What describes the objects of one folder, so that it is wrong for the objects of several.
_OF_ONE_FOLDER = ("multi-pack-index", "info/")


class ObjectFile(NamedTuple):
    """A file of a folder of objects: its path, its name there such as pack/pack-0a4d.idx, and its size."""

    path: str
    name: str
    size: int


class StoredRefs(NamedTuple):
    """The content of packed-refs, and that of each ref in a file of its own, by name.

    `replaced` and `dangling` are the numbers of replaced objects and of symbolic refs that are left out.
    """

    packed: bytes
    loose: dict[str, bytes]
    replaced: int
    dangling: int


class GitCopySource(GitSource):
    """A git repository as it is: all refs, and the files of its objects."""

    doing = "copying the repository"
    keys = ("path", "history")

    def _read_identity(self, git: Git) -> str:
        layout = self._find_layout()
        self._check_complete(git, layout)
        self._find_commit(git)
        state = hashlib.sha256(b"git as-is " + git.head + b"\n")
        state.update(git.output("for-each-ref", "--format=%(objectname) %(refname) %(symref)"))
        # Another upkeep is another state of the repository.
        for file in sorted(self._list_objects(layout)):
            state.update(f"{file.name} {file.size}\n".encode())
        return state.hexdigest()

    def check(self) -> None:
        self.identity()

    def describe(self) -> str:
        """Return such as `git repository /srv/x as it is, HEAD at 0123456789ab`."""
        with self._open() as git:
            commit = self._find_commit(git)[:12]
        return f"git repository {one_line(self._path)} as it is, HEAD at {commit}"

    @cached_property
    def _estimate(self) -> SizeEstimate:
        layout = self._find_layout()
        with self._open() as git:
            commits = int(git.output("rev-list", "--count", "--all"))
            entries = git_objects.read_tree(git, self._find_commit(git))
        folders = (git_objects.FOLDER_MODE, git_objects.SUBMODULE)
        return SizeEstimate(
            revisions=commits,
            repository_bytes=sum(file.size for file in self._list_objects(layout)),
            files=sum(entry.mode not in folders for entry in entries),
            tree_bytes=sum(entry.size for entry in entries),
        )

    def write(self, out: BinaryIO) -> Facts:
        raise self._options.error(
            "history",
            f"a repository as it is ({AS_IS_HISTORY}) cannot be loaded into Subversion. Use `whole` or "
            "`first-parent`.",
        )

    def object_format(self) -> str:
        """Return the kind of digests that name the objects: sha1 or sha256."""
        with self._open() as git:
            return git.output("rev-parse", "--show-object-format").decode("ascii").strip()

    def copy_to(self, path: Path) -> Facts:
        """Copy HEAD, refs and objects into an empty bare repository with the same kind of digests.

        Return the notes on what was left out. Raise UserError if the repository has another identity now.
        """
        layout = self._find_layout()
        with self._open() as git:
            if self._read_identity(git) != self.identity():
                raise self.changed_error()
            (path / "HEAD").write_bytes(git.head + b"\n")
        # The refs before the objects: a later commit has more objects than the refs need.
        refs = _read_refs(layout.common)
        _write_refs(refs, path)
        folders = find_object_folders(layout.common)
        try:
            for file in self._list_objects(layout):
                _copy_object(file, path / "objects")
        except FileNotFoundError:
            # git has packed the objects in the meantime.
            raise self.changed_error() from None
        counts = {
            "Replaced objects (refs/replace) left out": refs.replaced,
            "Symbolic refs without their branch left out": refs.dangling,
            "Grafts left out": int(
                bool(read_optional(layout.common / "info" / "grafts", LIST_BYTES))
            ),
            "Other repositories whose objects are borrowed (alternates) and were copied": len(
                folders
            )
            - 1,
        }
        return Facts(notes=format_notes(counts))

    def _find_layout(self) -> GitLayout:
        layout = find_layout(self._path)
        if layout is None:
            raise self._path_error("is not a git repository. Give one.")
        return layout

    def _check_complete(self, git: Git, layout: GitLayout) -> None:
        """Raise UserError for a shallow or partial clone, and for refs that lead to each other."""
        if git.shallow:
            raise self._path_error(
                "is a shallow clone, whose history begins in the middle. Run `git fetch --unshallow` in it, "
                "or clone it again without --depth."
            )
        for folder in find_object_folders(layout.common):
            if any((folder / "pack").glob("*.promisor")):
                raise self._path_error(
                    "is a partial clone, which lacks objects. Clone it again without --filter."
                )
        loop = _find_loop(layout, git.head)
        if loop:
            raise self._path_error(
                f"has refs that lead to each other, such as {printable(loop)}. `git symbolic-ref --delete` "
                "removes one."
            )

    def _list_objects(self, layout: GitLayout) -> Iterator[ObjectFile]:
        """Yield the files of all folders of objects, each name once, without those that are being written."""
        folders = find_object_folders(layout.common)
        seen = set()
        for folder in folders:
            for file in _list_folder(folder):
                describes_one = file.name.removeprefix("pack/").startswith(_OF_ONE_FOLDER)
                if file.name not in seen and not (describes_one and len(folders) > 1):
                    seen.add(file.name)
                    yield file


def _list_folder(folder: Path) -> Iterator[ObjectFile]:
    """Yield the files of one folder of objects that git reads."""
    with readable(folder):
        for above, _, names in os.walk(folder):
            present = set(names)
            for name in sorted(names):
                path = os.path.join(above, name)
                below = os.path.relpath(path, folder)
                pack = _PACK.fullmatch(name)
                if pack and below.startswith("pack/"):
                    # One of both is missing while git writes or removes a pack.
                    is_read = {f"{pack[1]}.pack", f"{pack[1]}.idx"} <= present
                elif below.startswith("pack/"):
                    is_read = bool(_PACK_INDEX_OF_ALL.fullmatch(name))
                else:
                    is_read = bool(_GRAPH.fullmatch(below) or _LOOSE.fullmatch(below))
                if is_read:
                    yield ObjectFile(path, below, os.stat(path).st_size)


def _copy_object(file: ObjectFile, objects: Path) -> None:
    """Copy a file with its time: git prefers the youngest pack."""
    copy = objects / file.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    with open(open_regular(file.path), "rb") as source, copy.open("xb") as target:
        status = os.fstat(source.fileno())
        shutil.copyfileobj(source, target, 1 << 20)
    os.utime(copy, ns=(status.st_mtime_ns, status.st_mtime_ns))
    copy.chmod(0o444)


def _read_refs(common: Path) -> StoredRefs:
    """Read all refs as they are stored, without those of work trees and of replaced objects."""
    packed = []
    names = set()
    replaced = 0
    is_left_out = False
    for line in read_optional(common / "packed-refs", LIST_BYTES).splitlines(keepends=True):
        # A line that begins with ^ belongs to the tag before it.
        if not line.startswith(b"^"):
            name = os.fsdecode(line.partition(b" ")[2].rstrip())
            is_left_out = not line.startswith(b"#") and name.startswith(LEFT_OUT_REFS)
            replaced += is_left_out and name.startswith(REPLACED)
            names.add(name)
        if not is_left_out:
            packed.append(line)
    loose = {}
    for name, content in _read_loose_refs(common):
        replaced += name.startswith(REPLACED)
        if not name.startswith(LEFT_OUT_REFS):
            loose[name] = content
            names.add(name)
    # git ignores such a ref, as refs/remotes/origin/HEAD after its branch was deleted, and `git fsck` fails.
    dangling = [name for name, content in loose.items() if _target(content) not in {"", *names}]
    for name in dangling:
        del loose[name]
    return StoredRefs(b"".join(packed), loose, replaced, len(dangling))


def _target(content: bytes) -> str:
    """Return the name of the ref that a symbolic ref leads to; "" for the content of another ref."""
    if not content.startswith(b"ref:"):
        return ""
    return os.fsdecode(content.removeprefix(b"ref:").strip())


def _write_refs(refs: StoredRefs, path: Path) -> None:
    for name, content in refs.loose.items():
        copy = path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content + b"\n")
    if refs.packed:
        (path / "packed-refs").write_bytes(refs.packed)


def _read_loose_refs(common: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each ref in a file: the name of an object, or `ref: ` and another ref."""
    for folder, _, names in os.walk(common / "refs"):
        for file in sorted(names):
            path = Path(folder, file)
            # git is writing it.
            if file.endswith(".lock"):
                continue
            name = os.path.relpath(path, common)
            target = os.readlink(path) if path.is_symlink() else ""
            if target.startswith("refs/"):
                yield name, b"ref: " + os.fsencode(target)
            else:
                yield name, read_limited(path, REF_BYTES).rstrip()


def _find_loop(layout: GitLayout, head: bytes) -> str:
    """Return a symbolic ref that leads to itself through others, "" if there is none."""
    targets = {}
    for name, content in [("HEAD", head), *_read_loose_refs(layout.common)]:
        target = _target(content)
        if target:
            targets[name] = target
    for name in targets:
        target = name
        for _ in range(SYMBOLIC_DEPTH + 1):
            target = targets.get(target, "")
        if target:
            return name
    return ""

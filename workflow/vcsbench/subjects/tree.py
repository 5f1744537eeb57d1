"""The subjects `tree`, a tree or a store of it, and `built_tree`, which a strategy builds from it.

Both are on one file system: the storage itself, or one with a copy for the cell-round.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from vcsbench import modules
from vcsbench.errors import UserError
from vcsbench.external import file_url, pegged
from vcsbench.files import entries, read_json, write_json
from vcsbench.programs import Programs
from vcsbench.storages.filesystems import next_directory
from vcsbench.storages.workdir import OVERHEAD_BYTES, WorkDir, remove_path, resolve
from vcsbench.subjects import FilesystemSubject, Subject, Words, tree_stores
from vcsbench.subjects.fsfs import run_client
from vcsbench.subjects.repository import Repository
from vcsbench.subjects.tree_stores import STORES, TreeStore, copy_tree

if TYPE_CHECKING:
    from vcsbench.records import Head, Recipe, SubjectFacts, TreeRecord

# The kind of work of commands that build an equal tree.
BUILT = "built_tree"
# The folder below a work folder for trees and stores.
FOLDER = "trees"
TEMPORARY_PREFIX = "making-"
# The new folder for each built tree.
BUILD_FOLDER = "here"
# The package's folder, for processes of sources.
PYTHONPATH = str(Path(__file__).parents[2])


class Tree(FilesystemSubject):
    """A tree, or its store of the command's kind `store`.

    Words: {source} and {store} are its path, {store_url} the path in a URL.
    """

    def __init__(self, recipe: Recipe, number: int, run: Path) -> None:
        if not {"repository", "filesystem"} <= recipe.keys():
            raise UserError("a tree needs the axes repo and filesystem; the study lacks one")
        super().__init__(recipe, number, run)
        self.repository = None if _has_head(recipe) else Repository(recipe, number, run)
        svn = Programs(**recipe["build"]["client"]).find("svn")
        self.templates = TreeTemplates(recipe, self.repository, svn)
        self.path = self.filesystem.inside / "store"
        self.idle = Path()
        self.left_out = 0

    @classmethod
    def records(cls, recipe: Recipe) -> list[str]:
        """Return the records of the repository, if the tree is taken from one."""
        return [] if _has_head(recipe) else Repository.records(recipe)

    @classmethod
    def reads_repository(cls, recipe: Recipe) -> bool:
        """Return True if the tree is taken from a repository."""
        return not _has_head(recipe)

    def check(self) -> None:
        """Make the tree and its store if needed, and put the store on the file system."""
        self.filesystem.open(self.prepare())
        record = self.templates.store_record()
        template = Path(record["path"])
        self.left_out = record.get("left_out", 0)
        self.idle = self.templates.idle_store()
        if self._is_in_place():
            self.path = template
        else:
            self._copy(template, self.path)
            self._copy(self.idle, self.filesystem.inside / "idle")
            self.idle = self.filesystem.inside / "idle"
        self.folders = [self.path]
        self.size = record["content_bytes"]

    def _copy(self, template: Path, path: Path) -> None:
        # Without clones, because a strategy decides which blocks the built tree shares.
        subprocess.run(["cp", "-a", "--reflink=never", template, path], check=True)

    def prepare(self) -> int:
        """Make the tree and its stores; return the size of a file system for it and the built tree."""
        if self.recipe.get("looked_at"):
            return 0
        if self.repository:
            self.repository.check()
        self.templates.remove_incomplete()
        self.templates.idle_store()
        size = self.templates.source_record()["bytes"] + self.templates.store_record()["bytes"]
        return self.filesystem.size_for(size)

    def _is_in_place(self) -> bool:
        """Return True if the tree is built where the templates are."""
        part = self.recipe["filesystem"]
        is_same = resolve(part["root"], os.getcwd()) == self.templates.workdir.storage
        return not part["make"] and is_same

    def words(self) -> Words:
        """Return {source}, {store} and {store_url}."""
        return self._words_of(self.path)

    def idle_words(self) -> Words:
        """Return the words of an empty tree."""
        return self._words_of(self.idle)

    def _words_of(self, path: Path) -> Words:
        url = urllib.parse.quote(str(path))
        return {"source": lambda: str(path), "store": lambda: str(path), "store_url": lambda: url}

    def clean(self) -> None:
        """Remove traces of builds from the stores."""
        for path in (self.path, self.idle):
            self.templates.store.clean(path)

    def expected_tree(self) -> tuple[Path, str] | None:
        """Return the tree that a built tree has to equal; None if the store lacks names."""
        is_equal = self.recipe["work"] == BUILT and not self.left_out
        return (Path(self.templates.source_record()["path"]), "") if is_equal else None

    def facts(self) -> SubjectFacts:
        """Return the repository, the tree, and the input of the command."""
        self.filesystem.check()
        repository, source = self.recipe["repository"], self.templates.source_record()
        notes = source.get("notes")
        tree = {
            "name": repository["name"],
            "description": repository["description"],
            "scale": repository["scale"],
            **({"notes": notes} if notes else {}),
        }
        store = self.recipe.get("store", "")
        return {
            "repository": {**repository},
            "tree": {**tree, "entries": source["entries"], "bytes": source["content_bytes"]},
            "read": {
                "path": str(self.path),
                "store": store,
                "left_out": self.left_out,
                "bytes": self.size,
                "filesystem": self.filesystem.describe(),
            },
        }


def _has_head(recipe: Recipe) -> bool:
    """Return True if the youngest tree is available without a loaded repository (Source.head)."""
    return bool(recipe["repository"]["head"])


class BuiltTree(Subject):
    """A tree that a strategy builds on the file system of a `tree`. {target} is its path, new in each run."""

    def __init__(self, recipe: Recipe, number: int, run: Path) -> None:
        super().__init__(recipe, number, run)
        self.path = Path()

    def check(self) -> None:
        """Take the tree that the cell reads. Raise UserError if it reads none."""
        if not isinstance(self.beside, Tree):
            raise UserError("a tree is built of a tree: use `input: tree` for the command")
        self.tree = self.beside
        self.path = self.tree.filesystem.inside / BUILD_FOLDER / "built"
        self.folders = [self.path]
        self.counterpart = self.tree.expected_tree()
        self.restore()

    def words(self) -> Words:
        """Return {target}."""
        return {"target": lambda: str(self.path)}

    def idle_words(self) -> Words:
        """Return {target}, too."""
        return self.words()

    def restore(self) -> None:
        """Remove the built tree, and its traces in the store."""
        if self.path.parent.exists():
            shutil.rmtree(self.path.parent)
        next_directory(self.tree.filesystem.inside, BUILD_FOLDER)
        self.tree.clean()

    def discard(self) -> None:
        """Remove the built tree as far as possible."""
        shutil.rmtree(self.path.parent, ignore_errors=True)

    @cached_property
    def _lost(self) -> dict[str, int]:
        has_both = self.counterpart and self.path.exists()
        return (
            lost_features(self.counterpart[0], self.path) if has_both and self.counterpart else {}
        )

    def facts(self) -> SubjectFacts:
        """Return the path, and the lost features."""
        return {"built": {"path": str(self.path), "lost": self._lost}}

    def flags(self) -> list[str]:
        """Return a flag for each feature of the tree that the strategy lost."""
        return [f"no-{feature}" for feature, count in self._lost.items() if count]


def lost_features(source: Path, built: Path) -> dict[str, int]:
    """Count files with other permissions, missing empty folders, and hard links that became files.

    Most strategies cannot carry these. Another check compares which files are executable.
    """
    lost = {"modes": 0, "empty-folders": 0, "hard-links": 0}
    inodes = dict[tuple[int, int], tuple[int, int]]()
    for path, status in entries(source):
        copy = built / os.path.relpath(path, source)
        if stat.S_ISDIR(status.st_mode):
            lost["empty-folders"] += not copy.is_dir()
        elif stat.S_ISREG(status.st_mode):
            of_copy = os.lstat(copy)
            lost["modes"] += stat.S_IMODE(of_copy.st_mode) != stat.S_IMODE(status.st_mode)
            inode = (of_copy.st_dev, of_copy.st_ino)
            lost["hard-links"] += inodes.setdefault((status.st_dev, status.st_ino), inode) != inode
    return lost


class TreeTemplates:
    """Trees and their stores on the storage, made once. Records have `path`, `entries`, `bytes` (with
    overhead) and `content_bytes`."""

    def __init__(self, recipe: Recipe, repository: Repository | None, svn: str) -> None:
        self.recipe = recipe
        self.repository = repository
        self.svn = svn
        self.kind = recipe.get("store", "")
        self.workdir = WorkDir(recipe["storage"]["path"], os.getcwd())
        identity = recipe["repository"]["identity"]
        self.name = hashlib.sha256(identity.encode()).hexdigest()[:16]

    @property
    def store(self) -> TreeStore:
        """Return the store that the cell's strategy builds from."""
        return STORES[self.kind]()

    def remove_incomplete(self) -> None:
        """Remove temporary folders of killed processes."""
        for path in self.workdir.make(FOLDER).glob(f"{TEMPORARY_PREFIX}*"):
            remove_path(path)

    def source_record(self) -> TreeRecord:
        """Return the record of the tree. A tree that was changed is made again."""
        return self._make(f"{self.name}-tree", self._make_source, check_sizes=True)

    def store_record(self) -> TreeRecord:
        """Return the record of the store. `left_out` counts names that it cannot carry."""
        return self._make_store(f"{self.name}-{self._store_key()}", self.source_record)

    def idle_store(self) -> Path:
        """Return a store of an empty tree."""

        def make_folder(path: Path, _: Path) -> TreeRecord:
            path.mkdir()
            return {}

        def make_empty() -> TreeRecord:
            return self._make("empty", make_folder)

        return Path(self._make_store(f"idle-{self._store_key()}", make_empty)["path"])

    def _store_key(self) -> str:
        """Return the kind of store with a digest of the code and programs that make it."""
        code = modules.code_digest([tree_stores.__file__])
        programs = json.dumps(self.recipe["binaries"], sort_keys=True)
        digest = hashlib.sha256(f"{code} {programs}".encode()).hexdigest()[:8]
        return f"{self.kind}-{digest}"

    def _make_store(self, name: str, source: Callable[[], TreeRecord]) -> TreeRecord:
        if not self.kind:
            return source()

        def make(path: Path, temporary: Path) -> TreeRecord:
            tree = original = Path(source()["path"])
            left_out = [file for file, _ in entries(tree) if not self._is_carried(file)]
            if left_out:
                tree = temporary / "carried"
                copy_tree(original, tree)
                for file in left_out:
                    remove_path(tree / os.path.relpath(file, original))
            home = temporary / "home"
            home.mkdir()
            self.store.make(tree, path, home)
            return {"left_out": len(left_out)}

        return self._make(name, make)

    def _is_carried(self, file: str) -> bool:
        return self.store.carries(os.path.basename(os.fsencode(file)))

    def _make_source(self, path: Path, temporary: Path) -> TreeRecord:
        """Export the youngest tree from the loaded repository, or from the source itself."""
        if self.repository:
            url = file_url(self.repository.path, self.repository.tree)
            run_client(self.svn, "export", "-q", "--ignore-externals", pegged(url), path)
            return {}
        head = self.recipe["repository"]["head"]
        return {"notes": checkout_head(head, path, temporary, self.svn)}

    def _make(
        self, name: str, make: Callable[[Path, Path], TreeRecord], check_sizes: bool = False
    ) -> TreeRecord:
        """Return the record of a template, which `make` makes unless it is complete.

        `check_sizes`: make it again if its sizes changed.
        """
        path = self.workdir.make(FOLDER) / name
        file = path.with_name(f"{name}.json")
        record = cast("TreeRecord", read_json(file))
        is_complete = path.exists() and "entries" in record
        if is_complete and not (check_sizes and not _sizes(path).items() <= record.items()):
            return record
        file.unlink(missing_ok=True)
        remove_path(path)
        with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=path.parent) as temporary:
            facts = make(path, Path(temporary))
        record = {"path": str(path), **_sizes(path), **facts}
        write_json(file, record)
        return record


def _sizes(path: Path) -> TreeRecord:
    """Return entries (1 for a file), approximate bytes on disk, and bytes of content."""
    status = [os.lstat(path)]
    if path.is_dir():
        status = [
            os.lstat(os.path.join(folder, name))
            for folder, folders, names in os.walk(path)
            for name in (*folders, *names)
        ]
    return {
        "entries": len(status),
        "bytes": sum(s.st_size + OVERHEAD_BYTES for s in status),
        "content_bytes": sum(s.st_size for s in status if stat.S_ISREG(s.st_mode)),
    }


def checkout_head(head: Head, path: Path, temporary: Path, svn: str) -> list[str]:
    """Put the tree of a source's head (Source.head) at a new path, without its history.

    Return notes on renamed and left-out names. `temporary` is a private folder next to `path`.
    """
    kind = head["kind"]
    if kind not in ("directory", "archive", "git"):
        _export_head(head, path, svn)
        return []
    last = head["commit"] if kind == "git" else str(temporary)
    return _run_sources(kind, head["path"], str(path), last).splitlines()


def _export_head(head: Head, path: Path, svn: str) -> None:
    at = [f"-r{head['revision']}"] if head["revision"] else []
    tree = head["tree"]
    if tree is None:
        names = run_client(svn, "list", *at, pegged(head["url"]), user_settings=True).split("\n")
        tree = "trunk" if "trunk/" in names else ""
    url = pegged(f"{head['url']}/{urllib.parse.quote(tree)}".rstrip("/"))
    run_client(svn, "export", "-q", "--ignore-externals", *at, url, path, user_settings=True)


def _run_sources(*arguments: str) -> str:
    """Run vcsbench.sources in a process, and return its output. Raise UserError with its last line.

    Its code is then no part of the measured code: a change of it makes no result stale.
    """
    done = subprocess.run(
        [sys.executable, "-m", "vcsbench.sources", *arguments],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise UserError(lines[-1] if lines else f"{arguments[0]}: exit code {done.returncode}")
    return done.stdout


SUBJECTS = {"tree": Tree, "built_tree": BuiltTree}

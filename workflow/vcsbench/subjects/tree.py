"""The subjects `tree`, a tree or a store of it, and `built_tree`, which a strategy builds from it.

Both are on one file system: the storage itself, or one with a copy for the cell-round.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import urllib.parse
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench import modules
from vcsbench.errors import UserError
from vcsbench.external import file_url, pegged
from vcsbench.programs import Programs
from vcsbench.storages.file_trees import copy_tree, entries, next_directory, remove_path
from vcsbench.storages.workdir import WorkDir, resolve
from vcsbench.subjects import (
    FilesystemSubject,
    Subject,
    Words,
    make_template,
    require_axes,
    run_sources,
)
from vcsbench.subjects.fsfs import run_client
from vcsbench.subjects.repository import Repository
from vcsbench.subjects.tree_stores import STORES

if TYPE_CHECKING:
    from vcsbench.records import Head, Recipe, SubjectFacts, TreeRecord

FOLDER = "trees"
BUILD_FOLDER = "here"


class Tree(FilesystemSubject):
    """A tree, or its store of the command's kind `store`. Both are made once on the storage (make_template).

    Words: {source} and {store} are its path, {store_url} the path in a URL.
    """

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        axes = {"repo": "repository" in recipe, "filesystem": "filesystem" in recipe}
        require_axes("a tree", axes)
        super().__init__(recipe, number, run, root)
        reads_repository = self.reads_repository(recipe)
        self.repository = Repository(recipe, number, run, root) if reads_repository else None
        self.store = STORES[recipe.get("store", "")]
        self.workdir = WorkDir(recipe["storage"]["path"], root)
        identity = recipe["repository"]["identity"]
        self.digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        self.path = self.filesystem.inside / "store"
        self.idle = Path()

    @classmethod
    def records(cls, recipe: Recipe) -> list[str]:
        return Repository.records(recipe) if cls.reads_repository(recipe) else []

    @classmethod
    def reads_repository(cls, recipe: Recipe) -> bool:
        """Return True unless the source has its youngest tree without a loaded repository (Source.head)."""
        return not recipe["repository"]["head"]

    def check(self) -> None:
        super().check()
        self.size = self.store_record["content_bytes"]
        template, self.idle = Path(self.store_record["path"]), self._idle_store()
        part = self.recipe["filesystem"]
        if not part["make"] and resolve(part["root"], self.root) == self.workdir.storage:
            self.path = template
        else:
            idle = self.filesystem.inside / "idle"
            # Without clones, because a strategy decides which blocks the built tree shares.
            for original, copy in ((template, self.path), (self.idle, idle)):
                copy_tree(original, copy)
            self.idle = idle
        self.folders = [self.path]

    def content_bytes(self) -> int:
        if self.recipe.get("is_in_guest"):
            return 0
        if self.repository:
            self.repository.check()
        self._idle_store()
        return self.source_record["bytes"] + self.store_record["bytes"]

    def words(self) -> Words:
        return _words_of(self.path)

    def idle_words(self) -> Words:
        return _words_of(self.idle)

    def facts(self) -> SubjectFacts:
        self.filesystem.check()
        repository, source = self.recipe["repository"], self.source_record
        notes = source.get("notes")
        return {
            "repository": {**repository},
            "tree": {
                "name": repository["name"],
                "description": repository["description"],
                "scale": repository["scale"],
                **({"notes": notes} if notes else {}),
                "entries": source["entries"],
                "bytes": source["content_bytes"],
            },
            "read": {
                "path": str(self.path),
                "store": self.recipe.get("store", ""),
                "left_out": self.store_record.get("left_out", 0),
                "bytes": self.size,
                "filesystem": self.filesystem.describe(),
            },
        }

    @cached_property
    def source_record(self) -> TreeRecord:
        """The record of the tree. A tree that was changed is made again."""
        path = self.workdir.make(FOLDER) / f"{self.digest}-tree"
        return make_template(path, self._make_source, check_sizes=True)

    @cached_property
    def store_record(self) -> TreeRecord:
        return self._make_store(self.digest, self.source_record)

    def _idle_store(self) -> Path:
        def make(path: Path, _: Path) -> TreeRecord:
            path.mkdir()
            return {}

        empty = make_template(self.workdir.make(FOLDER) / "empty", make)
        return Path(self._make_store("idle", empty)["path"])

    def _make_store(self, name: str, source: TreeRecord) -> TreeRecord:
        if not (kind := self.recipe.get("store", "")):
            return source
        code = modules.code_digest(modules.closure([__file__]))
        programs = json.dumps(self.recipe["binaries"], sort_keys=True)
        digest = hashlib.sha256(f"{code} {programs}".encode()).hexdigest()[:8]

        def make(path: Path, temporary: Path) -> TreeRecord:
            tree = original = Path(source["path"])
            left_out = [
                file
                for file, _ in entries(tree)
                if not self.store.carries(os.path.basename(os.fsencode(file)))
            ]
            if left_out:
                tree = temporary / "carried"
                copy_tree(original, tree)
                for file in left_out:
                    remove_path(tree / os.path.relpath(file, original))
            home = temporary / "home"
            home.mkdir()
            self.store.make(tree, path, home)
            return {"left_out": len(left_out)}

        return make_template(self.workdir.make(FOLDER) / f"{name}-{kind}-{digest}", make)

    def _make_source(self, path: Path, temporary: Path) -> TreeRecord:
        svn = Programs(**self.recipe["build"]["client"]).find("svn")
        if not self.repository:
            repository = self.recipe["repository"]
            # In a guest, files have other times.
            identity = "" if self.recipe.get("is_in_guest") else repository["identity"]
            return {"notes": checkout_head(repository["head"], path, svn, identity)}
        url = file_url(self.repository.path, self.repository.tree)
        run_client(svn, "export", "-q", "--ignore-externals", pegged(url), path)
        return {}


def _words_of(path: Path) -> Words:
    url = urllib.parse.quote(str(path))
    return {"source": str(path), "store": str(path), "store_url": url}


class BuiltTree(Subject):
    """A tree that a strategy builds on the file system of a `tree`. {target} is its path, new in each run."""

    def check(self) -> None:
        if not isinstance(self.input, Tree):
            raise UserError(
                "`commands`: a built tree is made of a tree. Add `input: tree` to the command."
            )
        self.tree = self.input
        self.path = self.tree.filesystem.inside / BUILD_FOLDER / "built"
        self.folders = [self.path]
        # A store that lacks names builds another tree.
        if self.recipe["work_kind"] == "built_tree" and not self.tree.store_record.get("left_out"):
            self.counterpart = Path(self.tree.source_record["path"]), ""
        self.restore()

    def words(self) -> Words:
        return {"target": str(self.path)}

    def idle_words(self) -> Words:
        return self.words()

    def restore(self) -> None:
        remove_path(self.path.parent)
        next_directory(self.tree.filesystem.inside, BUILD_FOLDER)
        for path in (self.tree.path, self.tree.idle):
            self.tree.store.clean(path)

    def discard(self) -> None:
        with suppress(UserError, OSError):
            remove_path(self.path.parent)

    @cached_property
    def _lost(self) -> dict[str, int]:
        if not self.counterpart or not self.path.exists():
            return {}
        return lost_features(self.counterpart[0], self.path)

    def facts(self) -> SubjectFacts:
        return {"built": {"path": str(self.path), "lost": self._lost}}

    def flags(self) -> list[str]:
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


def checkout_head(head: Head, path: Path, svn: str, identity: str = "") -> list[str]:
    """Put the tree of a source's head (Source.head) at a new path, without its history.

    Return notes on renamed and left-out names. Raise UserError with the last line of a failed process, or
    if a folder has not the `identity`.
    """
    kind = head["kind"]
    if kind in ("directory", "git"):
        last = head["commit"] if kind == "git" else identity
        return run_sources(kind, head["path"], str(path), last)
    tree = [] if head["tree"] is None else [head["tree"]]
    return run_sources(kind, head["url"], str(path), svn, str(head["revision"]), *tree)

"""The subject `tree`: a tree of files, or a store that holds it, from which a strategy builds it anew.

It lies on the file system on which it is built: on the storage as it was made, elsewhere as a copy for this
cell-round.
"""

from __future__ import annotations

import os
import subprocess
import urllib.parse
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.programs import Programs
from vcsbench.storages.place import resolve
from vcsbench.subjects.repository import Repository
from vcsbench.subjects.room import Room, size_for
from vcsbench.subjects.subject import Recipe, Subject, Words
from vcsbench.subjects.tree.template import Templates

# The work of commands that are to build the tree, and not something beside it.
BUILT = "built_tree"


class Tree(Subject):
    """{source} is the tree's path, {store} that of the store of it, by the command's `store`, {store_url}
    that as the path of a URL."""

    def __init__(self, recipe: Recipe, number: int, run: Path) -> None:
        if not {"repository", "filesystem"} <= recipe.keys():
            raise UserError("a tree needs the axes repo and filesystem; the study lacks one")
        super().__init__(recipe, number, run)
        self.repository = None if _has_head(recipe) else Repository(recipe, number, run)
        svn = Programs(**recipe["build"]["client"]).find("svn")
        self.templates = Templates(recipe, self.repository, svn)
        self.room = Room(recipe["filesystem"])
        self.path = self.room.inside / "store"
        self.idle = Path()
        self.left_out = 0

    @classmethod
    def records(cls, recipe: Recipe) -> list[str]:
        """Those of the repository that it is a revision of, where it is that."""
        return [] if _has_head(recipe) else Repository.records(recipe)

    @classmethod
    def reads_repository(cls, recipe: Recipe) -> bool:
        """Whether it is a revision of one."""
        return not _has_head(recipe)

    def check(self) -> None:
        """Make it and its store, if that is not there yet, and put what is read where it is built."""
        size = self.prepare()
        self.room.open(size)
        record = self.templates.stored()
        there = Path(record["path"])
        self.left_out = record.get("left_out", 0)
        self.idle = self.templates.idle()
        if self._is_in_place():
            self.path = there
        else:
            self._put(there, self.path)
            self.idle = self._put(self.idle, self.room.inside / "idle")
        self.folders = [self.path]
        self.size = record["content_bytes"]

    def _put(self, template: Path, path: Path) -> Path:
        """Copy one onto the file system; not as clones: what is built shall share its blocks with what the
        strategy has it share."""
        subprocess.run(["cp", "-a", "--reflink=never", template, path], check=True)
        return path

    def check_place(self) -> None:
        """Raise a UserError where a folder of the user's is on another file system now."""
        self.room.check()

    def prepare(self) -> int:
        """Make it and its stores; returns the size of a file system for it and what is built of it."""
        if self.recipe.get("looked_at"):
            return 0
        if self.repository:
            self.repository.check()
        self.templates.tidy()
        self.templates.idle()
        return size_for(self.templates.source()["bytes"] + self.templates.stored()["bytes"])

    def _is_in_place(self) -> bool:
        """Whether what was made lies where it is built."""
        of = self.recipe["filesystem"]
        return not of["make"] and resolve(of["root"], os.getcwd()) == self.templates.place.storage

    def words(self) -> Words:
        """{source}, {store} and {store_url}."""
        return self._words_of(self.path)

    def idle_words(self) -> Words:
        """Those of an empty tree."""
        return self._words_of(self.idle)

    def _words_of(self, path: Path) -> Words:
        url = urllib.parse.quote(str(path))
        return {"source": lambda: str(path), "store": lambda: str(path), "store_url": lambda: url}

    def clean(self) -> None:
        """Take back what building from it has left in it."""
        for path in (self.path, self.idle):
            self.templates.store.clean(path)

    def counterpart_of(self) -> tuple[Path, str] | None:
        """The tree that what is built of it has to equal."""
        is_same = self.recipe["work"] == BUILT and not self.left_out
        return (Path(self.templates.source()["path"]), "") if is_same else None

    def discard(self) -> None:
        """Remove what was made for this cell-round."""
        self.room.close()

    def facts(self) -> dict[str, Any]:
        """The repository that it is of, the tree itself, and what was read of it."""
        self.room.check()
        of, whole = self.recipe["repository"], self.templates.source()
        about = {key: of[key] for key in ("name", "description", "scale")}
        store = self.recipe.get("store", "")
        if notes := whole.get("notes"):
            about["notes"] = notes
        read = {"path": str(self.path), "store": store, "left_out": self.left_out}
        return {
            "repository": dict(of),
            "tree": {**about, "entries": whole["entries"], "bytes": whole["content_bytes"]},
            "read": {**read, "bytes": self.size, "filesystem": self.room.described()},
        }

    def flags(self) -> list[str]:
        """That the storage's page cache stands in for a disk."""
        return ["host-cached"] if self.room.is_cached else []


def _has_head(recipe: Recipe) -> bool:
    """Whether its youngest tree is to be had without a repository that is loaded for it."""
    return bool(recipe["repository"]["head"])


SUBJECT = Tree

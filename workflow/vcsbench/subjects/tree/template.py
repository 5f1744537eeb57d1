"""The trees that are read, and the stores of them: on the storage, each made once and left as it is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vcsbench.files import entries, files_digest, read_json, write_json
from vcsbench.storages.place import Place
from vcsbench.subjects.repository import Repository
from vcsbench.subjects.subject import Recipe
from vcsbench.subjects.tree import heads
from vcsbench.subjects.tree.stores import store_of
from vcsbench.subjects.tree.stores.store import Store, copy
from vcsbench.subjects.working_copy import client
from vcsbench.urls import file_url, pegged

FOLDER = "trees"
SOURCE, IDLE, NOTHING = "source", "idle", "empty"
# What a folder begins with that is only there while something is made.
MAKING = "making-"
# What a file or folder takes beside its bytes, on average: half a block, and an inode.
BESIDE = 4096


class Templates:
    """Those of the tree that a recipe reads."""

    def __init__(self, recipe: Recipe, repository: Repository | None, svn: str) -> None:
        self.recipe = recipe
        self.repository = repository
        self.svn = svn
        self.kind: str = recipe.get("store", "")
        self.place = Place(recipe["storage"]["path"], os.getcwd())
        of = recipe["repository"]
        self.name = hashlib.sha256(of["identity"].encode()).hexdigest()[:16]

    @property
    def store(self) -> Store:
        """The kind of store that the cell's strategy builds from."""
        return store_of(self.kind)

    def tidy(self) -> None:
        """Remove what one that was killed while it made something has left; nobody makes anything now."""
        for left in self.place.make(FOLDER).glob(f"{MAKING}*"):
            remove(left)

    def source(self) -> dict[str, Any]:
        """The record of the tree: `path`, `bytes`, about what it takes, and `content_bytes` of its files."""
        return self._made(f"{self.name}-{SOURCE}", self._make_source, stays=True)

    def stored(self) -> dict[str, Any]:
        """The record of the store of it: beside these `left_out`, how many names it could not carry, with
        what is below them."""
        return self._stored(f"{self.name}-{self._of_kind()}", self.source)

    def idle(self) -> Path:
        """A store of an empty tree."""
        record = self._stored(f"{IDLE}-{self._of_kind()}", self._nothing)
        return Path(record["path"])

    def _nothing(self) -> dict[str, Any]:
        return self._made(NOTHING, lambda path, _: path.mkdir())

    def _of_kind(self) -> str:
        """The kind of store, by the code and the program that make it: others have made another one."""
        folder = Path(__file__).parent / "stores"
        code = files_digest(folder, ["store.py", f"{self.kind}.py", "pack.py"])
        programs = json.dumps(self.recipe["binaries"], sort_keys=True)
        digest = hashlib.sha256(f"{code} {programs}".encode()).hexdigest()[:8]
        return f"{self.kind}-{digest}"

    def _stored(self, name: str, source: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if not self.kind:
            return source()
        return self._made(name, lambda path, work_in: self._make_store(source(), path, work_in))

    def _make_store(self, source: dict[str, Any], path: Path, work_in: Path) -> dict[str, int]:
        store, tree = self.store, Path(source["path"])
        left = [file for file, _ in entries(tree) if not _is_carried(store, file)]
        if left:
            tree = work_in / "carried"
            copy(Path(source["path"]), tree)
            for file in left:
                remove(tree / os.path.relpath(file, source["path"]))
        private = work_in / "home"
        private.mkdir()
        store.make(tree, path, private)
        return {"left_out": len(left)}

    def _make_source(self, path: Path, work_in: Path) -> dict[str, Any]:
        """The youngest tree: of a repository that was loaded, or from where its source has it."""
        if self.repository:
            tree = self.repository.words()["tree"]()
            url = file_url(self.repository.path, tree)
            client.run(self.svn, "export", "-q", "--ignore-externals", pegged(url), path)
        else:
            head = self.recipe["repository"]["head"]
            return {"notes": heads.take(head, path, work_in, self.svn)}
        return {}

    def _made(
        self, name: str, make: Callable[[Path, Path], Any], stays: bool = False
    ) -> dict[str, Any]:
        """The record of what is made under a name; made where it is not there, was not finished, or is one
        that `stays` as it is and has not."""
        path = self.place.make(FOLDER) / name
        file = path.with_name(f"{name}.json")
        record = read_json(file)
        if (
            path.exists()
            and "entries" in record
            and not (stays and _sizes(path) != _sizes_in(record))
        ):
            return record
        file.unlink(missing_ok=True)
        remove(path)
        with tempfile.TemporaryDirectory(prefix=MAKING, dir=path.parent) as work_in:
            told = make(path, Path(work_in)) or {}
        record = {"path": str(path), **_sizes(path), **told}
        write_json(file, record)
        return record


def _is_carried(store: Store, file: str) -> bool:
    return store.carries(os.path.basename(os.fsencode(file)))


def remove(path: Path) -> None:
    """Remove a folder or a file, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sizes(path: Path) -> dict[str, int]:
    """`entries` of a folder (1 of a file), `bytes`, about what they take, and the files' `content_bytes`."""
    found = [os.lstat(path)]
    if path.is_dir():
        found = [
            os.lstat(os.path.join(folder, name))
            for folder, folders, names in os.walk(path)
            for name in (*folders, *names)
        ]
    return {
        "entries": len(found),
        "bytes": sum(state.st_size + BESIDE for state in found),
        "content_bytes": sum(s.st_size for s in found if stat.S_ISREG(s.st_mode)),
    }


def _sizes_in(record: dict[str, Any]) -> dict[str, int]:
    return {name: record[name] for name in ("entries", "bytes", "content_bytes")}

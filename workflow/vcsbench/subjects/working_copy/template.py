"""Working copies that others are copied from, and the export that one has to equal: beside the repositories,
each made once, whatever file system it is copied to."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from vcsbench.files import read_json, write_json
from vcsbench.storages.place import Place
from vcsbench.subjects.repository import Repository
from vcsbench.subjects.subject import Recipe
from vcsbench.subjects.working_copy import client
from vcsbench.urls import file_url, pegged

FOLDER = "working-copies"
# What a file takes beside its bytes, on average: half a block, and an inode.
BESIDE = 4096


class Templates:
    """Those of one repository, as a client makes them."""

    def __init__(self, recipe: Recipe, repository: Repository, svn: str) -> None:
        self.place = Place(recipe["storage"]["path"], os.getcwd())
        self.svn = svn
        self.options = recipe.get("pristine_options", [])
        self.url = file_url(repository.path)
        self.tree = repository.words()["tree"]()
        what = [recipe["repository"]["identity"], self.tree, self.options, recipe["binaries"]]
        self.digest = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]

    def working_copy(self, revision: int) -> tuple[Path, str]:
        """A clean working copy at a revision, and the URL that its keywords may have."""
        return self._made(f"{self.digest}-{revision}", "checkout", *self.options, f"-r{revision}")

    def export(self, revision: int) -> tuple[Path, str]:
        """An export of a revision, and the URL that its keywords may have: that of the copy of the repository
        that it was made from, which may have been another one."""
        return self._made(f"{self.digest}-{revision}-export", "export", f"-r{revision}")

    def bytes_of(self, revision: int) -> int:
        """About what a working copy of a revision takes."""
        path, _ = self.export(revision)
        return int(read_json(_record_of(path))["bytes"])

    def _made(self, name: str, *words: str) -> tuple[Path, str]:
        """What the client makes by these words, under a name, and the URL that it was made from; made where
        it is not there, or was not finished."""
        path = self.place.make(FOLDER) / name
        record = _record_of(path)
        if "url" not in read_json(record) or not path.exists():
            record.unlink(missing_ok=True)
            if path.exists():
                shutil.rmtree(path)
            source = f"{self.url}/{self.tree}".rstrip("/")
            client.run(self.svn, *words, "-q", "--ignore-externals", pegged(source), path)
            about = {"path": str(path), "url": self.url, "bytes": 2 * _bytes(path)}
            write_json(record, about)
        return path, str(read_json(record)["url"])


def _record_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _bytes(path: Path) -> int:
    """What the files of a tree take, each rounded up."""
    return sum(
        os.lstat(os.path.join(folder, name)).st_size + BESIDE
        for folder, _, names in os.walk(path)
        for name in names
    )

"""The subject `repository`: one of the interleaved copies of a Subversion repository, which is only read.

Beside it lies how copies come to be: loaded from a source, packed, and copied onto the storage.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.subjects.repository.audit import check_copy
from vcsbench.subjects.repository.labels import (
    EMPTY,
    FOLDER,
    Variant,
    copy_of,
    last_of,
    results_of,
    said_of,
)
from vcsbench.subjects.subject import Recipe, Subject, Words


class Repository(Subject):
    """{repository} is a copy's path, {tree} the path in it that is exported, {folder} that of a folder below
    it (folders.largest), {last} the last revision of a dump (labels.last_of), and {url} its URL, by the
    server's kind. Round n uses copy ((n - 1) mod copies) + 1."""

    def __init__(self, recipe: Recipe, number: int, run: Path) -> None:
        super().__init__(recipe, number, run)
        (record,) = self.records(recipe)
        said = json.loads(Path(record).read_text())
        self.place = Path(said["place"])
        self.layout = said["layout"]
        self.copy = (number - 1) % said["copies"] + 1
        self.variant = variant_of(recipe["repository"])
        self.path = copy_of(self.place, self.variant.name, self.copy)
        self.folders = [self.path]
        self.served, self.name, self.idle_name = self.place / FOLDER, self.path.name, EMPTY
        self.label: dict[str, Any] = {}

    @classmethod
    def records(cls, recipe: Recipe) -> list[str]:
        """That of the storage's copies."""
        return [f"results/repositories/{recipe['storage']['shelf']}.json"]

    @classmethod
    def reads_repository(cls, recipe: Recipe) -> bool:
        """It is one."""
        return True

    def check(self) -> None:
        """The copy has to be whole, and of this repository, format and packing. What a guest reads
        its host has looked at: there, files have other times."""
        looked_at = self.recipe.get("looked_at")
        self.label = (
            said_of(self.path) if looked_at else check_copy(self.place, self.variant, self.copy)
        )
        self.size = self.label["bytes"]

    def check_unchanged(self, closely: bool = False) -> None:
        """The copy has to be as it was: by its folders, or by all of its files."""
        if not self.recipe.get("looked_at"):
            check_copy(self.place, self.variant, self.copy, None if closely else 0)

    def words(self) -> Words:
        """{repository}, {tree}, {folder} and {last}."""
        return {
            "repository": lambda: str(self.path),
            "tree": lambda: urllib.parse.quote(self.label["tree"]),
            "folder": lambda: urllib.parse.quote(self.label["folder"]),
            "last": lambda: str(last_of(self.recipe, self.label["youngest"])),
        }

    def idle_words(self) -> Words:
        """An empty repository's."""
        return {
            "repository": lambda: str(self.place / FOLDER / EMPTY),
            "tree": lambda: "",
            "folder": lambda: "",
            "last": lambda: "0",
        }

    def facts(self) -> dict[str, Any]:
        """The copy, what its label says, and how the copies lie."""
        repository = {
            **self.recipe["repository"],
            "variant": self.variant.name,
            **results_of(self.label),
            "path": str(self.path),
        }
        return {"copy": self.copy, "repository": repository, "layout": self.layout}

    def flags(self) -> list[str]:
        """That nothing is packed, or that the copy lies elsewhere than the others."""
        packed = self.recipe["repository"]["packed"]
        flags = {
            "nothing-packed": packed and not self.label["packed_shards"],
            "apart": self.path.name in self.layout["apart"],
        }
        return [word for word, holds in flags.items() if holds]


def variant_of(repository: Mapping[str, Any]) -> Variant:
    """The variant that a recipe's `repository` is; a UserError where its study says too little of it."""
    of = {"repo": "name", "format": "format", "packing": "packing"}
    for axis, key in of.items():
        if key not in repository:
            raise UserError(
                f"a command that reads a repository needs the axes {', '.join(of)}; the study has no {axis}"
            )
    name, form, packing = (repository[key] for key in of.values())
    return Variant(name, form, packing, repository["identity"])


SUBJECT = Repository

"""The subject `built_tree`: what a strategy builds of a `tree`, beside that on its file system."""

from __future__ import annotations

import shutil
from functools import cached_property
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.storages.spread import fresh_folder
from vcsbench.subjects.subject import Recipe, Subject, Words
from vcsbench.subjects.tree import Tree
from vcsbench.subjects.tree.lost import lost

# The folder that it is built in, which is new for each run.
HERE = "here"


class BuiltTree(Subject):
    """{target} is its path; it is removed before each run."""

    def __init__(self, recipe: Recipe, number: int, run: Path) -> None:
        super().__init__(recipe, number, run)
        self.path = Path()

    def check(self) -> None:
        """It is built of the tree that the cell reads."""
        if not isinstance(self.beside, Tree):
            raise UserError("a tree is built of a tree: say `input: tree` for the command")
        self.tree = self.beside
        self.path = self.tree.room.inside / HERE / "built"
        self.folders = [self.path]
        self.counterpart = self.tree.counterpart_of()
        self.restore()

    def words(self) -> Words:
        """{target}."""
        return {"target": lambda: str(self.path)}

    idle_words = words

    def restore(self) -> None:
        """Remove what the last run built, and what it has left in the store."""
        if self.path.parent.exists():
            shutil.rmtree(self.path.parent)
        fresh_folder(self.tree.room.inside, HERE)
        self.tree.clean()

    def discard(self) -> None:
        """Remove it, as far as that is possible."""
        shutil.rmtree(self.path.parent, ignore_errors=True)

    @cached_property
    def _lost(self) -> dict[str, int]:
        return (
            lost(self.counterpart[0], self.path) if self.counterpart and self.path.exists() else {}
        )

    def facts(self) -> dict[str, Any]:
        """Where it was, and what of the tree it has not."""
        return {"built": {"path": str(self.path), "lost": self._lost}}

    def flags(self) -> list[str]:
        """What of the tree the strategy does not carry."""
        return [f"no-{what}" for what, number in self._lost.items() if number]


SUBJECT = BuiltTree

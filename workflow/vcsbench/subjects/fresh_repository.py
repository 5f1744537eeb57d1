"""The subject `fresh_repository`: an empty Subversion repository that a command fills, made anew before each
run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.subjects.repository import svnadmin
from vcsbench.subjects.subject import Recipe, Words
from vcsbench.subjects.target import Target


class FreshRepository(Target):
    """{fresh} is a repository of the cell's format; it lies where a target does."""

    def __init__(self, recipe: Recipe, number: int, run: Path) -> None:
        if "format" not in recipe.get("repository", {}):
            raise UserError(
                "a fresh repository needs the axes repo and format; the study lacks one"
            )
        super().__init__(recipe, number, run)

    def words(self) -> Words:
        """{fresh}."""
        return {"fresh": lambda: str(self.path)}

    def idle_words(self) -> Words:
        """None: what fills it always has something to do."""
        return {}

    def restore(self) -> None:
        """Remove what the last run filled, and make an empty one."""
        super().restore()
        svnadmin.create(self.path, self.recipe["repository"]["format"])

    def facts(self) -> dict[str, Any]:
        """Where it was."""
        return {"written": str(self.path)}


SUBJECT = FreshRepository

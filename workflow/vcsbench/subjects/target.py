"""Subjects that a command writes: `target`, `targets` and `fresh_repository`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench.errors import UserError
from vcsbench.storages.workdir import TARGETS, WorkDir, remove_path
from vcsbench.subjects import CLIENT, Subject, Words, fsfs

if TYPE_CHECKING:
    from vcsbench.records import Recipe, SubjectFacts


class Target(Subject):
    """A file or tree that is removed before each run. {target} is its path.

    It is on the storage under test or in the scratch folder.
    """

    def __init__(self, recipe: Recipe, number: int, run: Path) -> None:
        super().__init__(recipe, number, run)
        # workdir.remove_abandoned() recognises the process by the name.
        self.path = WorkDir(recipe["targets"], os.getcwd()).make(TARGETS) / str(os.getpid())
        self.folders = [self.path]

    def words(self) -> Words:
        """Return {target}."""
        return {"target": lambda: str(self.path)}

    def idle_words(self) -> Words:
        """Return {target}, too."""
        return self.words()

    def restore(self) -> None:
        """Remove the output of the last run."""
        remove_path(self.path)

    def discard(self) -> None:
        """Remove the target as far as possible."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.path.is_file():
            self.path.unlink(missing_ok=True)


class Targets(Target):
    """A folder for several clients that write at once. {target} is a client's path in it."""

    def words(self) -> Words:
        """Return {target}, with a placeholder for the client's number."""
        return {"target": lambda: str(self.path / CLIENT)}

    def restore(self) -> None:
        """Make the folder again, empty."""
        super().restore()
        self.path.mkdir()


class FreshRepository(Target):
    """A repository of the cell's format, made empty before each run. {fresh} is its path."""

    def __init__(self, recipe: Recipe, number: int, run: Path) -> None:
        if "format" not in recipe.get("repository", {}):
            raise UserError(
                "a fresh repository needs the axes repo and format; the study lacks one"
            )
        super().__init__(recipe, number, run)

    def words(self) -> Words:
        """Return {fresh}."""
        return {"fresh": lambda: str(self.path)}

    def idle_words(self) -> Words:
        """Return nothing: a command that fills a repository always has work."""
        return {}

    def restore(self) -> None:
        """Make an empty repository again."""
        super().restore()
        fsfs.create(self.path, self.recipe["repository"]["format"])

    def facts(self) -> SubjectFacts:
        """Return the path."""
        return {"written": str(self.path)}


SUBJECTS = {"target": Target, "targets": Targets, "fresh_repository": FreshRepository}

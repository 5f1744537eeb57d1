"""The subject `target`: a file or tree that a command writes where nothing was."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from vcsbench.storages.place import Place
from vcsbench.subjects.subject import Recipe, Subject, Words


class Target(Subject):
    """{target} is removed before each run; it lies on the storage under test, or in the scratch folder."""

    def __init__(self, recipe: Recipe, number: int, run: Path) -> None:
        super().__init__(recipe, number, run)
        # Its name says which process it is of: what a killed one leaves is removed by the next run.
        self.path = Place(recipe["targets"], os.getcwd()).make("targets") / str(os.getpid())
        self.folders = [self.path]

    def words(self) -> Words:
        """{target}."""
        return {"target": lambda: str(self.path)}

    idle_words = words

    def restore(self) -> None:
        """Remove what the last run wrote."""
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        else:
            self.path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove it, as far as that is possible."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.path.is_file():
            self.path.unlink(missing_ok=True)


SUBJECT = Target

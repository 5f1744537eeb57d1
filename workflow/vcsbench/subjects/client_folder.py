"""Define the folder of a client of a distributed system, such as a clone that runs bring up to date."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench.errors import UserError
from vcsbench.storages.file_trees import copy_tree
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import Target, Words
from vcsbench.subjects.repository import Repository, scaled_revisions
from vcsbench.subjects.templates import make_template

if TYPE_CHECKING:
    from vcsbench.records import Recipe, SubjectFacts, TreeRecord

FOLDER = "working-copies"


class ClientFolder(Target):
    """A folder that is mostly copied from a template, which _make() makes once on the storage for many runs.

    `kind` is its name in studies, as the `output` of a command.
    """

    kind = ""

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        super().__init__(recipe, number, run, root)
        self.workdir = WorkDir(recipe["storage"]["path"], root)

    @property
    def repository(self) -> Repository:
        """The repository that the command reads."""
        if not isinstance(self.input, Repository):
            raise UserError(f"`commands`: `output: {self.kind}` needs `input: repository`. Add it.")
        return self.input

    @property
    def commits(self) -> int:
        """The number of commits that a clone lacks, or has in addition for a push: at most half of all."""
        behind = scaled_revisions(self.recipe.get("revisions_behind", 0), self.recipe)
        return min(behind, self.repository.metadata["youngest"] // 2)

    def check(self) -> None:
        """Make the template if it does not exist or was changed, and set its path: `template`."""
        repository = self.repository
        # Copies of one source (`identity`) with equally many refs have equal commits. They share a template.
        key = [repository.variant.identity, repository.metadata.get("refs_count"), self.commits]
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
        folder = self.workdir.make(FOLDER)
        self.template = make_template(folder / f"{digest}-{self.kind}", self._make)["path"]

    def _make(self, path: Path, temporary: Path) -> TreeRecord:
        """Make the template at `path`, and return facts about it. `temporary` is a private folder."""
        raise NotImplementedError

    def idle_words(self) -> Words:
        # An idle run in this folder would load files that have to be cold. There is no empty folder for it.
        return {}

    def facts(self) -> SubjectFacts:
        return {"written": str(self.path), **super().facts()}


class Checkout(ClientFolder):
    """A clone with the working tree of its main branch. {checkout} is its path.

    With `revisions_behind`, it lacks the last commits, and is copied from the template before each run.
    Otherwise, commands do not change it, and it is copied once.
    """

    def check(self) -> None:
        super().check()
        self._copy()

    def restore(self) -> None:
        # git would read all files of a new copy. So a clone that no command changes is kept.
        if self.commits:
            self._copy()

    def _copy(self) -> None:
        super().restore()
        copy_tree(self.template, self.path)

    def words(self) -> Words:
        return {"checkout": str(self.path)}

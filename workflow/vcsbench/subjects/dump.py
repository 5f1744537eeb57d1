"""The subject `dump`: a dump file of a repository, in the scratch folder, which is only read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcsbench.errors import ChangedError
from vcsbench.subjects.repository import dumps
from vcsbench.subjects.subject import Recipe, Subject, Words


class Dump(Subject):
    """{dump} is the file. It has the first revisions of the repository, as many as the command's `revisions`
    says, and is made where that is loaded: in RAM mostly, so that reading it takes hardly a part in what is
    timed."""

    def __init__(self, recipe: Recipe, number: int, run: Path) -> None:
        super().__init__(recipe, number, run)
        (record,) = self.records(recipe)
        loaded = json.loads(Path(record).read_text())
        self.load_options: list[str] = loaded.get("load_options", [])
        self.record: Mapping[str, Any] = loaded.get("dump") or {}
        self.path = Path(self.record.get("path", ""))
        self.folders = [self.path]
        self.size = self.record.get("bytes", 0)

    @classmethod
    def records(cls, recipe: Recipe) -> list[str]:
        """That of the load."""
        return [f"results/loaded/{recipe['repository']['name']}.json"]

    def check(self) -> None:
        """The file has to be there as it was made."""
        if dumps.state(self.path) != self.record.get("state"):
            raise ChangedError(f"{self.path}: is gone, or was changed; the next run makes it anew")

    def check_unchanged(self, closely: bool = False) -> None:
        """The same after the runs."""
        self.check()

    def words(self) -> Words:
        """Return {dump}, and {load_options}: the options without which svnadmin load refuses the file."""
        options: Any = self.load_options  # a list, which a template expands to its words
        return {"dump": lambda: str(self.path), "load_options": lambda: options}

    def facts(self) -> dict[str, Any]:
        """The repository that it is of, and its size, revisions and digest."""
        repository = {k: v for k, v in self.recipe["repository"].items() if k != "format"}
        said = {key: value for key, value in self.record.items() if key != "state"}
        return {"repository": repository, "dump": {"name": repository["name"], **said}}


SUBJECT = Dump

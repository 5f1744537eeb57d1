"""A round of a cell, and the places of its files.

This is no part of files.py, because a measuring process does not need it: dataclasses take time to import.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

CONTEXT = ".context.json"
_CELL_ROUND = re.compile(r"((?:.*/)?results)/cells/([^/]+)/(.+)/round(\d+)(?:\.context)?\.json")


@dataclass(frozen=True)
class CellRound:
    """A round of a cell of a study, and its files below the folder `results`."""

    study: str
    cell: str
    number: int
    results: str = "results"

    @property
    def export(self) -> str:
        """Return the file of hyperfine's export, which has the times of the runs."""
        return f"{self.results}/cells/{self.study}/{self.cell}/round{self.number}.json"

    @property
    def context(self) -> str:
        return f"{self.results}/cells/{self.study}/{self.cell}/round{self.number}{CONTEXT}"

    @property
    def log(self) -> str:
        return f"{self.results}/logs/cells/{self.study}/{self.cell}/round{self.number}.log"

    @classmethod
    def parse(cls, path: str | Path) -> Self:
        """Return the cell-round of an export or a context. Raise ValueError for another path."""
        match = _CELL_ROUND.fullmatch(str(path))
        if not match:
            raise ValueError(f"{path} is no result of a cell-round")
        results, study, cell, number = match.groups()
        return cls(study, cell, int(number), results)

    def below(self, root: str | Path) -> Self:
        """Return the cell-round with its files in the checkout `root`."""
        return replace(self, results=f"{root}/{self.results}")

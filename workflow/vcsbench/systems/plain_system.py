"""Define systems whose repositories have one format and one state, as they were loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcsbench.errors import UserError
from vcsbench.systems.base import FileStore, System, read_commit_count

if TYPE_CHECKING:
    from vcsbench.records import RecipeRepository

PLAIN_FORMAT = "plain"


class PlainStore(FileStore):
    """Repositories of such a system. Each has the file `content` of the system."""

    content = Path()

    def mismatch(self, path: Path, fmt: str, state: str, last: int | None = None) -> str:
        if not (path / self.content).is_file():
            return f"it is no repository of {fmt}: it has no {self.content}"
        try:
            commits = read_commit_count(path)
        except (OSError, UserError) as error:
            return f"its number of commits is unknown: {error}"
        if last is not None and commits != last:
            return f"it has {commits} commits, not {last}"
        return ""

    def facts(self, path: Path) -> dict[str, Any]:
        return {"youngest": read_commit_count(path)}


class PlainSystem(System):
    """A system with the format `fmt`."""

    fmt = ""
    unit = "commit"

    def has_format(self, fmt: str) -> bool:
        return fmt == self.fmt

    def stored_as(self, repository: RecipeRepository) -> tuple[str, str]:
        return self.fmt, PLAIN_FORMAT

    def describe(self, fmt: str, state: str) -> dict[str, str]:
        return {"system": self.name}

    def is_made(self, state: str) -> bool:
        return False

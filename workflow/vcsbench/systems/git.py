"""git as a system: bare repositories in a state of upkeep and refs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from vcsbench.systems.base import System
from vcsbench.systems.git_store import (
    AS_IS_REFS,
    GIT_FORMAT,
    PACKED_REFS,
    GitState,
    GitStore,
    Upkeep,
    parse_state,
)

if TYPE_CHECKING:
    from vcsbench.records import Access, RecipeRepository


class GitSystem(System):
    """git."""

    name = "git"
    title = "git"
    unit = "commits"
    programs = ("git",)
    axes = ("upkeep",)
    empty_name = "empty-git"
    store = GitStore()
    # git has no files of a server configuration.
    accesses: ClassVar[Mapping[str, Access]] = {
        "git": {"scheme": "git", "files": [], "server": "git-daemon"},
        "http": {"scheme": "http", "files": [], "server": "git-httpd"},
        "ssh": {"scheme": "ssh", "files": [], "server": "git-sshd"},
        "file": {"scheme": "file", "files": [], "server": ""},
    }

    def has_format(self, fmt: str) -> bool:
        return fmt == GIT_FORMAT

    def stored_as(self, repository: RecipeRepository) -> tuple[str, str]:
        state = GitState(
            repository["upkeep"],
            repository.get("refs", AS_IS_REFS),
            repository.get("ref_storage", PACKED_REFS),
        )
        return GIT_FORMAT, state.name

    def describe(self, fmt: str, state: str) -> dict[str, str]:
        return {"system": self.name, **parse_state(state)._asdict()}

    def is_made(self, state: str) -> bool:
        return state != Upkeep.AS_IS

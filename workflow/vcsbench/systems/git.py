"""git as a system: bare repositories in a state of upkeep and refs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from vcsbench.systems import git_store
from vcsbench.systems.base import System

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
    store = git_store.GitStore()
    # git has no files of a server configuration.
    accesses: ClassVar[Mapping[str, Access]] = {
        "git": {"scheme": "git", "files": [], "server": "git-daemon"},
        "http": {"scheme": "http", "files": [], "server": "git-httpd"},
        "ssh": {"scheme": "ssh", "files": [], "server": "git-sshd"},
        "file": {"scheme": "file", "files": [], "server": ""},
    }

    def has_format(self, fmt: str) -> bool:
        return fmt == git_store.GIT_FORMAT

    def stored_as(self, repository: RecipeRepository) -> tuple[str, str]:
        state = git_store.GitState(
            repository["upkeep"],
            repository.get("refs", git_store.AS_IS_REFS),
            repository.get("ref_storage", git_store.PACKED_REFS),
        )
        return git_store.GIT_FORMAT, state.name

    def describe(self, fmt: str, state: str) -> dict[str, str]:
        return {"system": self.name, **git_store.parse_state(state)._asdict()}

    def is_made(self, state: str) -> bool:
        return state != git_store.Upkeep.AS_IS

    def size_factor(self, state: str) -> float:
        return git_store.SIZE_FACTORS.get(git_store.parse_state(state).upkeep, 1.0)

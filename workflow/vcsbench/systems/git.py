"""git as a system: bare repositories in a state of upkeep and refs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from vcsbench.history_forms import HistoryForm
from vcsbench.systems import git_store
from vcsbench.systems.base import System

if TYPE_CHECKING:
    from vcsbench.records import Access, RecipeRepository


class GitSystem(System):
    """git."""

    name = "git"
    title = "git"
    unit = "commit"
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
    servers: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "git-daemon": ("git-daemon", "git"),
        "git-httpd": ("httpd", "git-http-backend", "git"),
        "git-sshd": ("sshd", "git-shell", "git"),
    }
    loadable_forms = frozenset({HistoryForm.FAST_IMPORT, HistoryForm.GIT_FILES})

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

    def why_not_loaded(self, name: str, source_kind: str) -> str:
        # Of git sources, only a converted one has no form for git.
        if source_kind == self.name:
            return (
                f"{name} is converted to Subversion, and git loads it only as it is; set `history: as-is`, "
                f"or name with REPO= no other study than git-server"
            )
        return (
            f"git cannot load {name}, only a generated history or a git repository as it is; measure such a "
            f"repository"
        )

    def is_made(self, state: str) -> bool:
        return state != git_store.Upkeep.AS_IS

    def size_factor(self, state: str) -> float:
        return git_store.SIZE_FACTORS.get(git_store.parse_state(state).upkeep, 1.0)

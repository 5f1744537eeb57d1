"""What the configuration and this machine offer to the cells of all studies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcsbench.config.builds import Build
from vcsbench.config.configuration import EMPTY, Config
from vcsbench.machine import Machine
from vcsbench.urls import without_password

if TYPE_CHECKING:
    from vcsbench.sources.base import Source, Stored


@dataclass(frozen=True, eq=False)
class Here:
    """The configuration, the machine, and by name the repositories (as defined, and their sources), the
    builds, and the server configurations."""

    config: Config
    machine: Machine
    repositories: Mapping[str, Mapping[str, Any]]
    sources: Mapping[str, Source]
    builds: Mapping[str, Build]
    servers: list[str]

    @cache  # noqa: B019 - there is one of it
    def revisions(self, repo: str) -> int:
        """How many revisions a repository has or will have. May take seconds."""
        self.sources[repo].check()
        return self.sources[repo].estimate().revisions

    def definition(self, repo: str) -> dict[str, Any]:
        """Return a repository's definition as it may be stored: without user and password in its URL."""
        definition = self.repositories[repo]
        return {k: without_password(v) if k == "url" else v for k, v in definition.items()}

    @cache  # noqa: B019 - there is one of it
    def head(self, repo: str) -> dict[str, Any]:
        """Where the youngest tree of a repository is to be had without its history (Source.head)."""
        return self.sources[repo].head()

    @property
    def only(self) -> str:
        """The name of the repository, where there is one only: the user's own, say; else ""."""
        names = self.named_repositories
        return names[0] if len(names) == 1 else ""

    @property
    def named_repositories(self) -> list[str]:
        """Return the names of the configured repositories, without the empty one."""
        return [name for name in self.sources if name != EMPTY]

    @cached_property
    def stored(self) -> Stored | str:
        """How that lies on disk; a clause on why that is not known, where it is not."""
        if not self.only:
            return "there are several repositories"
        return self.sources[self.only].stored()

    @property
    def root(self) -> Path:
        """The folder of the workflow."""
        return self.config.root

"""What the configuration and this machine offer to the cells of all studies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcsbench.config.builds import Build
from vcsbench.config.configuration import Config
from vcsbench.machine import Machine

if TYPE_CHECKING:
    from vcsbench.sources.base import Source


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

    @cache  # noqa: B019 - there is one of it
    def head(self, repo: str) -> dict[str, Any]:
        """Where the youngest tree of a repository is to be had without its history (Source.head)."""
        return self.sources[repo].head()

    @property
    def root(self) -> Path:
        """The folder of the workflow."""
        return self.config.root

"""What the configuration and this machine offer to the cells of all studies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from vcsbench.config.builds import Build
from vcsbench.config.configuration import Config
from vcsbench.machine import Machine


class History(Protocol):
    """A repository's source, as far as cells depend on it (sources.Source has more)."""

    kind: str

    def identity(self) -> str:
        """What changes when the history does."""

    def scale(self) -> float:
        """The part of the published size that it has."""

    def describe(self) -> str:
        """One line for reports."""

    def check(self) -> None:
        """A UserError where there is none."""

    def estimate(self) -> Any:
        """How large it will be; its `revisions` among it."""


@dataclass(frozen=True, eq=False)
class Here:
    """The configuration, the machine, and by name the repositories (as defined, and their sources), the
    builds, and the server configurations."""

    config: Config
    machine: Machine
    repositories: Mapping[str, Mapping[str, Any]]
    sources: Mapping[str, History]
    builds: Mapping[str, Build]
    servers: list[str]

    @cache  # noqa: B019 - there is one of it
    def revisions(self, repo: str) -> int:
        """How many revisions a repository has or will have. May take seconds."""
        self.sources[repo].check()
        return int(self.sources[repo].estimate().revisions)

    @property
    def root(self) -> Path:
        """The folder of the workflow."""
        return self.config.root

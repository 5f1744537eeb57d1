"""Define an axis of a study's grid, and the environment in which its values have a meaning."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from vcsbench.config.configuration import EMPTY, Build, Config
from vcsbench.config.study import Study
from vcsbench.files import read_json
from vcsbench.formats import Shape
from vcsbench.machine import Machine
from vcsbench.records import Head, Recipe
from vcsbench.sources.base import Source
from vcsbench.storages.file_trees import OddPaths


@dataclass(frozen=True, eq=False)
class Environment:
    """The configuration and this machine, with repositories, builds and server configurations by name.

    `is_elsewhere`: the nodes of a cluster measure, or this is one of them.
    """

    config: Config
    machine: Machine
    repositories: Mapping[str, Mapping[str, Any]]
    sources: Mapping[str, Source]
    builds: Mapping[str, Build]
    servers: list[str]
    is_elsewhere: bool = False

    @cache  # noqa: B019 - there is one of it
    def revisions(self, repo: str) -> int:
        self.sources[repo].check()
        return self.sources[repo].estimate().revisions

    def definition(self, repo: str) -> dict[str, object]:
        """Return a definition without user and password in its URL: results may contain it."""
        return dict(self.repositories[repo])

    @cache  # noqa: B019 - there is one of it
    def odd_paths(self, repo: str, behind: int = 0) -> OddPaths:
        """Return the numbers of odd paths in the exported tree, as last loaded or in the source.

        `behind` revisions before the youngest, they are those in the source.
        """
        source = self.sources[repo]
        for path in sorted((self.root / "results" / "loaded" / repo).glob("*.json")):
            record = read_json(path)
            if not behind and record.get("identity") == source.identity():
                return OddPaths(record.get("long_names", 0), record.get("reserved_names", 0))
        return source.odd_paths(behind)

    @cache  # noqa: B019 - there is one of it
    def head(self, repo: str) -> Head:
        return self.sources[repo].head()

    @property
    def only_repository(self) -> str:
        """Return the name of the only repository, such as the user's own; otherwise ""."""
        names = self.named_repositories
        return names[0] if len(names) == 1 else ""

    @property
    def named_repositories(self) -> list[str]:
        return [name for name in self.sources if name != EMPTY]

    @cached_property
    def stored(self) -> Shape | str:
        """Return the files of the only repository on disk, or a clause on why they are unknown."""
        if not self.only_repository:
            return "there are several repositories"
        return self.sources[self.only_repository].stored()

    @property
    def root(self) -> Path:
        return self.config.root


@dataclass(frozen=True)
class Axis:
    """One dimension of a grid. The functions get "" for cells to which the axis does not apply.

    An axis outside the table (axes.AXES) has the defaults: the study lists its values, and they replace the
    word `{<name>}` in commands.

    `values_by_word`: a study may give a word instead of a list of values; `source`: where they are
    defined, for messages. `needs_server`: the axis needs a server that vcsbench starts. `changes_work`: its
    values may change the work of a command. `why_invalid`: a clause on why a value can be measured nowhere.
    `select`: the values for the names in an entry of the grid. `recipe_keys`: the keys of the recipe that a
    value sets. `why_not`: why this machine cannot measure a cell with this draft of its recipe. `findings`,
    `limits`: sentences on the user's own repository, and for the report.
    """

    name: str
    values_by_word: Callable[[Environment], dict[str, list[str]]] = lambda env: {}
    source: str = ""
    needs_server: bool = False
    changes_work: bool = False
    why_invalid: Callable[[str], str] = lambda value: ""
    select: Callable[[list[str], list[str], Environment], list[str]] = lambda named, values, env: (
        named
    )
    applies: Callable[[Mapping[str, str]], bool] = lambda axes: True
    recipe_keys: Callable[[str, Environment], Recipe] = lambda value, env: {}
    why_not: Callable[[str, Recipe, Environment], str] = lambda value, draft, env: ""
    findings: Callable[[Environment], list[str]] = lambda env: []
    limits: Callable[[Sequence[str], Sequence[str]], list[str]] = lambda values, guests: []

    def defined_in(self, study: Study) -> str:
        is_word = isinstance(study.axes[self.name], str)
        return (self.source if is_word else "") or f"config/studies/{study.name}.yaml"

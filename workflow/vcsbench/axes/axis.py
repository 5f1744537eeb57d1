"""Define an axis of a study's grid, and the environment in which its values have a meaning."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from vcsbench.config.builds import Build
from vcsbench.config.configuration import EMPTY, Config
from vcsbench.config.study import Study
from vcsbench.files import read_json
from vcsbench.formats import Shape
from vcsbench.machine import Machine
from vcsbench.records import Head, Recipe
from vcsbench.sources import COPY_KEYS
from vcsbench.sources.base import Source
from vcsbench.storages.file_trees import OddPaths


@dataclass(frozen=True, eq=False)
class Environment:
    """The configuration and this machine, which decide on the values of axes, and on what can be measured.

    - `repositories`: the definition of each repository by its name: {"ruby": {"source": "git", ...}, ...}.
    - `sources`: by the same names, the objects that read the histories of the repositories.
    - `builds`: the installations of Subversion's programs by their names, such as "trunk".
    - `servers`: the names of the server configurations, which are folders in config/servers.
    - `is_elsewhere`: the nodes of a cluster measure, or this machine is one of them.
    """

    config: Config
    machine: Machine
    repositories: Mapping[str, Mapping[str, Any]]
    sources: Mapping[str, Source]
    builds: Mapping[str, Build]
    servers: list[str]
    is_elsewhere: bool = False

    @property
    def root(self) -> Path:
        return self.config.root

    @property
    def named_repositories(self) -> list[str]:
        """Return the names of all repositories without the empty one, which measures fixed cost."""
        return [name for name in self.sources if name != EMPTY]

    def definition(self, repo: str) -> dict[str, object]:
        """Return the definition of a repository: `{"source": "git", "path": "/srv/x"}`.

        The keys COPY_KEYS (packing and studies) are left out, because loading the repository does not depend
        on them. Results contain the definition. That is safe: a URL in it has no user and password.
        """
        definition = self.repositories[repo]
        return {key: value for key, value in definition.items() if key not in COPY_KEYS}

    @property
    def only_repository(self) -> str:
        """Return the name of the only repository, such as the user's own; "" if there are several."""
        names = self.named_repositories
        return names[0] if len(names) == 1 else ""

    @cached_property
    def shape_or_reason(self) -> Shape | str:
        """Return the layout of the only repository's files, or a clause on why the layout is unknown.

        The layout is known only for a single repository that is a local one of Subversion (FSFS).
        """
        if not self.only_repository:
            return "there are several repositories"
        return self.sources[self.only_repository].read_layout()

    @property
    def own_shape(self) -> Shape | None:
        """Return the layout of the only repository's files, None if unknown (shape_or_reason)."""
        return None if isinstance(self.shape_or_reason, str) else self.shape_or_reason

    @cache  # noqa: B019 - there is one of it
    def revisions(self, repo: str) -> int:
        """Return the (estimated) number of revisions. Raise UserError if the source cannot be read."""
        # An estimate alone may miss a damaged source.
        self.sources[repo].check()
        return self.sources[repo].estimate().revisions

    @cache  # noqa: B019 - there is one of it
    def head(self, repo: str) -> Head:
        """Return where the youngest tree of a repository is, such as a commit or a URL with a revision."""
        return self.sources[repo].head()

    @cache  # noqa: B019 - there is one of it
    def odd_paths(self, repo: str, behind: int = 0) -> OddPaths:
        """Return how many paths of a repository's tree no disk can hold, and how many no working copy can.

        A disk cannot hold a name of 300 bytes, and a working copy cannot hold a path named .svn. `behind` is
        the number of revisions between the tree and the youngest one (0: the youngest itself).
        """
        source = self.sources[repo]
        # To count the paths in the source takes minutes. Each record of an earlier load
        # (results/loaded/ruby/f7.json) has the numbers of the youngest tree already.
        if behind == 0:
            for path in sorted((self.root / "results" / "loaded" / repo).glob("*.json")):
                record = read_json(path)
                # The identity changes with the history, so a record with another identity is out of date.
                if record.get("identity") == source.identity():
                    return OddPaths(record.get("long_names", 0), record.get("reserved_names", 0))
        return source.odd_paths(behind)

    @cache  # noqa: B019 - there is one of it
    def why_no_update(self, repo: str, behind: int) -> str:
        """Return why no update can begin `behind` revisions before the youngest; "" if one can or if unknown.

        Raise UserError if the source cannot be read. Example: `mine has only 2 revisions, ...`.
        """
        # An update of the empty repository changes nothing: it measures fixed cost, such as svn's start.
        if repo == EMPTY:
            return ""
        self.sources[repo].check()
        reason = self.sources[repo].why_no_update(behind)
        return f"{repo} {reason}" if reason else ""


@dataclass(frozen=True)
class Axis:
    """One dimension of a grid of cells. A cell is a command with one value on each axis, which is measured.

    A study gives each axis a list of values, such as `cache: [cold, hot]`, or a word for values that are
    defined elsewhere: `build: builds`. The functions get the value "" for cells to which the axis does not
    apply. An axis that is not in the table axes.AXES has the defaults below: the study lists its values, and
    they replace the placeholder `{<name>}` in commands.
    """

    name: str
    # The values for each word that a study may give instead of a list: {"builds": ["trunk", "mine"]}.
    values_by_word: Callable[[Environment], dict[str, list[str]]] = lambda env: {}
    # The place that defines the values of the word, for messages: the key "`builds`" of the configuration.
    source: str = ""
    # The values are settings of a server, or files that it reads. vcsbench can set them only for servers that
    # it starts, so cells with a value are skipped if the server is on another machine.
    needs_server: bool = False
    # A command may do other work with another value, so that its output differs: another repository.
    changes_work: bool = False
    # A clause on why a value can be measured nowhere, "" if it can: "is no packing. Use one of ...".
    why_invalid: Callable[[str], str] = lambda value: ""
    # The configuration can restrict a study's grid to some names of each axis. Return the values for which
    # these names stand: `current` may be f8. The second argument has all values of the axis.
    select: Callable[[list[str], list[str], Environment], list[str]] = lambda named, values, env: (
        named
    )
    # Return True if the axis applies to a cell with these values of axes: {"access": "svn", ...}.
    applies: Callable[[Mapping[str, str]], bool] = lambda axes: True
    # The keys that a value sets in the recipe of a cell: {"clients": 4}. The value is the cell's, or the
    # default of the study, or "" without both.
    recipe_keys: Callable[[str, Environment], Recipe] = lambda value, env: {}
    # A clause on why this machine cannot measure a cell, which is then skipped; "" if it can. The value is
    # the cell's own. The recipe has the keys of defaults, too, but no digests of code and files yet.
    why_not: Callable[[str, Recipe, Environment], str] = lambda value, recipe, env: ""
    # Sentences on the user's own repository.
    findings: Callable[[Environment], list[str]] = lambda env: []
    # Sentences for the report on the limits of measured values. The second argument has the names of the
    # virtual machines that measured, the third one the measured values of all axes.
    limits: Callable[[Sequence[str], Sequence[str], Mapping[str, Sequence[str]]], list[str]] = (
        lambda values, guests, measured: []
    )

    def defined_in(self, study: Study) -> str:
        """Return the place that defines the values of a study's axis, for messages.

        For a word, such as `build: builds`, the place is mostly a key of the configuration: "`builds`". For a
        list, the place is the study's file.
        """
        is_word = isinstance(study.axes[self.name], str)
        if is_word and self.source:
            return self.source
        return f"config/studies/{study.name}.yaml"


def choice_axis(
    name: str,
    keys_by_value: Mapping[str, Recipe],
    expected: str,
    *,
    needs_server: bool = False,
    # These defaults are those of the fields: `Axis.applies`, for example, is a function that returns True.
    applies: Callable[[Mapping[str, str]], bool] = Axis.applies,
    why_not: Callable[[str, Recipe, Environment], str] = Axis.why_not,
    limits: Callable[..., list[str]] = Axis.limits,
) -> Axis:
    """Return an axis with a fixed set of values.

    `keys_by_value` has the keys that each value sets in a recipe: `{"4": {"clients": 4}}`. `expected` lists
    the values for the error about a wrong one: `off or on`. The keyword arguments are fields of Axis.
    """

    def why_invalid(value: str) -> str:
        # The error names axis and value first: "...: `axes.keep_alive`: 'yes' is no value of it. Use ...".
        return "" if value in keys_by_value else f"is no value of it. Use {expected}"

    def recipe_keys(value: str, env: Environment) -> Recipe:
        # The value is "" for a cell to which the axis does not apply. Then no key is set.
        if value == "":
            return {}
        return keys_by_value[value]

    return Axis(
        name,
        why_invalid=why_invalid,
        recipe_keys=recipe_keys,
        needs_server=needs_server,
        applies=applies,
        why_not=why_not,
        limits=limits,
    )

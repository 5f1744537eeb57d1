"""Read the environment of a run: its configuration, machine, repositories, builds and servers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from vcsbench import sources
from vcsbench.axes.axis import Environment
from vcsbench.axes.server_axes import server_names
from vcsbench.axis_names import UPKEEP_AXIS
from vcsbench.config.builds import BuildReader
from vcsbench.config.configuration import EMPTY, Config, load_config
from vcsbench.config.models import BuildPlace
from vcsbench.errors import UserError
from vcsbench.external import URL_FORM, is_plain_url
from vcsbench.machine import Machine
from vcsbench.measure.work import WORK_KINDS


def open_environment(
    raw: Mapping[str, object],
    root: Path,
    files: Sequence[Path],
    deployed: bool = False,
    is_cluster: bool = False,
) -> Environment:
    """Read and check the configuration, and return it with the machine, repositories, builds and servers.

    `raw` is the merged configuration of `files`. `deployed` means that Snakemake installs the programs later.
    `is_cluster` means that the nodes of a cluster measure, and not this machine. Raise a UserError that names
    the file and the key.
    """
    config = load_config(raw, root, files, is_cluster)
    _check_inspected_outputs(config)
    # `server` is the user's server on another machine. A password in its URL would reach logs and results.
    if config.settings.server and not is_plain_url(config.settings.server.url):
        raise config.error(["server", "url"], f"{URL_FORM}.")
    definitions = _define_repositories(config)
    # Sources are only opened here: Project calls Source.check() later.
    opened_sources = {}
    for name, definition in definitions.items():
        file_or_option = _place_of(name, config)
        opened_sources[name] = sources.open_source(
            name, definition, where=file_or_option, root=config.root
        )
    builds = BuildReader(_build_places(config), config.root, config.error)
    return Environment(
        config=config,
        machine=Machine(deployed=deployed),
        repositories=definitions,
        sources=opened_sources,
        builds=builds.read(),
        servers=server_names(config.root),
        # `is_cluster` is True on the login node of a cluster. Its nodes have the key `blocks`: the blocks of
        # cells that a node measures. No other machine has this key.
        is_elsewhere=is_cluster or bool(config.settings.blocks),
    )


def _check_inspected_outputs(config: Config) -> None:
    """Raise UserError if the kind of work of a command compares its output, and it has none."""
    for study in config.studies.values():
        for name, command in study.commands.items():
            is_inspected = WORK_KINDS[command.work].inspect is not None
            if is_inspected and not command.output:
                raise UserError(
                    f"config/studies/{study.name}.yaml: `commands.{name}.work`: {command.work!r} inspects "
                    f"the output, but this command writes nothing. Add `output: target`, or choose "
                    f"another kind."
                )


def _place_of(name: str, config: Config) -> str:
    """Return the file or option that defines a repository, for errors in its definition."""
    is_own = config.settings.repository is not None
    return config.source_of(["repository"] if is_own else ["repositories", name])


def _define_repositories(config: Config) -> dict[str, Mapping[str, object]]:
    """Return the definitions of the repositories by name: {"ruby": {"source": "svn", "url": ...}, ...}.

    The user's own repository (the key `repository`) replaces those of the key `repositories`. The empty
    repository, on which fixed cost is measured, is added in each case. Raise UserError if the user's
    repository cannot be used, if the key `tree` is set without `repository`, and if a definition has the name
    of the empty repository.
    """
    definitions: dict[str, Mapping[str, object]] = dict(config.repositories)
    own_repository = config.settings.repository
    # The folder to export from the user's own repository.
    tree = config.settings.tree
    if own_repository is not None:
        definitions = _define_own_repository(own_repository, tree, config)
    elif tree:
        # An entry of `repositories` has a key `tree` of its own.
        text = "this needs `repository` (make: TREE= needs REPO=). Entries of `repositories` have their own."
        raise config.error(["tree"], text)
    if EMPTY in definitions:
        raise config.error(["repositories", EMPTY], "this name is reserved. Use another name.")
    definitions[EMPTY] = {"source": EMPTY}
    return definitions


def _define_own_repository(
    path: str, tree: str | None, config: Config
) -> dict[str, Mapping[str, object]]:
    """Return the definition of the user's own repository, by a name that no configured repository has."""
    # Studies of git have the axis `upkeep`, and measure a git repository as it is. For all other studies, it
    # becomes a history of Subversion.
    has_only_git_studies = all(UPKEEP_AXIS in study.axes for study in config.studies.values())
    try:
        definitions = sources.own_repository(
            path, config.repositories, tree, keeps_git=has_only_git_studies
        )
    except UserError as error:
        raise UserError(f"{config.source_of(['repository'])}: {error}") from None
    return dict(definitions)


def _build_places(config: Config) -> Mapping[str, BuildPlace | None]:
    """Return the place of each build (a value of the axis `build`) by its name; None for the PATH.

    Without configured builds, the first build of each study has the programs on the PATH: {"system": None}.
    """
    if config.settings.builds:
        return config.settings.builds
    names = []
    for study in config.studies.values():
        values = study.axes.get("build")
        # A word in place of a list stands for the configured builds, and there are none.
        if isinstance(values, list):
            names.append(values[0])
    return dict.fromkeys(names)

"""A configured checkout, which the rules and the command-line tool work with."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from vcsbench import sources, subjects
from vcsbench.axes.config import server_names
from vcsbench.axes.filesystem import mounted_folders
from vcsbench.axes.here import Here
from vcsbench.config.builds import read_builds
from vcsbench.config.configuration import EMPTY, Config, load_config
from vcsbench.config.renamed import WORK
from vcsbench.config.study import Study
from vcsbench.config.study_models import Steps
from vcsbench.errors import UserError
from vcsbench.evidence import judgement
from vcsbench.machine import Machine
from vcsbench.measure import work
from vcsbench.measure.steps import STEPS
from vcsbench.modules import KINDS, is_kind
from vcsbench.plan.passes import ALL
from vcsbench.plan.plan import Plan
from vcsbench.run.cluster import Cluster
from vcsbench.run.expectations import Expectations
from vcsbench.run.leftovers import remove_leftovers
from vcsbench.run.lock import FAILED, OPTIONS, say
from vcsbench.run.provenance import note_command
from vcsbench.run.sampling import SamplingState
from vcsbench.storages.place import Place
from vcsbench.subjects.repository import variant_of
from vcsbench.subjects.repository.labels import Variant, last_of
from vcsbench.subjects.repository.shelf import Shelf
from vcsbench.urls import split_credentials

# Set on a node of a cluster: the blocks that are measured there, each with its study in front.
BLOCKS = "VCSBENCH_BLOCKS"
# The folder of the user's own repository that is exported.
TREE = "VCSBENCH_TREE"
# What a run makes of each study, apart from its raw data.
OF_STUDY = (
    "results/grid/{study}.csv",
    "results/measurements/{study}.csv",
    "results/failures/{study}.csv",
    "results/provenance/{study}.json",
    "results/tables/{study}",
    "results/noise/{study}.csv",
    "results/findings/{study}.csv",
    "results/expectations/{study}.csv",
    "results/advice/{study}.json",
    "results/budget/{study}.json",
    "results/page/{study}.json",
    "reports/{study}.html",
)


class Project:
    """A configured checkout: its plan, its prepared repositories, and the state of its sampling."""

    def __init__(
        self,
        raw: Mapping[str, Any],
        root: Path,
        files: Sequence[Path],
        deployed: bool = False,
        is_cluster: bool = False,
    ) -> None:
        """Read and check the merged configuration `raw`, which was read from `files`.

        `deployed`: Snakemake deploys the programs. `is_cluster`: the nodes of a cluster measure. Raises a
        UserError that names the file and the key.
        """
        self.root, self.raw, self.is_cluster = root, raw, is_cluster
        self.here = open_here(raw, root, files, deployed, is_cluster)
        self.config = self.here.config
        if is_cluster and raw.get("rounds") is None:
            say(
                f"`minutes` belong to one machine. On a cluster each cell is measured in "
                f"{self.config.settings.rounds} rounds; `rounds` sets another number (--config rounds=10)."
            )
        # A node that is lost leaves whole blocks, if it measures one after another.
        self.plan = Plan(self.here, by_block=BLOCKS in os.environ)
        self.shelf = _shelf(self.plan)
        for name in self.shelf.all_repositories():
            self.here.sources[name].check()

    @cached_property
    def sampling(self) -> SamplingState:
        """Return which rounds are decided."""
        return SamplingState(self.plan)

    @cached_property
    def expectations(self) -> Expectations:
        """Return the user's expectations and saved baselines."""
        return Expectations(self.here)

    @cached_property
    def cluster(self) -> Cluster | None:
        """Return the shares of the nodes, if a cluster measures."""
        return Cluster(self.plan, self.raw) if self.is_cluster else None

    @property
    def environments(self) -> dict[str, str]:
        """Return the conda environments of all builds: the name of each, and its file."""
        builds = self.here.builds.values()
        return {name: file for build in builds for name, file in build.environments.items()}

    def is_up_to_date(self, study: str, cell: str, number: str) -> bool:
        """Return True if a cell-round has a result that was measured with the present recipe."""
        return self.plan.is_fresh(f"results/cells/{study}/{cell}/round{number}.json")

    def task(self, study: str, cell: str, number: int) -> str:
        """Return the arguments of the process that measures a cell-round, quoted for a shell."""
        return shlex.join(
            (
                self.plan.recipe_json(study, cell),
                str(number),
                str(self.plan.position_of(study, cell, number)),
                str(self.config.settings.seed),
                judgement.pack(self.config.thresholds),
            )
        )

    def results(self, decide: Callable[..., Any]) -> list[str]:
        """Return all files that a run makes for its studies, the raw data first.

        `decide` is the function `get` of the checkpoint.
        """
        found: list[str] = []
        for study in self.config.studies:
            found += self.raw_data(study, decide)
            found += [file.format(study=study) for file in OF_STUDY]
        return found

    def raw_data(self, study: str, decide: Callable[..., Any]) -> list[str]:
        """Return the exports and contexts of a study, its last decision and its counts of system calls."""
        exports = [] if self.is_cluster else self.sampling.exports(study, decide)
        contexts = [f"{export.removesuffix('.json')}.context.json" for export in exports]
        return [*exports, *contexts, *self.sampling.last(study), *self.sampling.calls(study)]

    @cache  # noqa: B019 - one instance; called for each round
    def records(self, study: str, path: str) -> list[str]:
        """Return the records of the repositories and trees that are prepared for a cell."""
        parts = self.plan.parts(self.plan.cell(study, path))
        kinds = dict.fromkeys(filter(None, (parts["input"], parts["output"])))
        return [record for kind in kinds for record in subjects.subject_of(kind).records(parts)]

    @cache  # noqa: B019 - one instance
    def prepared(self, study: str) -> list[str]:
        """Return the records of all preparation of a study. They contain how long it took."""
        cells = self.plan.measured(study)
        repos = {self.plan.parts(cell).get("repository", {}).get("name") for cell in cells}
        names = [name for name in self.shelf.all_repositories() if name in repos]
        loaded = [self.shelf.load_record(name).relative_to(self.root) for name in names]
        records = {record: None for cell in cells for record in self.records(study, cell.path)}
        made = dict.fromkeys([*map(str, loaded), *records])
        return [*made, *self.plan.calls_of(study).values()]

    def places(self) -> list[Place]:
        """Return vcsbench's folders on all storages and file systems, and in the scratch folder."""
        folders = [*self.config.settings.storages.values(), self.config.settings.scratch]
        folders += mounted_folders(self.config)
        return [Place(folder, self.root) for folder in dict.fromkeys(folders)]

    def begin(self) -> None:
        """Prepare a run before its first job: remove leftovers, and write the shares of nodes."""
        remove_leftovers(self.root, self.places())
        if self.config.settings.measure == ALL:
            note_command(self.root, sys.argv[1:])
        if self.cluster:
            self.cluster.write()

    def end(self, failed: bool = False) -> None:
        """Collect the results of nodes, also of those whose job failed; record that jobs failed."""
        if failed:
            with suppress(OSError):
                (self.root / FAILED).touch()
        if self.cluster:
            self.cluster.collect()


def open_project(
    raw: Mapping[str, Any], root: Path, files: Sequence[str | Path], deployed: bool
) -> Project:
    """Open the project of a Snakemake run, from its configuration and its files, the last one first."""
    paths = [Path(file) for file in reversed(files) if Path(file).resolve() != root / OPTIONS]
    # On a node, its share is measured as on a workstation.
    is_cluster = raw.get("cluster") is not None and BLOCKS not in os.environ
    return Project(raw, root, paths, deployed, is_cluster)


def open_here(
    raw: Mapping[str, Any],
    root: Path,
    files: Sequence[Path],
    deployed: bool = False,
    elsewhere: bool = False,
) -> Here:
    """What the configuration and this machine offer, read and checked."""
    config = load_config(raw, root, files, elsewhere)
    for study in config.studies.values():
        _check_kinds(study)
    if (server := config.settings.server) and split_credentials(server.url)[2]:
        raise UserError(
            f"{config.where(['server'])}: server.url: this holds a password. Let the server be read "
            f"without one, and leave it out."
        )
    where = config.where(["repositories"])
    definitions = config.repositories
    if config.settings.repository is not None:
        definitions = sources.own_repository(
            config.settings.repository, definitions, os.environ.get(TREE) or None
        )
    elif os.environ.get(TREE):
        raise UserError(
            "TREE=: this goes with REPO=; a repository of the configuration has a key `tree`"
        )
    if EMPTY in definitions:
        raise UserError(f"{where}: repositories.{EMPTY}: this name is reserved. Use another name.")
    definitions = {**definitions, EMPTY: {"source": EMPTY}}
    return Here(
        config=config,
        machine=Machine(deployed=deployed),
        repositories=definitions,
        sources={name: sources.open_source(name, d, where) for name, d in definitions.items()},
        builds=read_builds(_builds(config), config.root, config.where),
        servers=server_names(config.root),
    )


def _builds(config: Config) -> Mapping[str, Any]:
    """The builds as the configuration names them; where it names none, and studies do, the first that each
    names is what the PATH has."""
    axes = [study.axes.get("build") for study in config.studies.values()]
    return config.builds or {axis[0]: {} for axis in axes if isinstance(axis, list)}


def _shelf(plan: Plan) -> Shelf:
    """The repositories that cells read, by storage, and those of which they read a dump file. A node of a
    cluster prepares for its own blocks only."""
    own = os.environ.get(BLOCKS, "").splitlines()
    wanted: dict[str, set[Variant]] = {}
    dumps: dict[str, int] = {}
    for cell in plan.cells:
        if own and f"{cell.study}/{plan.name_of_block(cell)}" not in own:
            continue
        parts = plan.parts(cell)
        if parts["input"] and subjects.subject_of(parts["input"]).reads_repository(parts):
            variants = wanted.setdefault(parts["storage"]["shelf"], set())
            variants.add(variant_of(parts.get("repository", {})))
        if parts["input"] == "dump":
            name = parts["repository"]["name"]
            dumps[name] = max(dumps.get(name, 0), last_of(parts))
    return Shelf(
        wanted, plan.config.settings.storages, plan.config.settings.copies, plan.root, dumps
    )


def _renamed(value: str, names: Mapping[str, str]) -> str:
    return f" (now `{names[value]}`)" if value in names else ""


def _check_kinds(study: Study) -> None:
    """A UserError where a command names a kind of work or of subject, or a step, that there is not."""
    for name, command in study.commands.items():
        for key, folder in KINDS.items():
            kind = getattr(command, key, None)
            if kind and not is_kind(folder, kind):
                raise UserError(
                    f"config/studies/{study.name}.yaml: `commands.{name}.{key}`: there is no kind "
                    f"{kind!r}{_renamed(kind, WORK)}; "
                    f"workflow/vcsbench/{folder.replace('.', '/')} has a file for each"
                )
        steps = command.steps or Steps()
        for step in (*steps.setup, *steps.prepare):
            if step not in STEPS:
                raise UserError(
                    f"config/studies/{study.name}.yaml: `commands.{name}.steps`: there is no step {step!r}; "
                    f"there are {', '.join(STEPS)}"
                )
        looks = work.kind_of(command.work).look
        if looks and not command.output:
            raise UserError(
                f"config/studies/{study.name}.yaml: `commands.{name}.work`: {command.work} is what a "
                f"command wrote; say how it is told what this one did, or add `output: target`"
            )

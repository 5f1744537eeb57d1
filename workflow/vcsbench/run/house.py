"""Where the parts of vcsbench are put together: what the Snakefile and the commands by hand work with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from vcsbench import sources, subjects
from vcsbench.axes.config import server_names
from vcsbench.axes.filesystem import mounted_folders
from vcsbench.axes.here import Here
from vcsbench.config.builds import read_builds
from vcsbench.config.configuration import Config, load_config
from vcsbench.config.renamed import WORK
from vcsbench.config.study import Study
from vcsbench.errors import UserError
from vcsbench.machine import Machine
from vcsbench.measure import work
from vcsbench.measure.steps import STEPS
from vcsbench.modules import KINDS, is_kind
from vcsbench.plan.plan import Plan
from vcsbench.run import lock as running
from vcsbench.sources.empty import EMPTY
from vcsbench.storages.place import Place
from vcsbench.subjects.repository import variant_of
from vcsbench.subjects.repository.labels import Variant, last_of
from vcsbench.subjects.repository.shelf import Shelf
from vcsbench.urls import split_credentials

# Set on a node of a cluster: the blocks that are measured there, each with its study in front.
BLOCKS = "VCSBENCH_BLOCKS"
# The folder of the user's own repository that is exported.
TREE = "VCSBENCH_TREE"


class House:
    """The configuration, what it and this machine offer, the plan, and the shelf of prepared repositories."""

    def __init__(
        self,
        raw: Mapping[str, Any],
        root: Path,
        files: Sequence[Path],
        deployed: bool = False,
        elsewhere: bool = False,
    ) -> None:
        """Read and check the merged configuration `raw`, which was read from `files`. `deployed` says whether
        Snakemake deploys the programs, `elsewhere` whether its jobs run on other machines than this one. A
        UserError names the file and the key."""
        self.began = time.time()
        self.elsewhere = elsewhere
        self.here = open_here(raw, root, files, deployed, elsewhere)
        self.config = self.here.config
        if elsewhere and raw.get("rounds") is None:
            running.say(
                f"`minutes` are one machine's, and jobs run elsewhere here: each cell is measured in "
                f"{self.config['rounds']} rounds; `rounds` says another number (--config rounds=10)"
            )
        # A node that is lost has whole blocks to leave, if it does one after another.
        self.plan = Plan(self.here, by_block=BLOCKS in os.environ)
        self.shelf = _shelf(self.plan)
        for name in self.shelf.all_repositories():
            self.here.sources[name].check()

    @property
    def environments(self) -> dict[str, str]:
        """The conda environments of all builds: the name of each, and its file."""
        builds = self.here.builds.values()
        return {name: file for build in builds for name, file in build.environments.items()}

    def inputs_of(self, wildcards: Any, ancient: Callable[[list[str]], list[str]]) -> list[str]:
        """What a cell-round is made from. The records of what was prepared are `ancient` (Snakemake's) where
        there is a fresh result, those of conda environments never."""
        study, cell = wildcards.study, wildcards.cell
        fresh = self.plan.is_fresh(f"results/cells/{study}/{cell}/round{wildcards.round}.json")
        records = self.records(study, cell)
        return [
            *(ancient(records) if fresh else records),
            *self.plan.environment_records(study, cell),
        ]

    @cache  # noqa: B019 - there is one of it; asked for each round
    def records(self, study: str, path: str) -> list[str]:
        """The records of what was prepared for a cell: they are there when it is."""
        parts = self.plan.parts(self.plan.cell(study, path))
        kinds = dict.fromkeys(filter(None, (parts["input"], parts["output"])))
        return [record for kind in kinds for record in subjects.subject_of(kind).records(parts)]

    @cache  # noqa: B019 - there is one of it
    def prepared(self, study: str) -> list[str]:
        """The records of all that is done before anything of a study is timed, which say how long it took."""
        cells = self.plan.measured(study)
        repos = {self.plan.parts(cell).get("repository", {}).get("name") for cell in cells}
        names = [name for name in self.shelf.all_repositories() if name in repos]
        loaded = [self.shelf.load_record(name).relative_to(self.config.root) for name in names]
        records = {record: None for cell in cells for record in self.records(study, cell.path)}
        made = dict.fromkeys([*map(str, loaded), *records])
        return [*made, *self.plan.calls_of(study).values()]

    def only_copies_were_made(self) -> bool:
        """Whether this run has made copies and measured nothing."""
        results = self.config.root / "results"
        made = [path.stat().st_mtime for path in (results / "repositories").glob("*.json")]
        if max(made, default=0.0) < self.began:
            return False
        exports = (
            self.config.root / e for cell in self.plan.cells for e in self.plan.exports_of(cell)
        )
        return not any(path.exists() and path.stat().st_mtime >= self.began for path in exports)

    def is_measured(self, storage: str) -> bool:
        """Whether all cell-rounds on a storage have a result, measured as their recipe says now."""
        return all(
            self.plan.is_fresh(export)
            for cell in self.plan.cells
            if self.plan.parts(cell)["storage"]["shelf"] == storage
            for export in self.plan.exports_of(cell)
        )

    def places(self) -> list[Place]:
        """vcsbench's folders on all storages and file systems, and in the scratch folder."""
        folders = [*self.config["storages"].values(), self.config["scratch"]]
        folders += mounted_folders(self.config)
        return [Place(folder, self.config.root) for folder in dict.fromkeys(folders)]


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
    if (server := config["server"]) and split_credentials(server["url"])[2]:
        raise UserError(
            f"{config.where(['server'])}: server.url: this holds a password. Let the server be read "
            f"without one, and leave it out."
        )
    where = config.where(["repositories"])
    definitions = config["repositories"]
    if config["repository"] is not None:
        definitions = sources.own_repository(
            config["repository"], definitions, os.environ.get(TREE) or None
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
    return config["builds"] or {axis[0]: {} for axis in axes if isinstance(axis, list)}


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
    return Shelf(wanted, plan.config["storages"], plan.config["copies"], plan.root, dumps)


def _renamed(value: str, names: Mapping[str, str]) -> str:
    return f" (now `{names[value]}`)" if value in names else ""


def _check_kinds(study: Study) -> None:
    """A UserError where a command names a kind of work or of subject, or a step, that there is not."""
    for name, command in study.commands.items():
        for key, folder in KINDS.items():
            if command.get(key) and not is_kind(folder, command[key]):
                raise UserError(
                    f"config/studies/{study.name}.yaml: `commands.{name}.{key}`: there is no kind "
                    f"{command[key]!r}{_renamed(command[key], WORK)}; "
                    f"workflow/vcsbench/{folder.replace('.', '/')} has a file for each"
                )
        for step in (step for steps in command.get("steps", {}).values() for step in steps):
            if step not in STEPS:
                raise UserError(
                    f"config/studies/{study.name}.yaml: `commands.{name}.steps`: there is no step {step!r}; "
                    f"there are {', '.join(STEPS)}"
                )
        looks = work.kind_of(command["work"]).look
        if looks and not command.get("output"):
            raise UserError(
                f"config/studies/{study.name}.yaml: `commands.{name}.work`: {command['work']} is what a "
                f"command wrote; say how it is told what this one did, or add `output: target`"
            )

"""A configured checkout, which the rules and the command-line tool work with."""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from vcsbench import sources
from vcsbench.axes.axis import Environment
from vcsbench.axes.server_axes import server_names
from vcsbench.axes.storage_axes import GUEST, MAKE
from vcsbench.cell_rounds import CellRound
from vcsbench.config.configuration import EMPTY, BuildReader, load_config, where
from vcsbench.config.models import FolderSettings, Settings
from vcsbench.config.validation import validate
from vcsbench.errors import UserError
from vcsbench.external import URL_FORM, is_plain_url
from vcsbench.forecast import trials
from vcsbench.machine import Machine
from vcsbench.measure.prepared_cell import SUBJECTS
from vcsbench.measure.work import KINDS
from vcsbench.plan.grid import REPOSITORY_AXIS
from vcsbench.plan.plan import Plan
from vcsbench.plan.result_state import ALL, NOTHING
from vcsbench.prepare.repositories import PreparedRepositories, load_record, pack_record
from vcsbench.run import workflow
from vcsbench.run.cluster import Cluster, clean_nodes
from vcsbench.run.inputs import Decide, Expectations, SamplingState, StudyParams
from vcsbench.run.provenance import store_command
from vcsbench.sources import Source
from vcsbench.storages import filesystems, workdir
from vcsbench.storages.file_trees import remove_path
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects.repository import Variant, last_dumped_revision, variant_of

STUDY_FILES = (
    "results/grid/{study}.csv",
    "results/measurements/{study}.csv",
    "results/failures/{study}.csv",
    "results/fixed-cost/{study}.csv",
    "results/provenance/{study}.json",
    "results/tables/{study}",
    "results/findings/{study}.csv",
    "results/expectations/{study}.csv",
    "results/history/{study}.json",
    "results/advice/{study}.json",
    "results/budget/{study}.json",
    "results/page/{study}.json",
    "reports/{study}.html",
)
# It belongs to the repository, and tells what lies in a folder of results.
README = "README.md"


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

        `deployed`: Snakemake deploys the programs. `is_cluster`: the nodes of a cluster measure. Raise a
        UserError that names the file and the key.
        """
        self.root = root
        self.environment = open_environment(raw, root, files, deployed, is_cluster)
        self.config = self.environment.config
        if is_cluster and self.config.content.get("rounds") is None:
            workflow.print_message(
                f"`minutes` concern one machine. On a cluster each cell is measured in "
                f"{self.config.settings.rounds} rounds. Use --config rounds=10 for another number."
            )
        # A lost node leaves whole blocks if it measures one after another.
        self.plan = Plan(self.environment, by_block=bool(self.config.settings.blocks))
        self.repositories = _prepared_repositories(self.plan)
        self.sampling = SamplingState(self.plan, is_cluster)
        self.cluster = Cluster(self.plan) if is_cluster else None
        # At the begin of a run: a storage that is unmounted later is noticed.
        folders = self.config.settings.storages.items()
        self.mounted = {n: filesystems.mounted_at(workdir.resolve(f, root)) for n, f in folders}
        for source in self.used_sources():
            source.check()

    def check_machine(self) -> None:
        """Raise a UserError that names everything that cells need, and this machine lacks."""
        trials.refuse(trials.lacks(self.plan, trials.REQUIRED))

    def used_sources(self) -> list[Source]:
        axes = (cell.axes for cell in self.plan.cells)
        names = {values[REPOSITORY_AXIS] for values in axes if REPOSITORY_AXIS in values}
        return [self.environment.sources[name] for name in sorted(names)]

    @cached_property
    def expectations(self) -> Expectations:
        return Expectations(self.environment, self.params_of)

    @cache  # noqa: B019 - one instance
    def params_of(self, study: str) -> StudyParams:
        return StudyParams(study, self.environment)

    @property
    def conda_environments(self) -> dict[str, str]:
        builds = self.environment.builds.values()
        return {name: file for build in builds for name, file in build.environments.items()}

    def cell_arguments(self, study: str, cell: str, number: int) -> str:
        """Return the arguments of run/cell.py for a round; all but the export."""
        recipe, order = self.plan.recipe_json(study, cell), self.plan.position(study, cell, number)
        thresholds = json.dumps(self.config.thresholds, sort_keys=True)
        return shlex.join(
            [
                str(self.root),
                recipe,
                *map(str, (number, order, self.config.settings.seed)),
                thresholds,
            ]
        )

    def raw_data(self, study: str, decide: Decide) -> list[str]:
        """Return the exports and contexts of a study, its last decision and its system-call counts.

        Snakemake makes a removed file again only if a target names it.
        """
        exports = self.sampling.exports(study, decide)
        contexts = [CellRound.parse(export).context for export in exports]
        return [
            *exports,
            *contexts,
            *self.sampling.next_decision(study),
            *self.sampling.traces(study),
        ]

    @cache  # noqa: B019 - one instance; called for each round
    def records(self, study: str, path: str) -> list[str]:
        parts = self.plan.draft(self.plan.cell(study, path))
        kinds = dict.fromkeys(filter(None, (parts["input"], parts["output"])))
        return [record for kind in kinds for record in SUBJECTS[kind].records(parts)]

    @cache  # noqa: B019 - one instance
    def preparation_records(self, study: str) -> list[str]:
        """Return the records of all preparation of a study, which contain its duration."""
        cells = self.plan.measured(study)
        repos = {self.plan.draft(cell).get("repository", {}).get("name") for cell in cells}
        loaded = [load_record(*pair) for pair in self.repositories.loads() if pair[0] in repos]
        packed = [pack_record(*pair) for pair in self.repositories.packs() if pair[0] in repos]
        records = [record for cell in cells for record in self.records(study, cell.path)]
        made = dict.fromkeys([*loaded, *packed, *records])
        return [*made, *self.plan.traces_of(study).values()]

    def begin(self) -> None:
        """Begin a session in this Snakemake process, or end the process with a sentence."""
        places = work_dirs(self.config.settings, self.root)
        # The nodes of a cluster have storages of their own.
        makes_folders = self.config.settings.measure == ALL and not self.cluster
        try:
            self.lock = workflow.begin_session(self.root)
            for place in places:
                # A folder that a job makes later has no lock.
                if makes_folders and place.storage.is_dir():
                    with suppress(UserError):
                        place.make()
                place.lock(workflow.LOCK_WAIT_S)
        except UserError as error:
            sys.exit(str(error))
        workflow.exit_after_main_thread(1)
        workdir.remove_abandoned(self.root, places)
        if self.config.settings.measure == ALL:
            store_command(self.root, sys.argv[1:])
        if self.cluster:
            self.cluster.store_jobs()

    def end(self, failed: bool = False) -> None:
        workflow.end_session(self.root, failed)
        workflow.exit_after_main_thread(int(failed))


def open_project(
    raw: Mapping[str, Any], root: Path, files: Sequence[str | Path], deployed: bool
) -> Project:
    """Open the project of a Snakemake run. Of `files`, the last one has precedence."""
    paths = [Path(file) for file in files if not workflow.is_options_file(Path(file), root)]
    # A node measures its job as a workstation does.
    is_node = bool(raw.get("blocks"))
    is_cluster = raw.get("cluster") is not None and not is_node
    project = Project(raw, root, paths, deployed, is_cluster)
    # Once here, not in each job. The storages of a cluster are on its nodes.
    if not is_cluster and project.config.settings.measure != NOTHING:
        project.check_machine()
    else:
        trials.refuse([*trials.future_times(project.plan)])
    return project


def work_dirs(settings: Settings | FolderSettings, root: Path) -> list[WorkDir]:
    """Return vcsbench's folders on all configured storages and file systems, each once."""
    mounted = (folder for folder in settings.filesystems.values() if folder not in (MAKE, GUEST))
    folders = [*settings.storages.values(), settings.scratch, *mounted]
    places = [WorkDir(folder, root) for folder in folders]
    return [*{place.path: place for place in places}.values()]


def clean_checkout(raw: Mapping[str, object], root: Path, files: Sequence[Path]) -> list[str]:
    """Remove all files of vcsbench for a checkout, and return a line for each removed folder.

    Of the merged configuration `raw`, only folders matter. The folders of checkouts that no longer exist are
    removed, too. Raise a UserError during a run.
    """
    settings = validate(raw, FolderSettings, lambda keys: where(files, keys))
    with workflow.checkout_lock(root):
        workflow.end_processes(root)
        lines = clean_nodes(root)
        lines += [f"removed {path}" for path in workdir.remove_abandoned(root, [])]
        places = work_dirs(settings, root)
        removed = [*places]
        for place in places:
            place.lock()
            for gone in workdir.abandoned_workdirs(place.storage):
                # Its checkout may exist in another container, which is at work in it.
                with suppress(UserError):
                    gone.lock()
                    removed.append(gone)
        for place in removed:
            if os.path.lexists(place.path):
                place.remove()
                lines.append(
                    f"{place.path} remains: it has files that vcsbench did not make"
                    if os.path.lexists(place.path)
                    else f"removed {place.path}"
                )
        results = root / "results"
        if results.is_symlink():
            lines.append(f"removed the link {results}; {results.resolve()} remains")
            results.unlink()
        else:
            made = [path for path in results.glob("*") if path.name != README]
            for path in made:
                remove_path(path)
            if made:
                lines.append(f"removed all but {README} in {results}")
    return lines or ["there is nothing to remove"]


def open_environment(
    raw: Mapping[str, object],
    root: Path,
    files: Sequence[Path],
    deployed: bool = False,
    is_cluster: bool = False,
) -> Environment:
    config = load_config(raw, root, files, is_cluster)
    for study in config.studies.values():
        for name, command in study.commands.items():
            if KINDS[command.work].inspect and not command.output:
                raise UserError(
                    f"config/studies/{study.name}.yaml: `commands.{name}.work`: {command.work!r} inspects "
                    f"the output, but this command writes nothing. Add `output: target`, or choose "
                    f"another kind."
                )
    if (server := config.settings.server) and not is_plain_url(server.url):
        raise config.error(["server", "url"], f"{URL_FORM}.")
    own, tree = config.settings.repository, config.settings.tree
    definitions: Mapping[str, Mapping[str, object]] = config.repositories
    if own is not None:
        try:
            definitions = sources.own_repository(own, definitions, tree)
        except UserError as error:
            raise UserError(f"{config.where(['repository'])}: {error}") from None
    elif tree:
        text = "this needs `repository` (make: TREE= needs REPO=). Entries of `repositories` have their own."
        raise config.error(["tree"], text)
    if EMPTY in definitions:
        raise config.error(["repositories", EMPTY], "this name is reserved. Use another name.")
    definitions = {**definitions, EMPTY: {"source": EMPTY}}
    place = config.where(["repositories"])
    # Without `builds`, the first name that a study lists is the build on the PATH.
    axes = [study.axes.get("build") for study in config.studies.values()]
    builds = config.settings.builds or {axis[0]: None for axis in axes if isinstance(axis, list)}
    return Environment(
        config=config,
        machine=Machine(deployed=deployed),
        repositories=definitions,
        sources={name: sources.open_source(name, d, place) for name, d in definitions.items()},
        builds=BuildReader(builds, config.root, config.error).read(),
        servers=server_names(config.root),
        is_elsewhere=is_cluster or bool(config.settings.blocks),
    )


def _prepared_repositories(plan: Plan) -> PreparedRepositories:
    blocks = plan.config.settings.blocks
    by_storage: dict[str, set[Variant]] = {}
    dumps: dict[str, int] = {}
    for cell in plan.cells:
        if blocks and f"{cell.study}/{plan.name_of_block(cell)}" not in blocks:
            continue
        parts = plan.draft(cell)
        if parts["input"] and SUBJECTS[parts["input"]].reads_repository(parts):
            variants = by_storage.setdefault(parts["storage"]["shelf"], set())
            variants.add(variant_of(parts.get("repository", {})))
        if parts["input"] == "dump":
            name = parts["repository"]["name"]
            dumps[name] = max(dumps.get(name, 0), last_dumped_revision(parts))
    settings = plan.config.settings
    return PreparedRepositories(
        by_storage,
        settings.storages,
        settings.copies,
        plan.root,
        dumps,
        settings.fragmentation_kib,
    )

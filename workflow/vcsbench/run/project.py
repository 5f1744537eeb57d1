"""A configured checkout, which the rules and the command-line tool work with."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from vcsbench import progress
from vcsbench.axis_names import REPOSITORY_AXIS
from vcsbench.config.builds import git_builds
from vcsbench.errors import UserError
from vcsbench.forecast import trials
from vcsbench.forecast.durations import missing_loads
from vcsbench.measure.cell_setup import SUBJECTS
from vcsbench.plan.plan import Plan
from vcsbench.plan.result_state import ALL, NOTHING
from vcsbench.prepare.loader import repository_bytes
from vcsbench.prepare.repositories import (
    PreparedRepositories,
    count_replaced_bytes,
    count_spacer_bytes,
    load_record,
    pack_record,
)
from vcsbench.records import OtherLoad
from vcsbench.result_paths import CellRound
from vcsbench.run import study_params, workflow
from vcsbench.run.cleaning import work_dirs
from vcsbench.run.cluster import Cluster
from vcsbench.run.environment_reader import open_environment
from vcsbench.run.expectations import Expectations
from vcsbench.run.provenance import store_command
from vcsbench.run.sampling import Decide, SamplingState
from vcsbench.sources import SizeEstimate, Source
from vcsbench.sources.server_log import check_measured, read_server_log
from vcsbench.storages import filesystems, workdir
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import require_axes
from vcsbench.subjects.repository import Variant, last_dumped_revision, variant_of
from vcsbench.systems.git_store import GIT_FORMAT, find_maker, parse_state

# The results and the report of each study, which the default target makes.
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
    "results/charts/{study}",
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
        """Read and check the configuration, and make the plan of its cells.

        `raw` is the merged configuration, and was read from `files`, which errors name. `deployed` means that
        Snakemake installs the programs later. `is_cluster` means that the nodes of a cluster measure, and not
        this machine. Raise a UserError for an error in the configuration or a source, and for a machine
        without the rights and programs of trials.OF_PROGRAMS.
        """
        self.root = root
        self.environment = open_environment(
            raw, root, files, deployed=deployed, is_cluster=is_cluster
        )
        self.config = self.environment.config
        # A cluster has no time limit. If the user has set no `rounds` (`content`), load_config() has chosen
        # their number (`settings`).
        if is_cluster and self.config.content.get("rounds") is None:
            workflow.print_message(
                f"`minutes` concern one machine. On a cluster each cell is measured in "
                f"{self.config.settings.rounds} rounds. Use --config rounds=10 for another number."
            )
        # A cluster's node has the groups of cells that it measures in its configuration (`blocks`). It makes
        # all rounds of a block before the next block. If the node is lost, its finished blocks are complete.
        is_node = bool(self.config.settings.blocks)
        self.plan = Plan(self.environment, by_block=is_node)
        self.repositories = _find_prepared_repositories(self.plan)
        self.sampling = SamplingState(self.plan, is_cluster)
        self.cluster = Cluster(self.plan) if is_cluster else None
        # The mount of each storage now, such as {"disk": ["ext4", "/var/tmp"]}. A job compares it with the
        # mount that it finds, and so notices that a storage was unmounted.
        self.mounted: dict[str, list[str]] = {}
        for name, folder in self.config.settings.storages.items():
            self.mounted[name] = filesystems.mounted_at(workdir.resolve(folder, root))
        # A source starts programs. The trials come first, because they name a remedy if programs fail.
        self.check_machine(trials.OF_PROGRAMS)
        for source in self.used_sources():
            source.check()

    def check_machine(self, tried: Sequence[trials.Trial] = trials.REQUIRED) -> None:
        """Raise a UserError that names everything that a session needs, and this machine lacks."""
        trials.refuse(trials.find_lacks(self.plan, tried))

    def check_server_log(self) -> None:
        """Raise a UserError if the user's log of a server cannot be read, or gives no study any weights."""
        log = self.config.settings.server_log
        if log is None:
            return
        try:
            studies = self.config.studies.items()
            measured = [(study, self._measured_commands(name)) for name, study in studies]
            check_measured(read_server_log(self.root / log), measured)
        except UserError as error:
            raise UserError(f"{self.config.source_of(['server_log'])}: {error}") from None

    def used_sources(self) -> list[Source]:
        """Return the sources of the repositories that cells read."""
        names = {
            cell.axes[REPOSITORY_AXIS] for cell in self.plan.cells if REPOSITORY_AXIS in cell.axes
        }
        return [self.environment.sources[name] for name in sorted(names)]

    @cached_property
    def expectations(self) -> Expectations:
        return Expectations(self.environment, self.params_of)

    @cache  # noqa: B019 - one instance
    def params_of(self, study: str) -> study_params.StudyParams:
        commands = self._measured_commands(study)
        return study_params.StudyParams(study, self.root, self.environment, commands)

    def _measured_commands(self, study: str) -> list[str]:
        """Return the commands of a study that are measured here; [] for a study that is not configured."""
        if study not in self.plan.grids:
            return []
        definition = self.config.studies[study]
        names = [definition.command_name(cell.axes) for cell in self.plan.measured(study)]
        return list(dict.fromkeys(names))

    @property
    def study_names(self) -> list[str]:
        """Return the names of all studies, also of those that are not measured."""
        return study_params.study_names(self.root)

    @property
    def studies_with_findings(self) -> list[study_params.StudyWithFindings]:
        return study_params.find_studies_with_findings(self.root, self.params_of)

    @property
    def conda_environments(self) -> dict[str, str]:
        """Return the files of the conda environments of all builds, by the names of their folders."""
        files: dict[str, str] = {}
        for build in self.environment.builds.values():
            files.update(build.environments)
        return files

    def cell_arguments(self, study: str, cell: str, number: int) -> str:
        """Return the shell-quoted arguments of run/cell_job.py, without the files that it writes."""
        arguments = [
            str(self.root),
            self.plan.recipe_json(study, cell),
            str(number),
            str(self.plan.position(study, cell, number)),
            str(self.config.settings.seed),
        ]
        return shlex.join(arguments)

    def raw_data(self, study: str, decide: Decide) -> list[str]:
        """Return the exports and contexts of a study, its last decision, and its system-call counts.

        With a time limit, decisions on more rounds are made until one gives none. `decide` raises an
        exception of Snakemake until a decision exists.
        """
        # Contexts are listed, too, because Snakemake makes a removed file again only if a target names it.
        exports = self.sampling.exports(study, decide)
        contexts = [CellRound.parse(export).context for export in exports]
        decisions = self.sampling.next_decision(study)
        return [*exports, *contexts, *decisions, *self.sampling.traces(study)]

    @cache  # noqa: B019 - one instance; called for each round
    def records(self, study: str, path: str) -> list[str]:
        """Return the records of all that is prepared for a cell, such as results/repositories/disk.json."""
        recipe = self.plan.draft(self.plan.cell(study, path))
        records: list[str] = []
        # The kinds of data that the command reads and writes, such as "dump"; "" for none.
        for kind in (recipe["input"], recipe["output"]):
            if kind:
                records += SUBJECTS[kind].records(recipe)
        # Input and output may have the same record.
        return list(dict.fromkeys(records))

    @cache  # noqa: B019 - one instance
    def preparation_records(self, study: str) -> list[str]:
        """Return the files with records of what was prepared for a study, each file once.

        A record of a load, a copy or a trace of system calls, for example, has the time of this job
        (time_spans.TimeSpan). The time of all preparations is computed from these times.
        """
        cells = self.plan.measured(study)
        # A cell without a repository adds None, which is the name of no repository.
        study_repos = {self.plan.draft(cell).get("repository", {}).get("name") for cell in cells}
        records: list[str] = []
        # loads() and packs() return repositories and formats of all studies, such as ("ruby", "f7").
        for repo, fmt in self.repositories.loads():
            if repo in study_repos:
                records.append(load_record(repo, fmt))
        for repo, fmt in self.repositories.packs():
            if repo in study_repos:
                records.append(pack_record(repo, fmt))
        for cell in cells:
            records += self.records(study, cell.path)
        records += self.plan.trace_files(study).values()
        # Cells share most records.
        return list(dict.fromkeys(records))

    def git_builds(self, repo: str, fmt: str) -> list[list[str]]:
        """Return the prefix and LD_LIBRARY_PATH of each build of git, for a rule that makes states.

        Return [] if the git on the PATH can make all states of the repository. Otherwise each new build would
        make them again.
        """
        if fmt != GIT_FORMAT:
            return []
        states = map(parse_state, self.repositories.made_states(repo, fmt))
        if all(find_maker(state, []) for state in states):
            return []
        return [[*programs] for programs in git_builds(self.environment.builds)]

    def other_loads(self, repo: str, fmt: str) -> list[OtherLoad]:
        """Return the other loads of this session, for the load of a repository in a format.

        Loads run at the same time and share the disks. Before a load begins, it leaves space for all others
        that have not ended (loader.choose_staging): in the folder `scratch`, where most are made, and on the
        storages.
        """
        others: list[OtherLoad] = []
        for name, other_format in missing_loads(self.repositories):
            if (name, other_format) == (repo, fmt):
                continue
            # In `scratch`, a load leaves space for earlier loads only. Which of two loads is the earlier one
            # does not matter, but both must agree on it. So their names decide.
            is_earlier = (name, other_format) < (repo, fmt)
            # A source that cannot be read is an error of its own load.
            with suppress(UserError):
                others.append(self._describe_load(name, other_format, is_earlier))
        return others

    def _describe_load(self, repo: str, fmt: str, is_earlier: bool) -> OtherLoad:
        """Return a load with the space that other loads leave for it, until it has ended.

        - `made`: the time that the record of the load gets. With another time, the load has not ended.
        - `bytes`: the space for the load in `scratch`. A load that is not `is_earlier` gets none there.
        - `storages`: the space on storages, by folder, for the repositories that are kept.
        """
        estimate = self.environment.sources[repo].estimate()
        return {
            "repo": repo,
            "format": fmt,
            "made": self.repositories.load_token(repo, fmt),
            "is_earlier": is_earlier,
            "bytes": repository_bytes(estimate),
            "storages": self._count_bytes_on_storages(repo, fmt, estimate),
        }

    def _count_bytes_on_storages(
        self, repo: str, fmt: str, estimate: SizeEstimate
    ) -> dict[str, int]:
        """Return the bytes that a load adds to storages in the end, by their folders: {"/var/tmp": 4096}.

        One storage keeps the loaded repository, and packed ones that are made from it. This storage and
        others get copies, with spacers: files that scatter the copies on the device.
        """
        # The size of the loaded repository, which is about that of each copy.
        size = repository_bytes(estimate)
        # The key `repositories` has the number of all these repositories by folder, such as {"/var/tmp": 7}.
        request = self.repositories.load_request(repo, fmt)
        bytes_by_folder = count_spacer_bytes(request, fmt, estimate.revisions)
        # Older repositories are removed before the new ones are made, so their space is subtracted.
        replaced = count_replaced_bytes(request, size)
        for folder, number in request["repositories"].items():
            new_bytes = max(0, number * size - replaced.get(folder, 0))
            bytes_by_folder[folder] = bytes_by_folder.get(folder, 0) + new_bytes
        return bytes_by_folder

    def begin(self) -> None:
        """Begin a session in this Snakemake process. If that fails, end the process with a sentence."""
        try:
            # Both calls take locks, which last until this process ends.
            workflow.begin_session(self.root)
            work_folders = self._lock_work_dirs()
        except UserError as error:
            sys.exit(str(error))
        # end() calls this again with the real exit code, but Snakemake may fail without calling end().
        workflow.exit_after_main_thread(1)
        workdir.remove_abandoned(self.root, work_folders)
        # A run that measures nothing has no time limit, and does not replace the command in the report.
        if self.config.settings.measure == ALL:
            progress.set_run_limit(self.config.minutes_of_run, self.sampling.spent_s())
            store_command(self.root, sys.argv[1:])
        if self.cluster:
            self.cluster.store_jobs()

    def _lock_work_dirs(self) -> list[WorkDir]:
        """Lock vcsbench's folders on all storages, and return them. Raise UserError if one is in use."""
        work_folders = work_dirs(self.config.settings, self.root)
        # Missing folders are made here, because a folder that a job made later would have no lock. A run that
        # measures nothing needs none, and the nodes of a cluster have storages of their own.
        makes_folders = self.config.settings.measure == ALL and self.cluster is None
        for work_folder in work_folders:
            if makes_folders and work_folder.storage.is_dir():
                # If a job needs the folder, the job prints what is wrong with it.
                with suppress(UserError):
                    work_folder.make()
            work_folder.lock(workflow.LOCK_WAIT_S)
        return work_folders

    def end(self, failed: bool = False) -> None:
        workflow.end_session(self.root, failed, self.environment.machine.deployed)
        workflow.exit_after_main_thread(int(failed))


def open_project(
    raw: Mapping[str, Any], root: Path, files: Sequence[str | Path], deployed: bool
) -> Project:
    """Return the project of a Snakemake run, after checks of the configuration and of this machine.

    `raw` is the merged configuration of `files`. With `deployed`, Snakemake installs the programs later, so
    they are not checked. If this machine measures, raise UserError with everything required that it lacks. On
    a cluster, and if nothing is measured, only the needs of all programs and the times of files are checked.
    """
    # vcsbench passes its options, such as --minutes, to Snakemake in a file of their own. Errors must name
    # the option and not this file, so the file is left out.
    paths = [Path(file) for file in files if not workflow.is_options_file(Path(file), root)]
    # The configuration of a cluster's node has the key `blocks`. The node measures as a workstation does.
    is_node = bool(raw.get("blocks"))
    is_cluster = raw.get("cluster") is not None and not is_node
    project = Project(raw, root, paths, deployed=deployed, is_cluster=is_cluster)
    project.check_server_log()
    measures_here = not is_cluster and project.config.settings.measure != NOTHING
    if measures_here:
        project.check_machine()
    else:
        # Snakemake would refuse a result that is older than an input, so no file may be from the future.
        trials.refuse(list(trials.try_file_times(project.plan)))
    return project


def _find_prepared_repositories(plan: Plan) -> PreparedRepositories:
    """Return what has to be prepared for the cells: the repositories on each storage, and the dump files.

    If a command reads a repository or a dump file, and its study lacks an axis of repositories, variant_of()
    or require_axes() raises UserError.
    """
    settings = plan.config.settings
    variants_by_storage: dict[str, set[Variant]] = {}
    # By repository: the last revision that a command loads from its dump file.
    dumped_revisions: dict[str, int] = {}
    for cell in plan.cells:
        # A node of a cluster prepares only the blocks of its job, such as "fsfs-san-2014/log/ruby/cold".
        block = f"{cell.study}/{plan.name_of_block(cell)}"
        if settings.blocks and block not in settings.blocks:
            continue
        recipe = plan.draft(cell)
        # The kind of the command's input, such as "tree"; "" without an input.
        kind = recipe["input"]
        if kind and SUBJECTS[kind].reads_repository(recipe):
            # If several storages have the same folder, its copies belong to the first of them, the `shelf`.
            shelf = recipe["storage"]["shelf"]
            variants = variants_by_storage.setdefault(shelf, set())
            variants.add(variant_of(recipe.get("repository", {})))
        # A dump file is the same for all variants of a repository.
        if kind == "dump":
            repository = recipe.get("repository", {})
            # The axis of repositories sets the key `name`.
            has_axis = "name" in repository
            require_axes("a command that reads a dump file", {REPOSITORY_AXIS: has_axis})
            name = repository["name"]
            # The cell that loads the most revisions decides the length of the repository's one dump file.
            last = last_dumped_revision(recipe)
            dumped_revisions[name] = max(dumped_revisions.get(name, 0), last)
    return PreparedRepositories(
        variants_by_storage,
        folders=settings.storages,
        copies=settings.copies,
        root=plan.root,
        dumps=dumped_revisions,
        fragmentation_kib=settings.fragmentation_kib,
    )

"""Forecast how long a run takes, from earlier results of this machine or from typical rates."""

import os
import statistics
from collections import defaultdict
from dataclasses import dataclass

from vcsbench.config.configuration import EMPTY
from vcsbench.machine import host
from vcsbench.plan.grid import CellSpec, is_fixed_cost, values_on_axes
from vcsbench.plan.plan import Plan
from vcsbench.plan.result_state import read_context
from vcsbench.prepare.loader import repository_bytes
from vcsbench.prepare.repositories import PreparedRepositories
from vcsbench.sources import Source
from vcsbench.sources.base import HistoryForm
from vcsbench.sources.git_source import GitSource

# Typical rates of a machine with two cores, which count until this machine has results of its own.
# Seconds per revision, and per byte of the repository: to load and verify it in one format, and to convert it
# from git first. The larger of the two counts.
LOAD_S, LOAD_BYTE_S = 0.0026, 1.8e-7
CONVERT_S, CONVERT_BYTE_S = 0.0045, 3.8e-7
# Seconds per revision to copy it once.
COPY_S = 0.0003
# Seconds to measure a cell-round of a repository with TYPICAL_BYTES, which is that of the default
# configuration. A larger one takes longer, up to a factor.
CELL_ROUND_S = 2.0
TYPICAL_BYTES = 79e6
LARGEST_FACTOR = 50.0
# Seconds to measure a cell of fixed cost, and to count the system calls of a cell.
FIXED_COST_S = 1.0
TRACE_S = 4.0
# A cell-round takes this much longer than hyperfine: Python, Snakemake, start and end of the server.
OVERHEAD_S = 0.22
# Seconds to make the report of a study, and each of its tables.
REPORT_S = 15.0
TABLE_S = 0.5


@dataclass(frozen=True)
class CellGroup:
    """Cells whose rounds take about the same time.

    `axes` are the values that they share: the values of one cell, the values of a block of cells, or none for
    a whole study.
    """

    study: str
    level: str
    axes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Forecast:
    """The seconds of a run, by the names of its stages.

    `is_rough` if a typical rate stands for one that was never measured on this machine.
    """

    seconds_by_stage: dict[str, float]
    is_rough: bool

    @property
    def total_s(self) -> float:
        return sum(self.seconds_by_stage.values())


def forecast_run(plan: Plan, repositories: PreparedRepositories) -> Forecast:
    """Return the seconds of each stage of a run, such as {"loading": 12.0, "measuring": 300.0, ...}.

    A run makes only the repositories, copies, traces and rounds that are missing, but it always makes the
    report. A run with a time limit later decides on further rounds, which the forecast does not have.
    """
    revisions: dict[str, int] = {}
    for repo in repositories.all_repositories():
        # The empty repository, on which fixed cost (start-up) is measured, is made in no time.
        if repo != EMPTY:
            revisions[repo] = plan.env.revisions(repo)
    # A repository counts once for each format that it is loaded in.
    loads = missing_loads(repositories)
    loading_s = sum(estimate_load_s(plan.env.sources[repo]) for repo, _ in loads)
    revisions_to_copy = 0
    for storage in repositories.storages:
        # Each key is a missing copy: its variant (a repository in a format and state), and its number.
        for variant, _ in repositories.missing(storage):
            revisions_to_copy += revisions.get(variant.repo, 0)
    # A trace counts the system calls of a cell in an untimed run.
    traces = sum(len(plan.missing_traces(study)) for study in plan.grids)
    studies = plan.config.studies.values()
    tables = sum(len(study.tables) for study in studies)
    measuring_s, has_unknown_cells = _forecast_measuring(plan)
    stages = {
        "loading": loading_s,
        "copying": revisions_to_copy * COPY_S,
        "system calls": traces * TRACE_S,
        "measuring": measuring_s,
        "report": len(studies) * REPORT_S + tables * TABLE_S,
    }
    # The constants, such as COPY_S, are typical rates, which were not measured here. But only loading and
    # measuring take long, so only their typical rates make a forecast rough.
    return Forecast(stages, is_rough=bool(loads) or has_unknown_cells)


def estimate_load_s(source: Source) -> float:
    """Return about how many seconds it takes to load a source into a repository of one format.

    The conversion of a git repository is included.
    """
    size = source.estimate()
    # A repository as it is (`history: as-is`) is copied, and not converted.
    is_converted = source.kind == GitSource.kind and HistoryForm.DUMP in source.forms
    revision_s = CONVERT_S if is_converted else LOAD_S
    byte_s = CONVERT_BYTE_S if is_converted else LOAD_BYTE_S
    # Many small revisions take the time for revisions, and a few large ones the time for bytes.
    return max(size.revisions * revision_s, repository_bytes(size) * byte_s)


def _estimate_cell_round_s(plan: Plan, cell: CellSpec) -> float:
    """Return about how many seconds a cell-round without any result takes, by the size of its repository."""
    name = plan.draft(cell).get("repository", {}).get("name", "")
    # Without a repository, the name is "". The empty repository has no size to estimate.
    if name not in plan.env.sources or name == EMPTY:
        return CELL_ROUND_S
    factor = repository_bytes(plan.env.sources[name].estimate()) / TYPICAL_BYTES
    return CELL_ROUND_S * min(max(1.0, factor), LARGEST_FACTOR)


def _forecast_measuring(plan: Plan) -> tuple[float, bool]:
    """Return the seconds of all unmeasured cell-rounds, and True if nothing is known about some of them.

    A cell-round takes as long as the first of these that was measured: earlier rounds of its cell, the cells
    of its block (cells that are measured together), the cells of its study. If none was measured, its time
    follows from the size of its repository, and the seconds of its traffic are added. A cell of fixed cost,
    on the empty repository, always takes FIXED_COST_S.
    """
    measured_s = measured_durations(plan)
    total_s = 0.0
    has_unknown_cells = False
    for (study, path), rounds in unmeasured_rounds(plan).items():
        if rounds == 0:
            continue
        cell = plan.cell_by_key[study, path]
        if is_fixed_cost(cell.axes):
            total_s += rounds * FIXED_COST_S
            continue
        # _groups_of() returns cell, block and study in this order.
        groups = [group for group in _groups_of(plan, cell) if group in measured_s]
        if groups:
            total_s += rounds * measured_s[groups[0]]
        else:
            # The study sets the duration of traffic, requests of many clients. Other commands have none.
            traffic_s = plan.draft(cell).get("traffic", {}).get("seconds", 0.0)
            total_s += rounds * (_estimate_cell_round_s(plan, cell) + traffic_s)
            has_unknown_cells = True
    return total_s, has_unknown_cells


def measured_durations(plan: Plan) -> dict[CellGroup, float]:
    """Return the mean seconds of a cell-round for each group of cells with results.

    A result is a measured cell-round. It counts in three groups: its cell, the cell's block, and its study
    (_groups_of). Results of another machine or of other repositories do not count. Results with other
    settings count, because a forecast needs no more than the order of magnitude.
    """
    durations: dict[CellGroup, list[float]] = defaultdict(list)
    this_host = host()["id"]
    for cell in plan.cells:
        # A draft has everything that the measurement of a cell depends on, without digests. The identity is a
        # digest that changes with the history of the repository; None for a cell without a repository.
        identity = plan.draft(cell).get("repository", {}).get("identity")
        for cell_round in plan.cell_rounds_of(cell):
            result = cell_round.below(plan.root)
            context = read_context(result.context)
            # `took` has the seconds of the cell-round: {"hyperfine_s": 2.1, ...}. A cell-round without them,
            # or without hyperfine's export, has no complete result.
            if context is None or not context["took"] or not os.path.exists(result.export):
                continue
            is_same_machine = context["host"].get("id") == this_host
            is_same_repository = context["repository"].get("identity") == identity
            if is_same_machine and is_same_repository:
                # `hyperfine_s` is the time of the last attempt. If caches were not warm in earlier attempts
                # (`set_aside`), the round was measured again. Each attempt took about as long as the last.
                attempts = 1 + len(context["set_aside"])
                seconds = context["took"]["hyperfine_s"] * attempts + OVERHEAD_S
                for group in _groups_of(plan, cell):
                    durations[group].append(seconds)
    return {group: statistics.fmean(seconds) for group, seconds in durations.items()}


def _groups_of(plan: Plan, cell: CellSpec) -> list[CellGroup]:
    """Return the groups of a cell, the smallest first: the cell itself, its block, its study."""
    block = values_on_axes(cell.axes, plan.config.studies[cell.study].block)
    return [
        CellGroup(cell.study, "cell", tuple(cell.axes.values())),
        CellGroup(cell.study, "block", block),
        CellGroup(cell.study, "study"),
    ]


def unmeasured_rounds(plan: Plan) -> dict[tuple[str, str], int]:
    """Return the number of rounds without an up-to-date result, by study and path of each cell."""
    return {
        (cell.study, cell.path): len(plan.exports_of(cell)) - len(plan.fresh_exports(cell))
        for cell in plan.cells
    }


def missing_loads(repositories: PreparedRepositories) -> list[tuple[str, str]]:
    """Return the repositories and formats that a run loads. The empty repository needs no load."""
    return [
        (repo, fmt)
        for repo, fmt in repositories.loads()
        if repo != EMPTY and repositories.needs_load(repo, fmt)
    ]

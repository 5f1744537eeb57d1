"""Forecast how long a run takes, from earlier results of this machine or from typical rates."""

import os
import statistics
from collections import defaultdict
from dataclasses import dataclass

from vcsbench.config.configuration import EMPTY
from vcsbench.history_forms import HistoryForm
from vcsbench.machine import host
from vcsbench.plan.grid import CellSpec, is_fixed_cost, values_on_axes
from vcsbench.plan.plan import Plan
from vcsbench.plan.result_state import read_context
from vcsbench.prepare.loader import repository_bytes
from vcsbench.prepare.repositories import PreparedRepositories
from vcsbench.result_paths import CellRound
from vcsbench.sources import Source
from vcsbench.sources.git_source import GitSource
from vcsbench.systems import GIT

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
# Seconds to measure a cell-round of a git repository: start, and for each byte of its objects, because clones
# check all objects. With four runs of each clone, the mean cell-round of the default grid took 9 s for 22 MB,
# and 25 s for 140 MB. With two runs, as in the study, two thirds of this remain.
GIT_ROUND_S, GIT_BYTE_S = 4.0, 0.9e-7
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
    """Cells whose rounds take about the same time: one cell, a block, or a study (`level`).

    `axes` are the values that the cells share, none for a study.
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

    A run makes only what is missing, and the report each time. A run with a time limit may add rounds, which
    the forecast does not have.
    """
    loads = missing_loads(repositories)
    loading_s = sum(estimate_load_s(plan.env.sources[repo]) for repo, _ in loads)
    traces = sum(len(plan.missing_traces(study)) for study in plan.grids)
    measuring_s, has_guessed_cells = _forecast_measuring(plan)
    studies = plan.config.studies.values()
    tables = sum(len(study.tables) for study in studies)
    stages = {
        "loading": loading_s,
        "copying": _count_revisions_to_copy(plan, repositories) * COPY_S,
        "system calls": traces * TRACE_S,
        "measuring": measuring_s,
        "report": len(studies) * REPORT_S + tables * TABLE_S,
    }
    # Only loading and measuring take long. So typical rates of the other stages do not make a forecast rough.
    return Forecast(stages, is_rough=bool(loads) or has_guessed_cells)


def _count_revisions_to_copy(plan: Plan, repositories: PreparedRepositories) -> int:
    """Return the revisions of all missing copies together: 2,000 for two copies of 1,000 revisions."""
    revisions = 0
    for storage in repositories.storages:
        for variant, _ in repositories.missing(storage):
            if variant.repo != EMPTY:
                revisions += plan.env.revisions(variant.repo)
    return revisions


def estimate_load_s(source: Source) -> float:
    """Return about how many seconds it takes to load a source in one format, and to verify the repository.

    The conversion of a source that is a git repository is included.
    """
    size = source.estimate()
    # With the setting `history: as-is`, a git repository is copied, and not converted.
    is_converted = source.kind == GitSource.kind and HistoryForm.DUMP in source.forms
    revision_s = CONVERT_S if is_converted else LOAD_S
    byte_s = CONVERT_BYTE_S if is_converted else LOAD_BYTE_S
    # Many small revisions take the time for revisions, and a few large ones the time for bytes.
    return max(size.revisions * revision_s, repository_bytes(size) * byte_s)


def _forecast_measuring(plan: Plan) -> tuple[float, bool]:
    """Return the seconds of all cell-rounds that are left to measure, and True if some of them are guessed.

    A round takes about as long as earlier rounds of similar cells on this machine. Without any, its duration
    is guessed.
    """
    measured_s = measured_durations(plan)
    total_s = 0.0
    has_guessed_cells = False
    for (study, path), rounds in unmeasured_rounds(plan).items():
        # A cell without rounds left must not count as guessed.
        if rounds == 0:
            continue
        cell = plan.cell_by_key[study, path]
        # The groups of the cell that have results, the most similar cells first.
        groups = [group for group in _groups_of(plan, cell) if group in measured_s]
        if is_fixed_cost(cell.axes):
            round_s = FIXED_COST_S
        elif groups:
            round_s = measured_s[groups[0]]
        else:
            round_s = _guess_cell_round_s(plan, cell)
            has_guessed_cells = True
        total_s += rounds * round_s
    return total_s, has_guessed_cells


def _guess_cell_round_s(plan: Plan, cell: CellSpec) -> float:
    """Return about how many seconds one round of a cell takes if no similar cell was measured here.

    A larger repository takes longer: of Subversion 2 s for 75 MiB (TYPICAL_BYTES), and 20 s for 750 MiB.
    """
    draft = plan.draft(cell)
    # The study fixes how long the traffic of many clients lasts.
    traffic_s: float = draft.get("traffic", {}).get("seconds", 0.0)
    repository = draft.get("repository", {}).get("name", "")
    # A command may read no repository ("").
    if repository not in plan.env.sources or repository == EMPTY:
        return CELL_ROUND_S + traffic_s
    size = repository_bytes(plan.env.sources[repository].estimate())
    if draft["repository"].get("system") == GIT.name:
        return GIT_ROUND_S + GIT_BYTE_S * size
    factor = size / TYPICAL_BYTES
    # A small repository takes hardly less: start-up. Of a very large one, most commands read only a part.
    return CELL_ROUND_S * min(max(1.0, factor), LARGEST_FACTOR) + traffic_s


def measured_durations(plan: Plan) -> dict[CellGroup, float]:
    """Return the mean seconds of one round of a cell, for each group of cells with results."""
    seconds_by_group: dict[CellGroup, list[float]] = defaultdict(list)
    machine_id = host()["id"]
    for cell in plan.cells:
        identity = plan.draft(cell).get("repository", {}).get("identity")
        for cell_round in plan.cell_rounds_of(cell):
            seconds = _seconds_of_result(cell_round.below(plan.root), machine_id, identity)
            if seconds is not None:
                for group in _groups_of(plan, cell):
                    seconds_by_group[group].append(seconds)
    return {group: statistics.fmean(seconds) for group, seconds in seconds_by_group.items()}


def _seconds_of_result(result: CellRound, machine_id: str, identity: str | None) -> float | None:
    """Return how many seconds a round of a cell took, from its two files; None if they do not show it.

    A result of another machine, or of a repository with another history (`identity`), gives None. A result of
    other settings counts, because a forecast needs no more than the order of magnitude.
    """
    context = read_context(result.context)
    # The key `took` has the seconds of steps: {"hyperfine_s": 2.1, ...}, or {} if the round did not end.
    if context is None or not context["took"] or not os.path.exists(result.export):
        return None
    is_same_machine = context["host"].get("id") == machine_id
    # Both identities are None for a cell without a repository.
    is_same_repository = context["repository"].get("identity") == identity
    if not is_same_machine or not is_same_repository:
        return None
    # `hyperfine_s` is of the last attempt, and the earlier ones (`set_aside`) took about as long.
    attempts = 1 + len(context["set_aside"])
    return context["took"]["hyperfine_s"] * attempts + OVERHEAD_S


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

"""How long a run will take, stage by stage: what is there already takes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from vcsbench.config.configuration import EMPTY
from vcsbench.files import read_json
from vcsbench.foresee.costs import Costs
from vcsbench.plan.fixed_cost import is_fixed_cost
from vcsbench.plan.plan import Plan
from vcsbench.subjects.repository.shelf import Shelf

if TYPE_CHECKING:
    from vcsbench.foresee.calibration import Calibration

PREPARING = ("converting", "loading", "verifying", "packing")
COPYING, COUNTING = "copying", "counting calls"
MEASURING, TELLING = "measuring", "tables and report"
STAGES = ("set-up", *PREPARING, COPYING, COUNTING, MEASURING, TELLING)
# A run under strace takes so many times as long as by itself, which it is run before (docs/structure.md,
# `calls`); and what surrounds both.
COUNTED, COUNT_S = 8.0, 0.6
# A cell-round on the empty repository.
FIXED_COST_S = 1.0
# After the cells: Snakemake and the report, each job that makes a table or the like, and each cell-round that
# they read (docs/structure.md, `aggregation`).
REPORT_S, TABLE_S, READ_S = 5.0, 0.9, 0.004
# Jobs of a study beside its tables: grid, measurements, noise, findings, advice, expectations, account.
JOBS = 7


class Forecast(NamedTuple):
    """Seconds by stage, in the order of the work; the stages that nothing is known of (`unknown`) count as
    none. `cell_rounds` are still to be measured."""

    stages: dict[str, float]
    cell_rounds: int
    unknown: list[str]

    @property
    def total_s(self) -> float:
        """All stages together."""
        return sum(self.stages.values())


def forecast(
    plan: Plan, shelf: Shelf, costs: Costs, calibration: Calibration | None = None
) -> Forecast:
    """The forecast of a run of `plan` from what cell-rounds take and, where repositories are not prepared
    yet, from a calibration."""
    stages, unknown = dict.fromkeys(STAGES, 0.0), set[str]()
    for repo in to_load(shelf):
        if calibration:
            _add(stages, _loading(plan, repo, calibration))
        else:
            unknown |= {*PREPARING}
    for storage in shelf.storages:
        if missing := sum(variant.repo != EMPTY for variant, _ in shelf.missing(storage)):
            if calibration:
                stages[COPYING] += _copying(plan, shelf, storage, missing, calibration)
            else:
                unknown.add(COPYING)
    stages[COUNTING] = _counting_s(plan, costs)
    if not stages[COUNTING]:
        del stages[COUNTING]
    wanted = cell_rounds(plan)
    for (study, path), number in wanted.items():
        axes = plan.by_path[study, path].axes
        took_s = FIXED_COST_S if is_fixed_cost(axes) else costs.cell_round_s(study, axes)
        if took_s is None:
            unknown.add(MEASURING)
        stages[MEASURING] += number * (took_s or 0.0)
    stages[TELLING] = _telling_s(plan)
    return Forecast(stages, sum(wanted.values()), [name for name in stages if name in unknown])


def to_load(shelf: Shelf) -> list[str]:
    """The repositories that a run will load."""
    return [
        repo
        for repo in shelf.all_repositories()
        if repo != EMPTY and shelf.loaded(repo) != read_json(shelf.load_record(repo)).get("made")
    ]


def cell_rounds(plan: Plan) -> dict[tuple[str, str], int]:
    """By study and path, how many rounds of each cell are still to be measured."""
    return {
        (cell.study, cell.path): sum(not plan.is_fresh(e) for e in plan.exports_of(cell))
        for cell in plan.cells
    }


def round_s(plan: Plan, costs: Costs) -> float:
    """What one more round of all cells takes, as far as that is known."""
    cells = (cell for cell in plan.cells if not is_fixed_cost(cell.axes))
    return sum(costs.cell_round_s(cell.study, cell.axes) or 0.0 for cell in cells)


def rounds(plan: Plan) -> int:
    """In how many rounds each cell is measured at least."""
    cells = (cell for cell in plan.cells if not is_fixed_cost(cell.axes))
    return min((len(plan.exports_of(cell)) for cell in cells), default=0)


def _loading(plan: Plan, repo: str, calibration: Calibration) -> Mapping[str, float]:
    sample = calibration.loaded[repo]
    more = plan.here.sources[repo].estimate().revisions / sample.revisions
    return {stage: seconds * more for stage, seconds in sample.seconds.items()}


def _copying(
    plan: Plan, shelf: Shelf, storage: str, copies: int, calibration: Calibration
) -> float:
    """A copy of a variant takes as long as one of its sample's, for each revision."""
    variants = [variant for variant in shelf.wanted[storage] if variant.repo != EMPTY]
    whole = sum(plan.here.revisions(variant.repo) for variant in variants)
    part = sum(calibration.loaded[variant.repo].revisions for variant in variants)
    return calibration.copied[storage] * whole / part * copies / len(variants)


def _counting_s(plan: Plan, costs: Costs) -> float:
    """What it takes to count the system calls that are not counted yet."""
    total = 0.0
    for study in plan.grids:
        for path in plan.calls_of(study, there=False):
            run_s = costs.run_s(study, plan.by_path[study, path].axes) or 0.0
            total += (1 + COUNTED) * run_s + COUNT_S
    return total


def _telling_s(plan: Plan) -> float:
    total = 0.0
    for name, study in plan.config.studies.items():
        files = sum(len(plan.exports_of(cell)) for cell in plan.cells if cell.study == name)
        published = sum(1 for table in study.tables.values() if study.published)
        total += REPORT_S + TABLE_S * (JOBS + len(study.tables) + published) + READ_S * files
    return total


def _add(stages: dict[str, float], more: Mapping[str, float]) -> None:
    for stage, seconds in more.items():
        stages[stage] += seconds

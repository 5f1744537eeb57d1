"""The report of `vcsbench plan`: cells, side effects, duration, and detectable differences."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
import timeit
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from vcsbench import words
from vcsbench.axes import findings_of
from vcsbench.config.configuration import EMPTY
from vcsbench.files import read_json
from vcsbench.forecast.side_effects import (
    running_services,
    side_effects,
    unloaded_repositories,
    unmeasured_rounds,
)
from vcsbench.machine import host
from vcsbench.measure.runs import read_export
from vcsbench.plan import grid as grids
from vcsbench.plan.grid import CellSpec, is_fixed_cost
from vcsbench.plan.plan import Plan
from vcsbench.prepare.repositories import PreparedRepositories
from vcsbench.statistics.contract import Limits
from vcsbench.statistics.multiple_testing import detectable_effect

# Rates of a machine with two cores, used until a run on this machine has results: seconds to load and
# verify a revision in one format, to copy it once, to measure a cell-round, and to trace a command.
LOAD_S, COPY_S, CELL_ROUND_S, TRACE_S = 0.0026, 0.0003, 2.0, 4.0
# A cell-round on the empty repository.
FIXED_COST_S = 1.0
# A cell-round besides hyperfine: Python, Snakemake, start and end of the server.
OVERHEAD_S = 0.22
# The report of a study, and each of its tables.
REPORT_S, TABLE_S = 15.0, 0.5
# Runs of a fixed program, from which the noise of the machine is estimated.
NOISE_RUN_S, NOISE_RUNS = 0.2, 20
NOISE_SETUP = "import sys, zlib; block = bytes(range(256)) * 256"
NOISE_STEP = "zlib.adler32(zlib.compress(block, 1))"
NOISE_PROGRAM = f"{NOISE_SETUP}\nfor _ in range(int(sys.argv[1])):\n    {NOISE_STEP}\n"
# Variances are moderated over at least this many comparisons.
COMPARISONS = 10
MIN_ROUNDS, MAX_ROUNDS = 2, 10_000
# As a logarithm. Larger differences need no statistics.
MAX_EFFECT = 10.0

Axes = Mapping[str, str]


class CellRoundCost(NamedTuple):
    """The duration of a measured cell-round: `wall_s` in all, `times` of the timed runs."""

    study: str
    axes: Axes
    wall_s: float
    times: Sequence[float]


class CostModel:
    """The duration of cell-rounds, from measured ones."""

    def __init__(self, plan: Plan, measured: Sequence[CellRoundCost]) -> None:
        self.plan, self.measured = plan, measured
        self._groups: dict[tuple[str, ...], list[CellRoundCost]] = {}
        for cost in measured:
            self._groups.setdefault(self._group(cost.study, cost.axes), []).append(cost)
            self._groups.setdefault((cost.study,), []).append(cost)

    def _group(self, study: str, axes: Axes) -> tuple[str, ...]:
        group = self.plan.config.studies[study].cost_class
        return (study, *grids.variance_class(axes, group))

    def cell_round_s(self, study: str, axes: Axes) -> float | None:
        """Return the mean duration of a cell's rounds, or of similar cells; None if none was measured."""
        if is_fixed_cost(axes):
            return FIXED_COST_S
        group = self._groups.get(self._group(study, axes)) or self._groups.get((study,), [])
        same = [cost for cost in group if cost.axes == axes]
        costs = same or group
        return statistics.fmean(cost.wall_s for cost in costs) if costs else None

    def scatter(self) -> float:
        """Return the standard deviation between rounds of a cell, as a share; 0 if unknown."""
        rounds: dict[tuple[str, ...], list[float]] = {}
        for cost in self.measured:
            key = (cost.study, *cost.axes.values())
            rounds.setdefault(key, []).append(math.log(statistics.fmean(cost.times)))
        several = [logs for logs in rounds.values() if len(logs) > 1]
        degrees = sum(len(logs) - 1 for logs in several)
        squares = sum(statistics.variance(logs) * (len(logs) - 1) for logs in several)
        return math.expm1(math.sqrt(squares / degrees)) if degrees else 0.0


def measured_costs(plan: Plan) -> list[CellRoundCost]:
    """Return the costs of the results of the same repositories that were measured on this host."""
    found, me = [], host()["id"]
    for cell in plan.cells:
        repository = plan.parts(cell).get("repository", {})
        for export in map(plan.root.joinpath, plan.exports_of(cell)):
            context = read_json(export.with_suffix(".context.json"))
            is_same = context.get("repository", {}).get("identity") == repository.get("identity")
            is_here = context.get("host", {}).get("id") == me
            if "took" in context and is_same and is_here and export.exists():
                hyperfine_s = context["took"]["hyperfine_s"] * (1 + len(context["set_aside"]))
                times = [run.elapsed_s for run in read_export(export)]
                wall_s = hyperfine_s + OVERHEAD_S
                found.append(CellRoundCost(cell.study, cell.axes, wall_s, times))
    return found


class Forecast(NamedTuple):
    """The seconds of a run by stage, and whether typical rates stand for unknown ones."""

    stages: dict[str, float]
    is_rough: bool

    @property
    def total_s(self) -> float:
        """Return the seconds of all stages."""
        return sum(self.stages.values())


def forecast(plan: Plan, repositories: PreparedRepositories, costs: CostModel) -> Forecast:
    """Forecast the duration of a run. Finished work takes no time."""
    revisions = {
        repo: plan.env.revisions(repo) for repo in repositories.all_repositories() if repo != EMPTY
    }
    loading_s = sum(
        revisions[repo] * len(repositories.formats(repo)) * LOAD_S
        for repo in unloaded_repositories(repositories)
    )
    copying_s = sum(
        revisions.get(variant.repo, 0) * COPY_S
        for storage in repositories.storages
        for variant, _ in repositories.missing(storage)
    )
    tracing_s = TRACE_S * sum(len(plan.calls_of(study, existing=False)) for study in plan.grids)
    measuring_s, is_rough = 0.0, bool(loading_s)
    for (study, path), number in unmeasured_rounds(plan).items():
        each_s = costs.cell_round_s(study, plan.by_path[study, path].axes)
        is_rough |= each_s is None and number > 0
        measuring_s += number * (CELL_ROUND_S if each_s is None else each_s)
    stages = {
        "loading": loading_s,
        "copying": copying_s,
        "system calls": tracing_s,
        "measuring": measuring_s,
        "report": sum(REPORT_S + TABLE_S * len(s.tables) for s in plan.config.studies.values()),
    }
    return Forecast(stages, is_rough)


def skip_reasons(cells: Sequence[CellSpec]) -> list[tuple[str, int]]:
    """Return the reasons for skipped cells with their number, the most frequent one first."""
    return Counter(cell.skip for cell in cells if cell.skip).most_common()


def plan_report(plan: Plan, repositories: PreparedRepositories) -> Iterator[str]:
    """Yield the lines of the report."""
    effects = side_effects(plan, repositories, running_services())
    yield from ("Cells", *_cells(plan), "", "Side effects", *(f"  {effect}" for effect in effects))
    costs = CostModel(plan, measured_costs(plan))
    expected = forecast(plan, repositories, costs)
    source = f"from {len(costs.measured)} measured cell-rounds" if costs.measured else ""
    rough = "from typical rates, for lack of results" if expected.is_rough else ""
    yield from ("", f"Duration, {' and '.join(filter(None, (source, rough))) or 'all is measured'}")
    for stage, seconds in {**expected.stages, "all": expected.total_s}.items():
        yield f"  {stage:<12}  {words.duration(seconds):>9}"
    minutes = plan.config.minutes or 0.0
    if minutes * 60 > expected.total_s:
        yield f"  More rounds follow until all comparisons are decided, or {minutes:g} min are over."
    elif minutes:
        yield f"  This is more than `minutes: {minutes:g}`. The first rounds are measured all the same."
    yield from ("", "Detectable differences", *_precision(plan, costs, expected))


def _cells(plan: Plan) -> Iterator[str]:
    for study, grid in plan.grids.items():
        cells = [cell for cell in grid if not cell.skip]
        duplicates = sum(grids.is_duplicate(cell.path) for cell in cells)
        twice = f" ({duplicates} of them duplicates)" if duplicates else ""
        number, skipped = words.count_of(len(cells), "cell"), len(grid) - len(cells)
        yield f"  {study}: {number}{twice} in {words.count_of(_rounds(plan), 'round')}, {skipped} skipped"
        for axis in plan.config.studies[study].block[:1]:
            counts = Counter(cell.axes[axis] for cell in cells)
            yield "    " + ", ".join(f"{value or '-'} {n}" for value, n in counts.items())
        yield from (f"    {fact}" for fact in findings_of(plan.config.studies[study], plan.env))
        yield from (f"    skipped, {n}: {reason}" for reason, n in skip_reasons(grid))
    total = sum(len(plan.exports_of(cell)) for cell in plan.cells)
    missing = sum(unmeasured_rounds(plan).values())
    done = f", {total - missing} are measured" if missing < total else ""
    yield f"  {words.count_of(missing, 'cell-round')} to measure{done}"


def _rounds(plan: Plan) -> int:
    """Return the number of rounds in which each cell is measured at least."""
    cells = (cell for cell in plan.cells if not is_fixed_cost(cell.axes))
    return min((len(plan.exports_of(cell)) for cell in cells), default=0)


def _precision(plan: Plan, costs: CostModel, expected: Forecast) -> Iterator[str]:
    if scatter := costs.scatter():
        source = "as in earlier results"
    else:
        scatter, source = scatter_of(noise_runs()), "as this machine does now"
    yield f"  If rounds scatter by {100 * scatter:.0f} %, {source}:"
    cells = [cell for cell in plan.cells if not is_fixed_cost(cell.axes)]
    round_s = sum(costs.cell_round_s(c.study, c.axes) or CELL_ROUND_S for c in cells)
    left_s = max(0.0, (plan.config.minutes or 0.0) * 60 - expected.total_s)
    rounds = _rounds(plan) + (int(left_s / round_s) if round_s else 0)
    least = plan.config.thresholds["min_rounds"]
    if rounds >= least:
        yield f"  {rounds} rounds detect differences of {detectable_pct(scatter, rounds):.0f} %;"
    else:
        yield f"  fewer than {least:g} rounds (`thresholds.min_rounds`) decide nothing;"
    yield f"  {describe_rounds(scatter, Limits.of(plan.config))}."


def detectable_pct(scatter: float, rounds: int) -> float:
    """Return the smallest difference, in percent, that 9 of 10 experiments detect.

    `scatter` is the standard deviation of a round's time, as a share.
    """
    error = math.log1p(scatter) * math.sqrt(2 / rounds)
    effect = float(detectable_effect(error, COMPARISONS * (rounds - 1)))
    return 100 * math.expm1(min(effect, MAX_EFFECT))


def rounds_needed(scatter: float, difference_pct: float) -> int:
    """Return the smallest number of rounds that detects a difference of `difference_pct`."""
    numbers = range(MIN_ROUNDS, MAX_ROUNDS)
    return MIN_ROUNDS + bisect_left(
        numbers, True, key=lambda n: detectable_pct(scatter, n) <= difference_pct
    )


def describe_rounds(scatter: float, limits: Limits) -> str:
    """Describe how many rounds detect the smallest effect that is worth noting on this machine."""
    pct = limits.on_machine(math.log1p(scatter)).min_effect_pct
    return f"to detect {pct:g} % takes about {rounds_needed(scatter, pct)} rounds"


def noise_runs() -> list[float]:
    """Return the seconds of several runs of the same short program."""
    step_s = min(timeit.repeat(NOISE_STEP, NOISE_SETUP, number=1, repeat=16))
    loops = max(1, round(NOISE_RUN_S / step_s))
    argv = [sys.executable, "-S", "-c", NOISE_PROGRAM, str(loops)]
    times = []
    for _ in range(NOISE_RUNS):
        began = time.monotonic()
        subprocess.run(argv, check=True)
        times.append(time.monotonic() - began)
    return times


def scatter_of(times: Sequence[float]) -> float:
    """Return the standard deviation of times, as a share."""
    return math.expm1(statistics.stdev(map(math.log, times)))

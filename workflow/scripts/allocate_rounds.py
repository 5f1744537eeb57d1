"""Decide how many rounds each block of a study gets in the next batch, or write the study's time account.

The account has the seconds per step, the decided comparisons, and the gain of more minutes.
"""

import io
from pathlib import Path
from typing import Any

from vcsbench.evidence.measurements import (
    collect,
    measurements,
    read_frame,
    read_grid,
    read_measurements,
    time_breakdown,
)
from vcsbench.files import read_json, write_record
from vcsbench.plan.result_state import set_up_s
from vcsbench.run.job import job_log
from vcsbench.statistics.budget import (
    ComparisonSettings,
    allocate_rounds,
    budget_report,
    comparisons_of,
    taken_s,
)
from vcsbench.statistics.contract import NUMBERS, Limits
from vcsbench.statistics.noise import run_scatter
from vcsbench.statistics.tables import make_tables

snakemake: Any


def decide() -> dict[str, object]:
    given, params = snakemake.input, snakemake.params
    axes, grid = read_grid(given.grid)
    collected = collect(axes, grid, params.rounds, given.exports, params.logs, params.thresholds)
    frame = read_measurements(io.StringIO(measurements(collected).to_csv(index=False)))
    settings = ComparisonSettings.on_machine(
        params.comparison, run_scatter(frame, params.comparison["block"])
    )
    costs = time_breakdown(frame, settings.block, given.prepared)
    left = 60 * params.minutes - set_up_s() - taken_s(costs, len(given.exports))
    tables = make_tables(frame, settings.tables, settings.order, settings.block, settings.limits)
    more, why = allocate_rounds(comparisons_of(tables.values(), settings), costs, left)
    return {
        "gives": bool(more),
        "why": why,
        "rounds": {block: rounds + more[block] for block, rounds in params.blocks.items()},
        "of": params.of,
        "minutes": params.minutes,
        "spent_s": round(costs.total_s, 1),
    }


def account() -> dict[str, object]:
    params = snakemake.params
    frame = read_measurements(snakemake.input.measurements)
    scatter = run_scatter(frame, params.comparison["block"])
    settings = ComparisonSettings.on_machine(params.comparison, scatter)
    folder = Path(snakemake.input.tables)
    tables = [read_frame(folder / f"{name}.csv", NUMBERS) for name in settings.tables]
    decisions = [read_json(path) for path in params.decisions]
    report = budget_report(
        comparisons_of(tables, settings),
        time_breakdown(frame, settings.block, params.prepared),
        len(frame[["cell", "round"]].drop_duplicates()),
        Limits(**params.comparison["limits"]),
        scatter,
    )
    return {
        **report,
        "minutes": params.minutes,
        "studies": params.studies,
        "why": next((d["why"] for d in reversed(decisions) if "why" in d), ""),
    }


with job_log(snakemake.log[0]):
    write_record(
        snakemake.output[0], {"decide": decide, "account": account}[snakemake.params.task]()
    )

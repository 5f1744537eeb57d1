"""Decide how many rounds each block of a study gets in the next batch."""

import io
from typing import Any

from vcsbench.evidence.measurements import (
    collect,
    measurements,
    read_grid,
    read_measurements,
    time_breakdown,
)
from vcsbench.files import write_json
from vcsbench.plan.result_state import set_up_s
from vcsbench.run.job import job_log
from vcsbench.statistics.budget import (
    ComparisonSettings,
    allocate_rounds,
    comparisons_of,
    remaining_s,
)
from vcsbench.statistics.noise import run_scatter
from vcsbench.statistics.tables import make_tables

snakemake: Any

with job_log(snakemake.log[0]):
    given, params = snakemake.input, snakemake.params
    axes, grid = read_grid(given.grid)
    collected = collect(axes, grid, params.rounds, given.exports, params.logs, params.thresholds)
    text = io.StringIO(measurements(collected).to_csv(index=False))
    frame = read_measurements(text)
    scatter = run_scatter(frame, params.comparison["block"])
    settings = ComparisonSettings.on_machine(params.comparison, scatter)
    costs = time_breakdown(frame, settings.block, given.prepared)
    left = remaining_s(60 * params.minutes, costs, len(given.exports), set_up_s())
    tables = make_tables(frame, settings.tables, settings.order, settings.block, settings.limits)
    comparisons = comparisons_of(tables.values(), settings)
    more, why = allocate_rounds(comparisons, costs, left)
    decision = {
        "gives": bool(more),
        "why": why,
        "rounds": {block: rounds + more[block] for block, rounds in params.blocks.items()},
        "of": params.of,
        "minutes": params.minutes,
        "spent_s": round(costs.total_s, 1),
    }
    write_json(snakemake.output[0], decision)

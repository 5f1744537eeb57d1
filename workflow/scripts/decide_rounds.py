"""Decide how many rounds each block of a study gets in the next batch."""

import os
from typing import Any

from vcsbench.cell_rounds import CellRound
from vcsbench.evidence.collection import collect
from vcsbench.evidence.measurements import read_back, read_grid
from vcsbench.evidence.time_breakdown import break_down_time
from vcsbench.files import write_json
from vcsbench.run.job import job_log
from vcsbench.statistics.budget import allocate_rounds, comparisons_of, taken_s
from vcsbench.statistics.settings import StudySettings
from vcsbench.statistics.tables import make_tables

snakemake: Any


def decide() -> None:
    given, params = snakemake.input, snakemake.params
    settings = StudySettings.from_param(params.settings)
    axes, grid = read_grid(given.grid)
    study, results = snakemake.wildcards.study, [*map(CellRound.parse, given.exports)]
    collected = collect(study, axes, grid, params.rounds, results, params.thresholds)
    frame = read_back(collected.measurements)
    spent = break_down_time(frame, settings.block, given.prepared)
    set_up_s = float(os.environ.get("VCSBENCH_SETUP_SECONDS") or 0)
    left = 60 * params.minutes - set_up_s - taken_s(spent, len(given.exports))
    tables = make_tables(frame, settings.tables, settings.order, settings.block, settings.limits)
    comparisons = comparisons_of(tables, settings.tables, settings.block, settings.limits)
    more, why = allocate_rounds(comparisons, spent.round_s, left)
    decision = {
        "gives": bool(more),
        "why": why,
        "rounds": {block: rounds + more[block] for block, rounds in params.blocks.items()},
        "of": params.of,
        "minutes": params.minutes,
        "spent_s": round(spent.total_s, 1),
    }
    write_json(snakemake.output[0], decision)


with job_log(snakemake.log[0]):
    decide()

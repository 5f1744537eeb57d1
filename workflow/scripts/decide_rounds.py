"""Decide how many rounds each block of a study gets in the next batch."""

from typing import Any

from vcsbench import progress
from vcsbench.cell_rounds import CellRound
from vcsbench.evidence.collection import collect
from vcsbench.evidence.measurements import read_back, read_grid
from vcsbench.evidence.time_breakdown import break_down_time
from vcsbench.files import write_json
from vcsbench.run.job import job_log
from vcsbench.statistics.budget import allocate_rounds, list_comparisons, remaining_seconds
from vcsbench.statistics.finding_rounds import list_open_findings
from vcsbench.statistics.findings import make_context
from vcsbench.statistics.settings import StudySettings
from vcsbench.statistics.tables import make_tables

snakemake: Any


def decide() -> None:
    """Write the decision on a batch: how many rounds each block (cells that are measured together) gets.

    In the file, `gives` is True if the batch has rounds. Otherwise, `why` has the reason (StopReason).
    `rounds` has the total rounds by block: {"log/cold": 7}. `of` has a digest of each block's repositories.
    """
    # `snakemake` is the job of the rule `decide`.
    inputs, params = snakemake.input, snakemake.params
    settings = StudySettings.from_param(params.settings)
    axes, grid = read_grid(inputs.grid)
    cell_rounds = [CellRound.parse(export) for export in inputs.exports]
    collected = collect(
        snakemake.wildcards.study,
        axes,
        grid=grid,
        rounds=params.rounds,
        results=cell_rounds,
        thresholds=params.thresholds,
    )
    # A row per run of all rounds so far.
    frame = read_back(collected.measurements)

    # The rest of the study's `minutes`. `prepared` has the files with the times of loads and copies. The time
    # of set-up counts, too: `make report MINUTES=20` installs missing programs within the user's 20 minutes.
    spent = break_down_time(frame, settings.block, inputs.prepared)
    remaining_s = remaining_seconds(
        params.minutes, progress.set_up_s(), params.studies, spent, len(cell_rounds)
    )

    # The comparisons and findings that more rounds may decide.
    tables = make_tables(frame, settings.tables, settings.order, settings.block, settings.limits)
    comparisons = list_comparisons(tables, settings.tables, settings.block, settings.limits)
    context = make_context(frame, grid, settings)
    open_findings = list_open_findings(params.findings, frame, settings, context)

    # A Counter: a block without further rounds has 0. `params.blocks` has the total rounds before this batch.
    allocation = allocate_rounds(comparisons, spent.round_s, remaining_s, open_findings)
    rounds = {block: before + allocation.rounds[block] for block, before in params.blocks.items()}
    decision = {
        "gives": bool(allocation.rounds),
        "why": allocation.why_none or "",
        "rounds": rounds,
        "of": params.of,
        "minutes": params.minutes,
        "spent_s": round(spent.total_s, 1),
    }
    write_json(snakemake.output[0], decision)


with job_log(snakemake.log[0]):
    decide()

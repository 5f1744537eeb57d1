"""Decide how many rounds each block of a study gets in the next batch."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from vcsbench import progress
from vcsbench.evidence.collection import collect
from vcsbench.evidence.measurements import read_back, read_grid
from vcsbench.evidence.time_breakdown import break_down_time
from vcsbench.files import write_json
from vcsbench.result_paths import CellRound
from vcsbench.run.job import job_log
from vcsbench.statistics.budget import (
    Allocation,
    allocate_rounds,
    list_comparisons,
    remaining_seconds,
)
from vcsbench.statistics.finding_rounds import list_open_findings
from vcsbench.statistics.findings import make_context
from vcsbench.statistics.settings import StudySettings
from vcsbench.statistics.tables import make_tables

snakemake: Any


def write_decision() -> None:
    """Decide which rounds a study measures next, and write the decision to a JSON file.

    The decision on a batch needs all rounds of the batches before. The keys of the file are:

    - `gives`: True if the batch has rounds. Otherwise the study is finished.
    - `why`: the reason why the batch has no rounds (StopReason), or "".
    - `rounds`: the total rounds of each block after this batch: {"log/cold": 7}.
    - `of`: a digest of each block's repositories. The rounds do not count for other repositories.
    - `minutes`, `spent_s`: the time limit of the study, and the seconds of all results so far.
    """
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
    )
    # The code that decides also makes reports. So it expects the types of a frame that was read from a file.
    frame = read_back(collected.measurements)
    # `prepared` has the files with the times of loads and copies.
    spent = break_down_time(frame, settings.block, inputs.prepared)
    # Set-up counts, too: `make report MINUTES=20` also installs programs in its 20 minutes.
    remaining_s = remaining_seconds(
        params.minutes, progress.set_up_s(), params.studies, spent, len(cell_rounds)
    )
    allocation = choose_rounds(frame, grid, settings, spent.round_s, remaining_s)
    # `blocks` has the total rounds of each block before this batch. The further rounds are a Counter, which
    # has 0 for a block without further rounds.
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


def choose_rounds(
    frame: pd.DataFrame,
    grid: list[dict[str, str]],
    settings: StudySettings,
    round_s: Mapping[str, float],
    remaining_s: float,
) -> Allocation:
    """Return the further rounds of each block in the next batch, or the reason why the batch has none.

    `frame` has a row per timed run, and `grid` a row per cell. `round_s` has the seconds of a round of each
    block: {"log/cold": 12.5}.
    """
    tables = make_tables(frame, settings.tables, settings.order, settings.block, settings.limits)
    comparisons = list_comparisons(tables, settings.tables, settings.block, settings.limits)
    # The context has the noise, from which the further rounds of a finding are forecast.
    context = make_context(frame, grid, settings)
    open_findings = list_open_findings(snakemake.params.findings, frame, settings, context)
    # Open findings get rounds first, then comparisons.
    return allocate_rounds(comparisons, round_s, remaining_s, open_findings)


with job_log(snakemake.log[0]):
    write_decision()

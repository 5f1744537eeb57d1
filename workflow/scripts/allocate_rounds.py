"""Decide how many rounds each block of a study gets in the next batch, or write the study's time account.

The account has the seconds per step, the decided comparisons, and the gain of more minutes.
"""

import io
import os
from pathlib import Path
from typing import Any

from vcsbench.evidence.measurements import (
    collect,
    read_frame,
    read_grid,
    read_measurements,
    time_breakdown,
)
from vcsbench.files import read_json, write_json
from vcsbench.run.job import run_rule
from vcsbench.statistics.budget import allocate_rounds, budget_report, comparisons_of, taken_s
from vcsbench.statistics.comparisons import NUMBERS, Limits
from vcsbench.statistics.noise import run_scatter
from vcsbench.statistics.tables import make_tables

snakemake: Any


def decide() -> None:
    given, params, compared = snakemake.input, snakemake.params, snakemake.params.comparison
    axes, grid = read_grid(given.grid)
    collected = collect(axes, grid, params.rounds, given.exports, params.logs, params.thresholds)
    frame = read_measurements(io.StringIO(collected.measurements.to_csv(index=False)))
    limits = Limits(**compared["limits"])
    spent = time_breakdown(frame, compared["block"], given.prepared)
    set_up_s = float(os.environ.get("VCSBENCH_SETUP_SECONDS") or 0)
    left = 60 * params.minutes - set_up_s - taken_s(spent, len(given.exports))
    tables = make_tables(frame, compared["tables"], compared["order"], compared["block"], limits)
    comparisons = comparisons_of(tables, compared["tables"], compared["block"], limits)
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


def account() -> None:
    params, compared = snakemake.params, snakemake.params.comparison
    frame = read_measurements(snakemake.input.measurements)
    limits, scatter = Limits(**compared["limits"]), run_scatter(frame, compared["block"])
    folder = Path(snakemake.input.tables)
    tables = {name: read_frame(folder / f"{name}.csv", NUMBERS) for name in compared["tables"]}
    report = budget_report(
        comparisons_of(tables, compared["tables"], compared["block"], limits),
        time_breakdown(frame, compared["block"], params.prepared),
        len(frame[["cell", "round"]].drop_duplicates()),
        limits,
        scatter,
    )
    reasons = [read_json(path).get("why") for path in params.decisions]
    whole = {
        **report,
        "minutes": params.minutes,
        "studies": params.studies,
        "why": next((why for why in reversed(reasons) if why is not None), ""),
    }
    write_json(snakemake.output[0], whole)


run_rule(snakemake, decide=decide, account=account)

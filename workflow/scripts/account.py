"""Write the time account of a study: seconds per step, answered comparisons, and the gain of more minutes."""

from pathlib import Path
from typing import Any

from vcsbench.evidence.measurements import read_frame, read_measurements, time_breakdown
from vcsbench.files import read_json, write_json
from vcsbench.run.job import job_log
from vcsbench.statistics.budget import ComparisonSettings, budget_report, comparisons_of
from vcsbench.statistics.contract import NUMBERS, Limits
from vcsbench.statistics.noise import run_scatter

snakemake: Any

with job_log(snakemake.log[0]):
    params = snakemake.params
    frame = read_measurements(snakemake.input.measurements)
    limits, block = Limits(**params.comparison["limits"]), params.comparison["block"]
    folder = Path(snakemake.input.tables)
    tables = [read_frame(folder / f"{name}.csv", NUMBERS) for name in params.tables]
    cell_rounds = len(frame[["cell", "round"]].drop_duplicates())
    costs = time_breakdown(frame, block, params.prepared)
    scatter = run_scatter(frame, block)
    settings = ComparisonSettings.on_machine(params.comparison, scatter)
    comparisons = comparisons_of(tables, settings)
    report = budget_report(comparisons, costs, cell_rounds, limits, scatter)
    decisions = [read_json(path) for path in params.decisions]
    why = next((d["why"] for d in reversed(decisions) if "why" in d), "")
    report |= {"minutes": params.minutes, "studies": params.studies, "why": why}
    report["twins_sd"] = max(
        (sd for table in tables for sd in table["twin_sd"].dropna()), default=0.0
    )
    write_json(snakemake.output[0], report)

"""Write the tables of a study from measurements or published numbers, or its history.

The measurements have a table against each baseline, too.
"""

import math
from pathlib import Path
from typing import Any

import pandas as pd

from vcsbench.evidence.measurements import read_measurements, write_frame
from vcsbench.files import write_json
from vcsbench.run.job import job_log
from vcsbench.statistics import baseline_comparison, baselines
from vcsbench.statistics.aggregation import read_published
from vcsbench.statistics.contract import Limits
from vcsbench.statistics.noise import run_scatter
from vcsbench.statistics.tables import make_tables

snakemake: Any


def compare_published() -> None:
    params, numbers = snakemake.params, list(snakemake.input.numbers)
    write_tables(read_published(numbers, list(params.order), params.by, **params.metadata))


def compare_measured() -> None:
    """Write each table of the measurements, and one against each baseline with notes for its reader."""
    params, study = snakemake.params, snakemake.wildcards.study
    frame = read_measurements(snakemake.input.numbers)
    scatter = run_scatter(frame, params.block)
    write_tables(frame, scatter)
    folder, limits = Path(snakemake.output[0]), Limits(**params.limits).on_machine(scatter)
    for baseline in params.baselines:
        now = baseline_comparison.load_current(study, Path("results"))
        before = baseline_comparison.load_baseline(baseline, study)
        pairs = baseline_comparison.pair_cells(before, now, list(params.order))
        table = baseline_comparison.baseline_table(baseline, pairs, params.order, limits)
        name = baselines.table_name(baseline)
        write_json(folder / f"{name}.json", baseline_comparison.baseline_notes(before, now, pairs))
        write_frame(table, folder / f"{name}.csv")


def write_tables(frame: pd.DataFrame, scatter: float = math.nan) -> None:
    params, folder = snakemake.params, Path(snakemake.output[0])
    folder.mkdir(parents=True)
    limits = Limits(**params.limits)
    made = make_tables(frame, params.definitions, params.order, params.block, limits, scatter)
    for name, table in made.items():
        write_frame(table, folder / f"{name}.csv")


def write_history() -> None:
    params, study = snakemake.params, snakemake.wildcards.study
    settings = params.order, params.block, Limits(**params.limits)
    times = baseline_comparison.history(params.names, study, Path("results"), *settings)
    write_json(snakemake.output[0], times)


TASKS = {
    "compare_published": compare_published,
    "compare_measured": compare_measured,
    "write_history": write_history,
}

with job_log(snakemake.log[0]):
    TASKS[snakemake.params.task]()

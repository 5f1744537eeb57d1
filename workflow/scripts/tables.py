"""Write the tables of a study from its measurements or its published numbers, or a table of its noise.

The measurements have a table against each baseline, too.
"""

import math
from pathlib import Path
from typing import Any

from vcsbench.evidence.measurements import read_measurements, write_frame
from vcsbench.files import write_json
from vcsbench.run.job import job_log
from vcsbench.statistics import baseline_comparison, baselines
from vcsbench.statistics.aggregation import read_published
from vcsbench.statistics.contract import Limits
from vcsbench.statistics.noise import noise_of, noise_table, run_scatter
from vcsbench.statistics.tables import make_tables

snakemake: Any


def tables() -> None:
    """Write each table as a file in one folder."""
    params, folder = snakemake.params, Path(snakemake.output[0])
    folder.mkdir(parents=True)
    limits, scatter = Limits(**params.limits), math.nan
    if params.task == "compare_published":
        numbers = list(snakemake.input.numbers)
        frame = read_published(numbers, list(params.order), params.by, **params.metadata)
    else:
        frame = read_measurements(snakemake.input.numbers)
        scatter = run_scatter(frame, params.block)
    made = make_tables(frame, params.definitions, params.order, params.block, limits, scatter)
    for name, table in made.items():
        write_frame(table, folder / f"{name}.csv")
    for name in [] if params.task == "compare_published" else params.baselines:
        compare(folder, name, limits)


def compare(folder: Path, baseline: str, limits: Limits) -> None:
    """Write the table against a baseline, and notes for its reader."""
    params, study = snakemake.params, snakemake.wildcards.study
    now = baseline_comparison.load_current(study, Path("results"))
    before = baseline_comparison.load_baseline(baseline, study)
    pairs = baseline_comparison.pair_cells(before, now, list(params.order))
    own_limits = limits.on_machine(run_scatter(now.frame, params.block))
    table = baseline_comparison.baseline_table(baseline, pairs, params.order, own_limits)
    name = baselines.table_name(baseline)
    write_json(folder / f"{name}.json", baseline_comparison.baseline_notes(before, now, pairs))
    write_frame(table, folder / f"{name}.csv")


def noise() -> None:
    """Write the noise of each class of cells."""
    frame, params = read_measurements(snakemake.input.measurements), snakemake.params
    of = noise_of(frame, params.axes, params.block)
    write_frame(noise_table(frame, params.axes, params.variance_group, of), snakemake.output[0])


with job_log(snakemake.log[0]):
    noise() if snakemake.params.task == "describe_noise" else tables()

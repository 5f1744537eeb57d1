"""Write the verdicts on findings or on the user's expectations."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from vcsbench.evidence.measurements import read_frame, read_grid, read_measurements, write_frame
from vcsbench.run.job import job_log
from vcsbench.statistics.aggregation import read_published
from vcsbench.statistics.baseline_comparison import load_baseline, load_current, pair_cells
from vcsbench.statistics.contract import OF_EXPECTATIONS, Limits
from vcsbench.statistics.findings import (
    context_of,
    evaluate_expectations,
    evaluate_findings,
    unmeasured_expectations,
)
from vcsbench.statistics.possible_reasons import Conditions

snakemake: Any


def judge_findings() -> pd.DataFrame:
    given, params, study = snakemake.input, snakemake.params, snakemake.wildcards.study
    published = measured = context = None
    if given.published:
        published = read_published(given.published, params.axes, params.by, **params.metadata)
    if given.measurements:
        measured = read_measurements(given.measurements)
        grid = read_grid(given.grid)[1]
        limits, conditions = Limits(**params.limits), Conditions(**params.conditions)
        context = context_of(measured, params.axes, grid, params.block, limits, conditions, study)
    return evaluate_findings(params.findings, params.axes, published, measured, context, params.by)


def judge_expectations() -> pd.DataFrame:
    """Return the verdicts on the expectations; named baselines are compared with the present cells."""
    params, study = snakemake.params, snakemake.wildcards.study
    measured = read_measurements(snakemake.input.measurements)
    grid = read_grid(snakemake.input.grid)[1]
    context = context_of(measured, params.axes, grid, params.block, Limits(**params.limits))
    if params.baselines:
        now = load_current(study, Path("results"))
        saved = {
            name: pair_cells(load_baseline(name, study), now, params.axes)
            for name in params.baselines
        }
        context = replace(context, baselines=saved)
    return evaluate_expectations(params.expectations, params.axes, measured, context)


def join_checks() -> pd.DataFrame:
    frames = {Path(path).stem: read_frame(path) for path in snakemake.input.verdicts}
    for study, expected in snakemake.params.of_other_studies.items():
        frames[study] = unmeasured_expectations(study, expected)
    rows = [frame.assign(study=study) for study, frame in frames.items() if len(frame)]
    verdicts = pd.concat(rows) if rows else pd.DataFrame()
    return verdicts.reindex(columns=["study", *OF_EXPECTATIONS])


TASKS = {
    "judge_findings": judge_findings,
    "judge_expectations": judge_expectations,
    "join_checks": join_checks,
}

with job_log(snakemake.log[0]):
    write_frame(TASKS[snakemake.params.task](), snakemake.output[0])

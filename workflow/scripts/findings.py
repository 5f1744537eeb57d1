"""Write the verdicts on the findings of a study, from published and from measured numbers."""

from typing import Any

from vcsbench.evidence.measurements import read_grid, read_measurements, write_frame
from vcsbench.run.job import job_log
from vcsbench.statistics.aggregation import read_published
from vcsbench.statistics.contract import Limits
from vcsbench.statistics.findings import context_of, evaluate_findings
from vcsbench.statistics.possible_reasons import Conditions

snakemake: Any

with job_log(snakemake.log[0]):
    given, params, study = snakemake.input, snakemake.params, snakemake.wildcards.study
    published = measured = context = None
    if given.published:
        published = read_published(given.published, params.axes, params.by, **params.metadata)
    if given.measurements:
        measured = read_measurements(given.measurements[0])
        grid = read_grid(given.grid[0])[1]
        limits, conditions = Limits(**params.limits), Conditions(**params.conditions)
        context = context_of(measured, params.axes, grid, params.block, limits, conditions, study)
    rows = evaluate_findings(params.findings, params.axes, published, measured, context, params.by)
    write_frame(rows, snakemake.output[0])

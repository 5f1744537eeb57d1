"""Write what was measured of a study over its saved baselines, and now."""

from pathlib import Path
from typing import Any

from vcsbench.files import write_json
from vcsbench.run.job import job_log
from vcsbench.statistics.baseline_comparison import history
from vcsbench.statistics.contract import Limits

snakemake: Any

with job_log(snakemake.log[0]):
    params, study = snakemake.params, snakemake.wildcards.study
    limits, results = Limits(**params.limits), Path("results")
    times = history(params.names, study, results, params.order, params.block, limits)
    write_json(snakemake.output[0], times)

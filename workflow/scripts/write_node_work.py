"""Write the work of a node of a cluster."""

from typing import Any

from vcsbench.files import write_json
from vcsbench.run.job import job_log

snakemake: Any

with job_log(snakemake.log[0]):
    write_json(snakemake.output[0], snakemake.params.work)

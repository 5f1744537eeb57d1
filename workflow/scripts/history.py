"""Write what was measured of a study over its saved baselines, and now."""

from pathlib import Path
from typing import Any

from vcsbench.compare.decisions import Limits
from vcsbench.compare.history import history
from vcsbench.run.rulelog import logged
from vcsbench.wholefile import write_json

snakemake: Any

with logged(snakemake.log[0]):
    params, study = snakemake.params, snakemake.wildcards.study
    found = history(params.names, study, Path("results"), params.order, Limits(**params.limits))
    write_json(snakemake.output[0], found)

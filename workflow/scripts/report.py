"""Write the report of a study from all that there is of it below results/."""

from pathlib import Path
from typing import Any

from vcsbench.config.study import load_study
from vcsbench.report.page import build_page
from vcsbench.report.results import read_results
from vcsbench.run.rulelog import logged
from vcsbench.wholefile import write_sealed

snakemake: Any

with logged(snakemake.log[0]):
    study = load_study(snakemake.input.study)
    definitions = Path(snakemake.input.definitions)
    params = snakemake.params
    results = read_results(
        study, Path("results"), definitions, params.order, params.expectations, params.baselines
    )
    write_sealed(snakemake.output[0], build_page(results))

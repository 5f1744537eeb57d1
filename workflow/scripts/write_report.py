"""Write the report of a study."""

from pathlib import Path
from typing import Any

from vcsbench.config.study import load_study
from vcsbench.files import write_json, write_text
from vcsbench.report.page import build_page_with_charts
from vcsbench.report.results import read_results
from vcsbench.run.job import job_log
from vcsbench.run.provenance import provenance

snakemake: Any


def write_page() -> None:
    study = load_study(snakemake.input.study)
    definitions = Path(snakemake.input.definitions)
    names = ("order", "expectations", "baselines", "own", "found")
    made_with = {name: snakemake.params[name] for name in names}
    write_json(snakemake.output.made_with, made_with)
    # Before the results are read, because the page cites it. Snakemake runs scripts in the checkout.
    write_json(snakemake.output.provenance, provenance(Path.cwd(), snakemake.config))
    results = read_results(study, Path("results"), definitions, **made_with)
    write_text(
        snakemake.output.page, build_page_with_charts(results, Path(snakemake.output.charts))
    )


with job_log(snakemake.log[0]):
    write_page()

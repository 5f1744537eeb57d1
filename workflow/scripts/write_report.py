"""Write the report of a study."""

from pathlib import Path
from typing import Any

from vcsbench.config.study_reader import load_study
from vcsbench.files import write_json, write_text
from vcsbench.report.index_page import make_record
from vcsbench.report.page import build_page_with_charts
from vcsbench.report.results import read_results
from vcsbench.run.job import job_log
from vcsbench.run.provenance import provenance

snakemake: Any


# The keyword arguments of read_results() that the configuration sets.
PARAMS = (
    *("order", "expectations", "baselines"),
    *("own_repository", "repository_notes", "server_log_notes"),
)


def write_page() -> None:
    """Write the page of a study, its charts, and two files about the page."""
    output = snakemake.output
    params = {name: snakemake.params[name] for name in PARAMS}
    # read_results() reads this file. Snakemake runs scripts in the checkout.
    write_json(output.provenance, provenance(Path.cwd(), snakemake.config))

    study = load_study(snakemake.input.study)
    definitions = Path(snakemake.input.definitions)
    results = read_results(study, Path("results"), definitions, **params)
    page, facts = build_page_with_charts(results, Path(output.charts))
    write_text(output.page, page)
    # The index reads the facts. From a bundle of the results, vcsbench makes the page again with the params.
    write_json(output.record, make_record(params, facts))


with job_log(snakemake.log[0]):
    write_page()

"""Write the report of a study."""

from pathlib import Path
from typing import Any

from vcsbench.config.study_reader import load_study
from vcsbench.files import write_json, write_text
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
    """Write the page of a study and its other files. `snakemake` is the job of the rule `report`."""
    params = {name: snakemake.params[name] for name in PARAMS}
    # An imported bundle makes the page again from this file.
    write_json(snakemake.output.made_with, params)
    # read_results() reads this file, because the page cites it. Snakemake runs scripts in the checkout.
    write_json(snakemake.output.provenance, provenance(Path.cwd(), snakemake.config))

    study = load_study(snakemake.input.study)
    definitions = Path(snakemake.input.definitions)
    results = read_results(study, Path("results"), definitions, **params)
    page = build_page_with_charts(results, Path(snakemake.output.charts))
    write_text(snakemake.output.page, page)


with job_log(snakemake.log[0]):
    write_page()

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
    """Write the page of a study, its charts, and two files about how the page was made.

    `snakemake` is the job that runs this script: the configuration, and the files and params of its rule.
    """
    output = snakemake.output
    params = {name: snakemake.params[name] for name in PARAMS}
    # The arguments of read_results() are stored in a file. If the results are packed and sent to somebody
    # (`make bundle`), vcsbench makes the page there again with these arguments.
    write_json(output.made_with, params)
    # The version, the command and the configuration of this report. read_results() reads this file, too,
    # because the page cites it. The current folder is the checkout, because Snakemake runs scripts there.
    write_json(output.provenance, provenance(Path.cwd(), snakemake.config))

    study = load_study(snakemake.input.study)
    # The file with the published statements on which the page has verdicts.
    definitions = Path(snakemake.input.definitions)
    results = read_results(study, Path("results"), definitions, **params)
    page = build_page_with_charts(results, Path(output.charts))
    write_text(output.page, page)


with job_log(snakemake.log[0]):
    write_page()

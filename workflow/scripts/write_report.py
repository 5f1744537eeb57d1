"""Write the report of a study from its results, or the index of the reports in a folder."""

from pathlib import Path
from typing import Any

from vcsbench.config.study import load_study
from vcsbench.files import write_json, write_text
from vcsbench.report.page import StudyFindings, build_index, build_page, read_entries
from vcsbench.report.results import read_results
from vcsbench.run.job import job_log

snakemake: Any


def write_page() -> None:
    study = load_study(snakemake.input.study)
    definitions = Path(snakemake.input.definitions)
    names = ("order", "expectations", "baselines", "own", "found")
    made_with = {name: snakemake.params[name] for name in names}
    write_json(snakemake.output.made_with, made_with)
    results = read_results(study, Path("results"), definitions, **made_with)
    write_text(snakemake.output.page, build_page(results))


def write_index() -> None:
    path = Path(snakemake.output[0])
    studies = [StudyFindings(*study) for study in snakemake.params.studies]
    write_text(path, build_index(read_entries(path.parent), studies))


with job_log(snakemake.log[0]):
    {"write_page": write_page, "write_index": write_index}[snakemake.params.task]()

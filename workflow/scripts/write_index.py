"""Write the index of the reports in a folder."""

from pathlib import Path
from typing import Any

from vcsbench.files import write_text
from vcsbench.report.index_page import build_index, read_entries
from vcsbench.run.job import job_log

snakemake: Any


def write_index() -> None:
    path = Path(snakemake.output[0])
    # These include the pages of studies that this run does not measure.
    entries = read_entries(path.parent, Path("results/page"))
    write_text(path, build_index(entries, snakemake.params.studies))


with job_log(snakemake.log[0]):
    write_index()

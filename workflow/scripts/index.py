"""Write the index of the reports in its folder."""

from pathlib import Path
from typing import Any

from vcsbench.files import write_text
from vcsbench.report.index import StudyFindings, build_index, read_entries
from vcsbench.run.job import job_log

snakemake: Any

with job_log(snakemake.log[0]):
    index = Path(snakemake.output[0])
    studies = [StudyFindings(*study) for study in snakemake.params.studies]
    write_text(index, build_index(read_entries(index.parent), studies))

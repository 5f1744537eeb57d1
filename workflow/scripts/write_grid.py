"""Write the grid of a study."""

import csv
import io
from typing import Any

from vcsbench.files import write_text
from vcsbench.run.job import job_log

snakemake: Any


def write_grid() -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(snakemake.params.cells)
    write_text(snakemake.output[0], text.getvalue())


with job_log(snakemake.log[0]):
    write_grid()

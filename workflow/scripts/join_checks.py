"""Join the verdicts on the expectations of all studies: as CSV, as JUnit XML, and as Markdown."""

from pathlib import Path
from typing import Any

import pandas as pd

from vcsbench.evidence.measurements import read_frame, write_frame
from vcsbench.files import read_rows, write_text
from vcsbench.run.job import job_log
from vcsbench.statistics import check, findings
from vcsbench.statistics.verdicts import OF_EXPECTATIONS

snakemake: Any


def join_checks() -> None:
    output = snakemake.output
    frames = {Path(path).stem: read_frame(path) for path in snakemake.input.verdicts}
    for study, expected in snakemake.params.of_other_studies.items():
        frames[study] = findings.unmeasured_expectations(study, expected)
    rows = [frame.assign(study=study) for study, frame in frames.items() if len(frame)]
    verdicts = pd.concat(rows) if rows else pd.DataFrame()
    write_frame(verdicts.reindex(columns=["study", *OF_EXPECTATIONS]), output.csv)
    written = read_rows(output.csv, check.AGAIN)
    write_text(output.junit, check.junit(written))
    write_text(output.markdown, check.markdown(written))


with job_log(snakemake.log[0]):
    join_checks()

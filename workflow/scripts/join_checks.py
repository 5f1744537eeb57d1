"""Join the verdicts on the expectations of all studies: as CSV, as JUnit XML, and as Markdown."""

from pathlib import Path
from typing import Any

import pandas as pd

from vcsbench.evidence.measurements import write_frame
from vcsbench.files import read_rows, write_text
from vcsbench.run.job import job_log
from vcsbench.statistics import check, findings
from vcsbench.statistics.verdicts import EXPECTATION_COLUMNS

snakemake: Any


def join_checks() -> None:
    """Write the verdicts on all expectations as CSV, as JUnit XML (for build servers), and as Markdown.

    The rows of all studies are joined, with the name of the study in the column `study`.
    """
    output = snakemake.output
    verdicts_by_study = {}
    for path in snakemake.input.verdicts:
        # All values stay the texts that they are in the file.
        rows_of_study = read_rows(path, check.RUN_CHECK_AGAIN)
        verdicts_by_study[Path(path).stem] = pd.DataFrame(rows_of_study)
    # The verdict on an expectation of a study that this run does not measure is `not measured`.
    for study, expectations in snakemake.params.of_other_studies.items():
        verdicts_by_study[study] = findings.unmeasured_expectations(study, expectations)
    frames = []
    for study, frame in verdicts_by_study.items():
        # pandas warns of joining empty frames, and most studies have no expectations.
        if len(frame):
            frames.append(frame.assign(study=study))
    verdicts = pd.concat(frames) if frames else pd.DataFrame()
    # reindex() also adds the columns to an empty frame, so the file has its heading.
    write_frame(verdicts.reindex(columns=["study", *EXPECTATION_COLUMNS]), output.csv)
    # The other two formats are made from the CSV file, as is the output of `vcsbench check`.
    rows = read_rows(output.csv, check.RUN_CHECK_AGAIN)
    write_text(output.junit, check.junit(rows))
    write_text(output.markdown, check.markdown(rows))


with job_log(snakemake.log[0]):
    join_checks()

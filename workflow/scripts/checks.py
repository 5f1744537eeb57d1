"""Write the verdicts on all expectations into one file, their study in front."""

from pathlib import Path
from typing import Any

import pandas as pd

from vcsbench.evidence.measurements import read_frame, write_frame
from vcsbench.run.job import job_log
from vcsbench.statistics.contract import OF_EXPECTATIONS
from vcsbench.statistics.findings import unmeasured_expectations

snakemake: Any

with job_log(snakemake.log[0]):
    frames = {Path(path).stem: read_frame(path) for path in snakemake.input.verdicts}
    elsewhere = snakemake.params.of_other_studies
    frames |= {
        study: unmeasured_expectations(study, expected) for study, expected in elsewhere.items()
    }
    rows = [frame.assign(study=study) for study, frame in frames.items() if len(frame)]
    verdicts = pd.concat(rows) if rows else pd.DataFrame()
    write_frame(verdicts.reindex(columns=["study", *OF_EXPECTATIONS]), snakemake.output[0])

"""Write the tables of a study from its published numbers, by the code that makes those of measurements."""

from pathlib import Path
from typing import Any

from vcsbench.evidence.measurements import write_frame
from vcsbench.run.job import job_log
from vcsbench.statistics.aggregation import read_published
from vcsbench.statistics.settings import StudySettings
from vcsbench.statistics.tables import make_tables

snakemake: Any


def compare_published() -> None:
    params, folder = snakemake.params, Path(snakemake.output[0])
    settings = StudySettings.from_param(params.settings)
    frame = read_published(
        list(snakemake.input.numbers), settings.axes, settings.by, **params.metadata
    )
    folder.mkdir(parents=True)
    made = make_tables(frame, settings.tables, settings.order, settings.block, settings.limits)
    for name, table in made.items():
        write_frame(table, folder / f"{name}.csv")


with job_log(snakemake.log[0]):
    compare_published()

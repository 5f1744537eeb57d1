"""Write the tables of a study from its published numbers, by the code that makes tables of measurements."""

from pathlib import Path
from typing import Any

from vcsbench.config.definitions import PublishedMetadata
from vcsbench.evidence.measurements import write_frame
from vcsbench.run.job import job_log
from vcsbench.statistics.aggregation import read_published
from vcsbench.statistics.settings import StudySettings
from vcsbench.statistics.tables import make_tables

snakemake: Any


def write_published_tables() -> None:
    """Write a CSV file for each table of a study that its published numbers can fill.

    The page of the study shows these numbers next to the measured ones.
    """
    params = snakemake.params
    settings = StudySettings.from_param(params.settings)
    # Facts that the files of published numbers lack: a file about format 7 has no column for the format.
    metadata = PublishedMetadata(**params.metadata)
    files = list(snakemake.input.numbers)
    frame = read_published(files, settings.axes, settings.by, metadata)
    tables = make_tables(frame, settings.tables, settings.order, settings.block, settings.limits)
    folder = Path(snakemake.output[0])
    folder.mkdir(parents=True)
    for name, table in tables.items():
        write_frame(table, folder / f"{name}.csv")


with job_log(snakemake.log[0]):
    write_published_tables()

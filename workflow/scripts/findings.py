"""Write the verdicts on what a study concluded, from published and from measured numbers."""

from typing import Any

from vcsbench.findings import verdicts
from vcsbench.frames import write_frame
from vcsbench.measurements import read_measurements
from vcsbench.published import read_published
from vcsbench.rulelog import logged

snakemake: Any

with logged(snakemake.log[0]):
    axes = list(snakemake.params.axes)
    published = [read_published(path, axes) for path in snakemake.input.published]
    measured = [read_measurements(path) for path in snakemake.input.measurements]
    rows = verdicts(
        snakemake.params.findings, axes, next(iter(published), None), next(iter(measured), None)
    )
    write_frame(rows, snakemake.output[0])

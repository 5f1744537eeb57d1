"""Write the verdicts on what a study concluded, from published and from measured numbers."""

from typing import Any

from vcsbench.compare.findings import basis_of, verdicts
from vcsbench.compare.published import read_published
from vcsbench.evidence.frames import write_frame
from vcsbench.evidence.measurements import read_grid, read_measurements
from vcsbench.run.rulelog import logged

snakemake: Any


def main() -> None:
    """Read, judge, write."""
    given, params = snakemake.input, snakemake.params
    axes = list(params.axes)
    published = measured = basis = None
    if given.published:
        published = read_published(given.published[0], axes)
    if given.measurements:
        measured = read_measurements(given.measurements[0])
        basis = basis_of(measured, axes, read_grid(given.grid[0])[1], params.published_scale)
    write_frame(verdicts(params.findings, axes, published, measured, basis), snakemake.output[0])


with logged(snakemake.log[0]):
    main()

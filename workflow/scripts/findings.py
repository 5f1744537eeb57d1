"""Write the verdicts on what a study concluded, from published and from measured numbers."""

from typing import Any

from vcsbench.compare.decisions import Limits
from vcsbench.compare.findings import basis_of, verdicts
from vcsbench.compare.published import read_published
from vcsbench.evidence.frames import write_frame
from vcsbench.evidence.measurements import read_grid, read_measurements
from vcsbench.run.rulelog import logged

snakemake: Any


def main() -> None:
    """Read, judge, write."""
    given, params = snakemake.input, snakemake.params
    published = measured = basis = None
    if given.published:
        published = read_published(given.published, params.axes, params.by, **params.said)
    if given.measurements:
        measured = read_measurements(given.measurements[0])
        grid = read_grid(given.grid[0])[1]
        limits, scale = Limits(**params.limits), params.published_scale
        basis = basis_of(measured, params.axes, grid, params.block, limits, scale)
    rows = verdicts(params.findings, params.axes, published, measured, basis, params.by)
    write_frame(rows, snakemake.output[0])


with logged(snakemake.log[0]):
    main()

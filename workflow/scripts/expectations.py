"""Write the verdicts on a user's expectations of a study."""

from typing import Any

from vcsbench.expectations import judged
from vcsbench.findings import basis_of
from vcsbench.frames import write_frame
from vcsbench.measurements import read_grid, read_measurements
from vcsbench.rulelog import logged

snakemake: Any

with logged(snakemake.log[0]):
    given, params = snakemake.input, snakemake.params
    measured = read_measurements(given.measurements)
    basis = basis_of(measured, read_grid(given.grid)[1], None)
    write_frame(
        judged(params.expectations, list(params.axes), measured, basis), snakemake.output[0]
    )

"""Write the measurements and the failures of a study from its cells' exports and contexts."""

from typing import Any

from vcsbench.evidence.calls import read_calls
from vcsbench.evidence.frames import write_frame
from vcsbench.evidence.measurements import collect, failures, measurements, read_grid
from vcsbench.run.rulelog import logged

snakemake: Any

with logged(snakemake.log[0]):
    axes, grid = read_grid(snakemake.input.grid)
    params = snakemake.params
    collected = collect(
        axes,
        grid,
        params.rounds,
        snakemake.input.exports,
        params.logs,
        params.thresholds,
        read_calls(snakemake.input.calls, params.counted) if params.counted else None,
    )
    write_frame(measurements(collected), snakemake.output.measurements)
    write_frame(failures(collected), snakemake.output.failures)

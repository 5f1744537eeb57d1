"""Write the measurements and the failures of a study from its cells' exports and contexts, and by what."""

import gc
from pathlib import Path
from typing import Any

from vcsbench.evidence.calls import read_calls
from vcsbench.evidence.frames import write_frame
from vcsbench.evidence.measurements import collect, failures, fixed_costs, measurements, read_grid
from vcsbench.run.provenance import provenance
from vcsbench.run.rulelog import logged
from vcsbench.wholefile import write_json

snakemake: Any

# A million objects are kept, and hardly any is garbage: to look for some takes a third of the reading.
gc.disable()

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
    write_frame(fixed_costs(collected), snakemake.output.fixed_cost)
    # All of the configuration, which no rule depends on as a whole: it is said, and computed with nowhere.
    said = provenance(Path.cwd(), snakemake.config)
    write_json(snakemake.output.provenance, said)

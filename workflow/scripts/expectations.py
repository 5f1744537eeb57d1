"""Write the verdicts on a user's expectations of a study."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from vcsbench.compare.columns import OF_EXPECTATIONS
from vcsbench.run.rulelog import logged
from vcsbench.wholefile import write_text

snakemake: Any


def main() -> None:
    """Read, compare with the baselines that are named, evaluate, write."""
    from vcsbench.compare import against
    from vcsbench.compare.decisions import Limits
    from vcsbench.compare.expectations import expectation_verdicts
    from vcsbench.compare.findings import basis_of
    from vcsbench.evidence.frames import write_frame
    from vcsbench.evidence.measurements import read_grid, read_measurements

    given, params, study = snakemake.input, snakemake.params, snakemake.wildcards.study
    axes, block = params.axes, params.block
    measured = read_measurements(given.measurements)
    grid = read_grid(given.grid)[1]
    basis = basis_of(measured, axes, grid, block, Limits(**params.limits))
    if params.baselines:
        now = against.side_now(study, Path("results"))
        sides = {name: against.side_saved(name, study) for name in params.baselines}
        saved = {name: against.cells_of_both(side, now, axes) for name, side in sides.items()}
        basis = replace(basis, saved=saved)
    rows = expectation_verdicts(params.expectations, axes, measured, basis)
    write_frame(rows, snakemake.output[0])


with logged(snakemake.log[0]):
    if snakemake.params.expectations:
        main()
    else:
        # Mostly there are none, and what judges them takes longer to import than all that is left to do.
        write_text(snakemake.output[0], ",".join(OF_EXPECTATIONS) + "\n")

"""Write the verdicts on a user's expectations of a study."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from vcsbench.compare import against
from vcsbench.compare.expectations import judged
from vcsbench.compare.findings import basis_of
from vcsbench.evidence.frames import write_frame
from vcsbench.evidence.measurements import read_grid, read_measurements
from vcsbench.run.rulelog import logged

snakemake: Any


def main() -> None:
    """Read, compare with the baselines that are named, judge, write."""
    given, params, study = snakemake.input, snakemake.params, snakemake.wildcards.study
    axes = list(params.axes)
    measured = read_measurements(given.measurements)
    basis = basis_of(measured, axes, read_grid(given.grid)[1], None)
    if params.baselines:
        now = against.side_now(study, Path("results"))
        saved = {name: against.side_saved(name, study) for name in params.baselines}
        basis = replace(
            basis, saved={name: against.pairs(side, now, axes) for name, side in saved.items()}
        )
    write_frame(judged(params.expectations, axes, measured, basis), snakemake.output[0])


with logged(snakemake.log[0]):
    main()

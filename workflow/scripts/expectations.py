"""Write the verdicts on a user's expectations of a study."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from vcsbench.files import write_text
from vcsbench.run.job import job_log
from vcsbench.statistics.contract import OF_EXPECTATIONS

snakemake: Any


def main() -> None:
    """Read, compare with the baselines that are named, evaluate, write."""
    from vcsbench.evidence.measurements import read_grid, read_measurements, write_frame
    from vcsbench.statistics import baseline_comparison
    from vcsbench.statistics.contract import Limits
    from vcsbench.statistics.findings import context_of, evaluate_expectations

    given, params, study = snakemake.input, snakemake.params, snakemake.wildcards.study
    axes, block = params.axes, params.block
    measured = read_measurements(given.measurements)
    grid = read_grid(given.grid)[1]
    basis = context_of(measured, axes, grid, block, Limits(**params.limits))
    if params.baselines:
        now = baseline_comparison.load_current(study, Path("results"))
        sides = {name: baseline_comparison.load_baseline(name, study) for name in params.baselines}
        saved = {
            name: baseline_comparison.pair_cells(side, now, axes) for name, side in sides.items()
        }
        basis = replace(basis, baselines=saved)
    rows = evaluate_expectations(params.expectations, axes, measured, basis)
    write_frame(rows, snakemake.output[0])


with job_log(snakemake.log[0]):
    if snakemake.params.expectations:
        main()
    else:
        # Mostly there are none, and what judges them takes longer to import than all that is left to do.
        write_text(snakemake.output[0], ",".join(OF_EXPECTATIONS) + "\n")

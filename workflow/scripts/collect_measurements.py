"""Write the measurements of a study from the exports and contexts of its cells."""

import os
from typing import Any

from vcsbench.cell_rounds import CellRound
from vcsbench.errors import UserError
from vcsbench.evidence.collection import collect
from vcsbench.evidence.measurements import read_grid, write_frame
from vcsbench.evidence.run_columns import read_traces
from vcsbench.plan.result_state import is_readable, is_up_to_date
from vcsbench.run.job import job_log

snakemake: Any


def write_measurements() -> None:
    """Write the measurements, failures and fixed cost of a study. `snakemake` is the job of this rule."""
    inputs, params, output = snakemake.input, snakemake.params, snakemake.output
    axes, grid = read_grid(inputs.grid)
    # An export is the result file of a cell-round (one round of a cell). If the nodes of a cluster made the
    # exports, they are no inputs of this rule: `inputs.exports` is empty, and `of_nodes` lists them.
    exports = params.of_nodes or inputs.exports
    # A job that failed has no export: with --keep-going, its cell-round is a failure here.
    results = [CellRound.parse(path) for path in exports if os.path.exists(path)]
    for result in results:
        # A recipe is everything that a measurement depends on. `digests` has its digest by cell.
        # Snakemake keeps a result of another recipe if it has no record of the params that made it.
        is_other_recipe = not is_up_to_date(result, params.digests.get(result.cell, ""))
        # An unreadable result is no error here. collect() lists a damaged context as a failure, and raises
        # UserError for an export that is not JSON.
        if is_other_recipe and is_readable(result):
            raise UserError(
                f"{result.export}: this was measured with other settings, and Snakemake has lost its record "
                f"of them. Run again with `--forcerun cell`, or delete it."
            )
    # A study without the key `trace_syscalls` traces no system calls.
    traces = None
    if params.traced:
        traces = read_traces(params.traces_of_nodes or inputs.traces, params.traced)
    collected = collect(
        snakemake.wildcards.study,
        axes,
        grid=grid,
        rounds=params.rounds,
        results=results,
        thresholds=params.thresholds,
        traces=traces,
    )
    write_frame(collected.measurements, output.measurements)
    write_frame(collected.failures, output.failures)
    write_frame(collected.fixed_cost, output.fixed_cost)


with job_log(snakemake.log[0]):
    write_measurements()

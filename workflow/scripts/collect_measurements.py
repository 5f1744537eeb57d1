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
    """Collect the results of a study, and write measurements, failures and fixed cost."""
    inputs, params, output = snakemake.input, snakemake.params, snakemake.output
    axes, grid = read_grid(inputs.grid)
    # On a cluster, the nodes of a run made the files, which are no inputs of this rule.
    exports = params.of_nodes or inputs.exports
    # A job that failed has no export: with --keep-going, its cell-round is a failure here.
    results = [CellRound.parse(path) for path in exports if os.path.exists(path)]
    for result in results:
        # Snakemake keeps a result of another recipe if it has no record of the params that made it.
        is_other_recipe = not is_up_to_date(result, params.digests.get(result.cell, ""))
        # An unreadable result is a failure: collect() has its reason.
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

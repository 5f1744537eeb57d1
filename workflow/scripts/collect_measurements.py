"""Write the measurements of a study from the exports and contexts of its cells."""

import os
from typing import Any

from vcsbench.errors import UserError
from vcsbench.evidence.collection import collect
from vcsbench.evidence.measurements import read_grid, write_frame
from vcsbench.evidence.run_columns import read_traces
from vcsbench.plan.result_state import is_readable, is_up_to_date
from vcsbench.result_paths import CellRound
from vcsbench.run.job import job_log

snakemake: Any


def write_measurements() -> None:
    """Write three CSV files of a study: its measurements, its failures, and its fixed cost.

    The failures are the rounds whose files give no result.
    """
    inputs, params, output = snakemake.input, snakemake.params, snakemake.output
    axes, grid = read_grid(inputs.grid)
    # On a cluster, nodes make the exports. If these were inputs, Snakemake would measure on this machine. So
    # the param `of_nodes` lists them there. On one machine, the param is empty.
    export_paths = params.of_nodes or inputs.exports
    # Nodes may have failed to make some of the exports.
    results = [CellRound.parse(path) for path in export_paths if os.path.exists(path)]
    for result in results:
        check_recipe(result, params.digests.get(result.cell, ""))
    # `traced` has the cells whose system calls are counted. On a cluster, nodes make the traces, too.
    traces = None
    if params.traced:
        traces = read_traces(params.traces_of_nodes or inputs.traces, params.traced)
    collected = collect(
        snakemake.wildcards.study,
        axes,
        grid=grid,
        rounds=params.rounds,
        results=results,
        traces=traces,
    )
    write_frame(collected.measurements, output.measurements)
    write_frame(collected.failures, output.failures)
    write_frame(collected.fixed_cost, output.fixed_cost)


def check_recipe(result: CellRound, digest: str) -> None:
    """Raise UserError if a result was not measured by the recipe with this digest.

    If the recipe changes, Snakemake measures again. But if Snakemake has lost its record of the earlier
    recipe, it notices no change, and keeps the result.
    """
    # collect() lists an unreadable result as a failure, or raises the error about it.
    if not is_up_to_date(result, digest) and is_readable(result):
        raise UserError(
            f"{result.export}: this was measured with other settings, and Snakemake has lost its record "
            f"of them. Run again with `--forcerun cell`, or delete it."
        )


with job_log(snakemake.log[0]):
    write_measurements()

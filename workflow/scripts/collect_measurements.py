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


def check_recipes(results: list[CellRound], digests: dict[str, str]) -> None:
    """Raise a UserError for a result of another recipe that has no record of Snakemake."""
    for result in results:
        if not is_up_to_date(result, digests.get(result.cell, "")) and is_readable(result):
            raise UserError(
                f"{result.export}: this was measured with other settings, and Snakemake has lost its record "
                f"of them. Run again with `--forcerun cell`, or delete it."
            )


def write_measurements() -> None:
    given, params, output = snakemake.input, snakemake.params, snakemake.output
    axes, grid = read_grid(given.grid)
    exports = [path for path in (params.of_nodes or given.exports) if os.path.exists(path)]
    results = [CellRound.parse(path) for path in exports]
    check_recipes(results, params.digests)
    traces = None
    if params.traced:
        traces = read_traces(params.traces_of_nodes or given.traces, params.traced)
    collected = collect(
        snakemake.wildcards.study, axes, grid, params.rounds, results, params.thresholds, traces
    )
    write_frame(collected.measurements, output.measurements)
    write_frame(collected.failures, output.failures)
    write_frame(collected.fixed_cost, output.fixed_cost)


with job_log(snakemake.log[0]):
    write_measurements()

"""Write the measurements and the failures of a study from its cells' exports and contexts."""

from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.evidence.measurements import collect, read_grid, write_frame
from vcsbench.evidence.run_columns import read_calls
from vcsbench.files import write_json
from vcsbench.plan.result_state import is_intact, is_up_to_date
from vcsbench.run.job import job_log
from vcsbench.run.provenance import provenance

snakemake: Any


def check_recipes(exports: list[str], digests: dict[str, str]) -> None:
    """Raise a UserError for a result of another recipe, of which Snakemake lost its record."""
    for path in exports:
        cell = str(Path(path).parent).split("/", 3)[3]
        if not is_up_to_date(path, digests.get(cell, "")) and is_intact(path):
            raise UserError(
                f"{path}: this was measured with other settings, and Snakemake has lost its record of them. "
                f"Run again with `--forcerun cell`, or delete it."
            )


with job_log(snakemake.log[0]):
    given, params, output = snakemake.input, snakemake.params, snakemake.output
    axes, grid = read_grid(given.grid)
    exports = [path for path in (params.of_nodes or given.exports) if Path(path).exists()]
    check_recipes(exports, params.digests)
    calls = None
    if params.counted:
        calls = read_calls(params.calls_of_nodes or given.calls, params.counted)
    collected = collect(axes, grid, params.rounds, exports, params.logs, params.thresholds, calls)
    write_frame(collected.measurements, output.measurements)
    write_frame(collected.failures, output.failures)
    write_frame(collected.fixed_cost, output.fixed_cost)
    # No rule depends on the configuration as a whole, so it is no param.
    write_json(output.provenance, provenance(Path.cwd(), snakemake.config))

"""Write the measurements and the failures of a study from its cells' exports and contexts, and by what."""

from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.evidence.measurements import (
    collect,
    failures,
    fixed_costs,
    measurements,
    read_grid,
    write_frame,
)
from vcsbench.evidence.run_columns import read_calls
from vcsbench.files import write_json
from vcsbench.plan.result_state import recorded_recipe
from vcsbench.run.job import job_log
from vcsbench.run.provenance import provenance

snakemake: Any


def check_recipes(exports: list[str], digests: dict[str, str]) -> None:
    """Raise a UserError for a result of another recipe, of which Snakemake lost its record."""
    for path in exports:
        measured = recorded_recipe(path)
        if measured and digests.get(measured.cell) != measured.digest:
            raise UserError(
                f"{path}: this was measured with other settings, and Snakemake has lost its record of them. "
                f"Run again with `--forcerun cell`, or delete it."
            )


with job_log(snakemake.log[0]):
    axes, grid = read_grid(snakemake.input.grid)
    params = snakemake.params
    exports = [path for path in (params.of_nodes or snakemake.input.exports) if Path(path).exists()]
    check_recipes(exports, params.digests)
    collected = collect(
        axes,
        grid,
        params.rounds,
        exports,
        params.logs,
        params.thresholds,
        read_calls(params.calls_of_nodes or snakemake.input.calls, params.counted)
        if params.counted
        else None,
    )
    write_frame(measurements(collected), snakemake.output.measurements)
    write_frame(failures(collected), snakemake.output.failures)
    write_frame(fixed_costs(collected), snakemake.output.fixed_cost)
    # All of the configuration, which no rule depends on as a whole: it is said, and computed with nowhere.
    said = provenance(Path.cwd(), snakemake.config)
    write_json(snakemake.output.provenance, said)

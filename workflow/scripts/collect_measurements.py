"""Write the grid of a study, the work of a node, and measurements from exports and contexts of cells."""

import csv
import io
from pathlib import Path
from typing import Any

import pandas as pd

from vcsbench.errors import UserError
from vcsbench.evidence.measurements import collect, read_grid, write_frame
from vcsbench.evidence.run_columns import read_traces
from vcsbench.files import context_path, write_json, write_record, write_text
from vcsbench.plan.result_state import is_intact, is_up_to_date, read_context
from vcsbench.records import Context
from vcsbench.run.job import run_rule
from vcsbench.run.provenance import provenance

snakemake: Any


def check_recipes(exports: list[str], digests: dict[str, str]) -> None:
    """Raise a UserError for a result of another recipe that has no record of Snakemake."""
    for path in exports:
        cell = str(Path(path).parent).split("/", 3)[3]
        if not is_up_to_date(path, digests.get(cell, "")) and is_intact(path):
            raise UserError(
                f"{path}: this was measured with other settings, and Snakemake has lost its record of them. "
                f"Run again with `--forcerun cell`, or delete it."
            )


def of_builds(frame: pd.DataFrame, exports: list[str]) -> list[Context]:
    """Return a context for each build and its programs; [] for a study without builds."""
    if "build" not in frame or not frame["build"].any():
        return []
    first = frame.drop_duplicates(["build", "client", "server"])
    wanted = {f"{cell}/round{number}.json" for cell, number in first[["cell", "round"]].to_numpy()}
    paths = (path for path in exports if path.split("/", 3)[3] in wanted)
    return [read_context(context_path(path)) for path in paths]


def write_grid() -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(snakemake.params.cells)
    write_text(snakemake.output[0], text.getvalue())


def write_node_work() -> None:
    write_json(snakemake.output[0], snakemake.params.work)


def write_measurements() -> None:
    given, params, output = snakemake.input, snakemake.params, snakemake.output
    axes, grid = read_grid(given.grid)
    exports = [path for path in (params.of_nodes or given.exports) if Path(path).exists()]
    check_recipes(exports, params.digests)
    traces = None
    if params.traced:
        traces = read_traces(params.traces_of_nodes or given.traces, params.traced)
    collected = collect(axes, grid, params.rounds, exports, params.logs, params.thresholds, traces)
    write_frame(collected.measurements, output.measurements)
    write_frame(collected.failures, output.failures)
    write_frame(collected.fixed_cost, output.fixed_cost)
    # No rule depends on the configuration as a whole, so it is no param.
    builds = of_builds(collected.measurements, exports)
    write_record(output.provenance, provenance(Path.cwd(), snakemake.config, builds))


run_rule(snakemake, grid=write_grid, node_work=write_node_work, measurements=write_measurements)

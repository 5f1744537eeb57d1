"""Write the tables of a study, from its measurements or from its published numbers; with its measurements,
a table against each baseline."""

import math
from pathlib import Path
from typing import Any

from vcsbench.compare import against, baselines
from vcsbench.compare.decisions import Limits
from vcsbench.compare.published import read_published
from vcsbench.compare.scatter import limits_here, of_runs
from vcsbench.compare.tables import make_tables
from vcsbench.evidence.frames import write_frame
from vcsbench.evidence.measurements import read_measurements
from vcsbench.run.rulelog import logged
from vcsbench.wholefile import write_json

snakemake: Any


def main() -> None:
    """Read the numbers, make the tables, write them."""
    params, folder = snakemake.params, Path(snakemake.output[0])
    folder.mkdir(parents=True)
    limits, scatter = Limits(**params.limits), math.nan
    if params.published:
        numbers = list(snakemake.input.numbers)
        frame = read_published(numbers, list(params.order), params.by, **params.said)
    else:
        frame = read_measurements(snakemake.input.numbers)
        scatter = of_runs(frame, params.block)
    tables = make_tables(frame, params.definitions, params.order, params.block, limits, scatter)
    for name, table in tables.items():
        write_frame(table, folder / f"{name}.csv")
    for name in [] if params.published else params.baselines:
        compare(folder, name, limits)


def compare(folder: Path, baseline: str, limits: Limits) -> None:
    """Write the table against a baseline, and notes for its reader."""
    params, study = snakemake.params, snakemake.wildcards.study
    now = against.side_now(study, Path("results"))
    before = against.side_saved(baseline, study)
    found = against.cells_of_both(before, now, list(params.order))
    machine_limits = limits_here(limits, now.frame, params.block)
    table = against.make_table(baseline, found, params.order, machine_limits)
    name = baselines.table_name(baseline)
    write_json(folder / f"{name}.json", against.notes(baseline, before, now, found))
    write_frame(table, folder / f"{name}.csv")


with logged(snakemake.log[0]):
    main()

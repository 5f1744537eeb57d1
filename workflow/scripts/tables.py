"""Write the tables of a study, from its measurements or from its published numbers."""

import math
from typing import Any

from vcsbench.compare.decisions import Limits
from vcsbench.compare.published import read_published
from vcsbench.compare.scatter import of_runs
from vcsbench.compare.tables import make_tables
from vcsbench.evidence.frames import write_frame
from vcsbench.evidence.measurements import read_measurements
from vcsbench.report.markdown import to_markdown
from vcsbench.run.rulelog import logged
from vcsbench.wholefile import write_sealed

snakemake: Any


def main() -> None:
    """Read, compute, write both files of each."""
    given, params, output = snakemake.input, snakemake.params, snakemake.output
    definitions, order, limits = params.definitions, params.order, Limits(**params.limits)
    scatter = math.nan
    if params.published:
        frame = read_published(given.numbers, list(order), params.by, **params.said)
    else:
        frame = read_measurements(given.numbers[0])
        scatter = of_runs(frame, params.block)
    tables = make_tables(frame, definitions, order, params.block, limits, scatter)
    files = zip(tables.items(), output.csv, output.markdown, strict=True)
    for (name, table), csv, markdown in files:
        write_frame(table, csv)
        records = table.to_dict("records")
        text = to_markdown(name, definitions[name], records, order, params.caveats)
        write_sealed(markdown, text)


with logged(snakemake.log[0]):
    main()

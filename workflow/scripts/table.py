"""Write one table of a study, from its measurements or from its published numbers."""

from typing import Any

from vcsbench.compare.decisions import Limits
from vcsbench.compare.published import read_published
from vcsbench.compare.tables import make_table
from vcsbench.evidence.frames import write_frame
from vcsbench.evidence.measurements import read_measurements
from vcsbench.report.markdown import to_markdown
from vcsbench.run.rulelog import logged
from vcsbench.wholefile import write_sealed

snakemake: Any


def main() -> None:
    """Read, compute, write both files."""
    given, params, name = snakemake.input, snakemake.params, snakemake.wildcards.table
    definition, order = params.definition, params.order
    if given.get("published"):
        frame = read_published(given.published, list(order), params.by, **params.said)
    else:
        frame = read_measurements(given.measurements)
    limits = Limits(**params.limits)
    table = make_table(frame, name, definition, order, params.block, limits)
    write_frame(table, snakemake.output.csv)
    records = table.to_dict("records")
    text = to_markdown(name, definition, records, order, params.caveats)
    write_sealed(snakemake.output.markdown, text)


with logged(snakemake.log[0]):
    main()

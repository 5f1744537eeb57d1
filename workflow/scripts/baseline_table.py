"""Write the table of what is measured now against a saved baseline, and what its reader must know."""

from pathlib import Path
from typing import Any

from vcsbench.compare import against, baselines
from vcsbench.compare.decisions import Limits
from vcsbench.compare.scatter import limits_here
from vcsbench.evidence.frames import write_frame
from vcsbench.report.markdown import to_markdown
from vcsbench.run.rulelog import logged
from vcsbench.wholefile import write_json, write_sealed

snakemake: Any


def main() -> None:
    """Read both sides, compare, write."""
    params, wildcards = snakemake.params, snakemake.wildcards
    baseline, study = wildcards.baseline, wildcards.study
    now = against.side_now(study, Path("results"))
    before = against.side_saved(baseline, study)
    order = params.order
    found = against.cells_of_both(before, now, list(order))
    limits = limits_here(Limits(**params.limits), now.frame, params.block)
    table = against.make_table(baseline, found, order, limits)
    write_frame(table, snakemake.output.csv)
    notes = against.notes(baseline, before, now, found)
    write_json(snakemake.output.notes, notes)
    name, definition = baselines.table_name(baseline), against.definition(params.tables, baseline)
    records = table.to_dict("records")
    text = to_markdown(name, definition, records, order, params.caveats)
    text += "\n" + "\n\n".join(notes) + "\n"
    write_sealed(snakemake.output.markdown, text)


with logged(snakemake.log[0]):
    main()

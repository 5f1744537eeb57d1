"""Decide which blocks of a study get rounds in a pass: where they answer most, as long as there is time."""

import io
from typing import Any

from vcsbench.compare import budget
from vcsbench.compare.answers import Terms, tables_of
from vcsbench.compare.asked import asked
from vcsbench.compare.scatter import of_runs
from vcsbench.evidence.measurements import collect, measurements, read_grid, read_measurements
from vcsbench.evidence.spent import spent
from vcsbench.plan.passes import set_up_s
from vcsbench.run.rulelog import logged
from vcsbench.wholefile import write_json

snakemake: Any


def main() -> None:
    """Read what the passes before this one measured, decide, write."""
    given, params = snakemake.input, snakemake.params
    axes, grid = read_grid(given.grid)
    collected = collect(axes, grid, params.rounds, given.exports, params.logs, params.thresholds)
    text = io.StringIO(measurements(collected).to_csv(index=False))
    frame = read_measurements(text)
    terms = Terms.of(params.terms)
    terms = terms.on_machine(of_runs(frame, terms.block))
    costs = spent(frame, terms.block, given.prepared)
    left = budget.left_s(60 * params.minutes, costs, len(given.exports), set_up_s())
    steering = asked(params.findings, frame, terms, params.by)
    more, why = budget.decided(tables_of(frame, terms), terms, costs, left, steering)
    decision = {
        "gives": bool(more),
        "why": why,
        "rounds": {block: rounds + more[block] for block, rounds in params.blocks.items()},
        "of": params.of,
        "minutes": params.minutes,
        "spent_s": round(costs.total_s, 1),
    }
    write_json(snakemake.output[0], decision)


with logged(snakemake.log[0]):
    main()

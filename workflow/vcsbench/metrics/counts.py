"""Several counts side by side, in a table that says which (its `each`)."""

from vcsbench.metrics.metric import Metric

# What tells which, as an axis does.
COUNT = "count"

METRIC = Metric(
    name="counts",
    title="System calls",
    unit="calls or bytes",
    reading="System calls and their bytes, a column for each, of client and server together; counted once "
    "for each cell, in a run of its own under strace.",
    quantity="system calls",
    needs=("counts",),
    exact=True,
    once=True,
)

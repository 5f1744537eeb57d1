"""How often the system is called, for whatever, as strace counts it."""

from vcsbench.metrics.metric import COUNTED, Metric, less_often

METRIC = Metric(
    name="all_calls",
    title="All system calls",
    unit="calls",
    reading=f"How often the system was called, for whatever. {COUNTED}",
    quantity="system calls",
    needs=("all_calls",),
    exact=True,
    once=True,
    fewer="calls the system {} less often",
    words=less_often("calls the system"),
)

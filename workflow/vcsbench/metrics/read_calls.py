"""How often client and server called the system to read."""

from vcsbench.metrics.metric import Metric, less_often

METRIC = Metric(
    name="read_calls",
    title="Calls for a read",
    unit="calls",
    reading="How often client and server together called the system to read (read, pread, ...), the median "
    "of the rounds. The kernel counts these for each process; what a device is asked for it counts for "
    "everybody together, so that is no metric.",
    quantity="calls for a read",
    needs=("read_calls",),
    exact=True,
    fewer="calls {} less often for a read",
    words=less_often("reads"),
)

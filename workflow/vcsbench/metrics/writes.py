"""How often the system is called to write."""

from vcsbench.metrics.metric import COUNTED, Metric, less_often

METRIC = Metric(
    name="writes",
    title="Writes",
    unit="writes",
    reading="How often the system was called to write (write, pwrite, writev and the like). "
    f"{COUNTED}",
    quantity="writes",
    needs=("writes",),
    exact=True,
    once=True,
    fewer="writes {} less often",
    words=less_often("writes"),
)

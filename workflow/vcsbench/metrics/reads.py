"""How often the system is called to read, as strace counts it."""

from vcsbench.metrics.metric import COUNTED, Metric, less_often

METRIC = Metric(
    name="reads",
    title="Reads",
    unit="reads",
    reading="How often the system was called to read (read, pread, readv and the like), from files, "
    "pipes and, where a program reads these so, sockets. "
    f"{COUNTED}",
    quantity="reads",
    needs=("reads",),
    exact=True,
    once=True,
    fewer="reads {} less often",
    words=less_often("reads"),
)

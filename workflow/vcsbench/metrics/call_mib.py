"""What client and server read by system calls, from memory or from a device."""

from vcsbench.metrics.metric import READS, Metric

METRIC = Metric(
    name="call_mib",
    title="Read by system calls",
    unit="MiB",
    reading="MiB that client and server together read by system calls (read, pread, ...), "
    "cached or not, what is read twice counted twice, and from sockets where a program reads these so; the "
    "median of the rounds.",
    quantity="bytes read",
    needs=("call_bytes",),
    value=lambda part: part["call_bytes"] / 2**20,
    exact=True,
    fewer="reads {} fewer bytes by system calls",
    words=READS,
)

"""The processor time of a client in the kernel."""

from vcsbench.metrics.metric import Metric, Words

METRIC = Metric(
    name="system_s",
    title="System time",
    unit="s",
    reading="Seconds of processor time in the kernel on the command's behalf, the median of the runs.",
    quantity="system time",
    needs=("system_s",),
    words=Words("takes less", "takes more", "takes least", "takes most", "as little as", ""),
)

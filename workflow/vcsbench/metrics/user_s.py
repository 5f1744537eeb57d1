"""The processor time of a client in its own code."""

from vcsbench.metrics.metric import Metric, Words

METRIC = Metric(
    name="user_s",
    title="User time",
    unit="s",
    reading="Seconds of processor time in the command's own code, the median of the runs.",
    quantity="user time",
    needs=("user_s",),
    words=Words("takes less", "takes more", "takes least", "takes most", "as little as", ""),
)

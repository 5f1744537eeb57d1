"""The time from the start of a command to its end."""

from vcsbench.metrics.metric import Metric, Words

METRIC = Metric(
    name="elapsed_s",
    title="Elapsed time",
    unit="s",
    reading="Elapsed time in seconds, the median of the rounds.",
    quantity="elapsed",
    needs=("elapsed_s",),
    words=Words("faster", "slower", "fastest", "slowest", "as fast as"),
)

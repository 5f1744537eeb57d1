"""How long the slowest of several clients took that run at once."""

from vcsbench.metrics.metric import Metric, Words

METRIC = Metric(
    name="slowest_client_s",
    title="Slowest client",
    unit="s",
    reading="Seconds that the slowest of the clients took, from the moment in which it went to its end; the "
    "median of the rounds.",
    quantity="time of the slowest client",
    needs=("slowest_client_s",),
    words=Words("faster", "slower", "fastest", "slowest", "as fast as"),
)

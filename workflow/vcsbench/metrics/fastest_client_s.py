"""How long the fastest of several clients took that run at once."""

from vcsbench.metrics.metric import Metric, Words

METRIC = Metric(
    name="fastest_client_s",
    title="Fastest client",
    unit="s",
    reading="Seconds that the fastest of the clients took, from the moment in which it went to its end; the "
    "median of the rounds.",
    quantity="time of the fastest client",
    needs=("fastest_client_s",),
    words=Words("faster", "slower", "fastest", "slowest", "as fast as"),
)

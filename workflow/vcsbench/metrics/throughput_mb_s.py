"""How much of a tree reaches its clients in a second."""

from vcsbench.metrics.metric import HIGH, Metric

METRIC = Metric(
    name="throughput_mb_s",
    title="Throughput",
    unit="MiB/s",
    reading="MiB of the exported tree's files in a second, of all clients together, the median of the "
    "rounds; of several clients in the time from the moment in which they were let go to the end of the "
    "last one.",
    quantity="throughput",
    needs=("tree_bytes", "carried_s"),
    value=lambda part: part["tree_bytes"] / 2**20 / part["carried_s"],
    better=HIGH,
)

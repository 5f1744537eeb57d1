"""How long it takes until what a command has written is on the device."""

from vcsbench.metrics.metric import Metric, Words

METRIC = Metric(
    name="on_device_s",
    title="Time until it is on the device",
    unit="s",
    reading="Seconds from the start of a run until what it had written was on the device: the elapsed time, "
    "and how long a sync of the file system took straight after.",
    quantity="time until on the device",
    needs=("elapsed_s", "sync_s"),
    words=Words("faster", "slower", "fastest", "slowest", "as fast as"),
    value=lambda part: part["elapsed_s"] + part["sync_s"],
)

"""What client and server read from devices: what no cache had."""

from vcsbench.metrics.metric import READS, Metric

METRIC = Metric(
    name="device_mib",
    title="Read from the device",
    unit="MiB",
    reading="MiB that client and server together read from devices, the median of the rounds; in 4 KiB "
    "pages and with what the kernel reads ahead, as it counts them for each process.",
    quantity="bytes from the device",
    needs=("device_bytes",),
    value=lambda part: part["device_bytes"] / 2**20,
    exact=True,
    fewer="reads {} fewer bytes from the device",
    words=READS,
)

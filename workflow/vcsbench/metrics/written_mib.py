"""What was written to the storage's device while a command ran."""

from vcsbench.metrics.metric import Metric, Words

METRIC = Metric(
    name="written_mib",
    title="Written to the device",
    unit="MiB",
    reading="MiB that were written to the storage's device while the command ran, by everybody, the median "
    "of the rounds. What is written later, as nothing waits for it, is not in it.",
    quantity="bytes written to the device",
    needs=("written_bytes",),
    value=lambda part: part["written_bytes"] / 2**20,
    exact=True,
    fewer="has {} fewer bytes written to the device",
    words=Words("writes less", "writes more", "writes least", "writes most", "as little as", ""),
)

"""What a working copy takes on its file system, as df tells."""

from vcsbench.metrics.metric import Metric, Words

METRIC = Metric(
    name="disk_usage_mib",
    title="Disk usage",
    unit="MiB",
    reading="MiB that the file system had taken more when the working copy was there and everything written, "
    "as df tells it: its own metadata included, shared blocks counted once.",
    quantity="disk usage",
    needs=("used_bytes",),
    value=lambda part: part["used_bytes"] / 2**20,
    exact=True,
    fewer="takes {} fewer bytes on its file system",
    words=Words("takes less", "takes more", "takes least", "takes most", "as little as", ""),
)

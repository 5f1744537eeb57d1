"""What files of a working copy share with each other on their file system."""

from vcsbench.metrics.metric import HIGH, Metric

METRIC = Metric(
    name="shared_mib",
    title="Shared blocks",
    unit="MiB",
    reading="MiB of blocks that several files of the working copy share, each counted once, by the extents "
    "of its files; empty where the file system does not say.",
    quantity="shared blocks",
    needs=("shared_bytes",),
    value=lambda part: part["shared_bytes"] / 2**20,
    better=HIGH,
    exact=True,
    fewer="shares {} fewer bytes",
)

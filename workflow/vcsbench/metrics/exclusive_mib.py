"""What files of a working copy have on their file system for themselves."""

from vcsbench.metrics.metric import Metric, Words

METRIC = Metric(
    name="exclusive_mib",
    title="Exclusive blocks",
    unit="MiB",
    reading="MiB of blocks that one file of the working copy has for itself, by the extents of its files; "
    "empty where the file system does not say.",
    quantity="exclusive blocks",
    needs=("exclusive_bytes",),
    value=lambda part: part["exclusive_bytes"] / 2**20,
    exact=True,
    fewer="has {} fewer bytes for itself",
    words=Words(
        "has less for itself", "has more for itself", "has least", "has most", "as little", ""
    ),
)

"""How often the storage's device was told to make what it was given last."""

from vcsbench.metrics.metric import Metric, less_often

METRIC = Metric(
    name="flushes",
    title="Flushes of the device",
    unit="flushes",
    reading="How often the storage's device was told to flush its cache while the command ran, by everybody, "
    "the median of the rounds. A commit waits for its flushes.",
    quantity="flushes",
    needs=("flushes",),
    exact=True,
    fewer="waits for {} fewer flushes",
    words=less_often("flushes", "as seldom as"),
)

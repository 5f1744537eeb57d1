"""How many bytes the calls for a write write."""

from vcsbench.metrics.metric import COUNTED, Metric, Words

METRIC = Metric(
    name="bytes_written",
    title="Bytes written",
    unit="bytes",
    reading=f"Bytes that the calls of write, pwrite, writev and the like wrote. {COUNTED}",
    quantity="bytes written",
    needs=("bytes_written",),
    exact=True,
    once=True,
    fewer="writes {} fewer bytes",
    words=Words("writes less", "writes more", "writes least", "writes most", "as few", ""),
)

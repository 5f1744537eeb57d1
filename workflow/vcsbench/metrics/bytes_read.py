"""How many bytes the calls for a read return, as strace counts them."""

from vcsbench.metrics.metric import COUNTED, Metric, Words

METRIC = Metric(
    name="bytes_read",
    title="Bytes read",
    unit="bytes",
    reading=f"Bytes that the calls of read, pread, readv and the like returned. {COUNTED}",
    quantity="bytes read",
    needs=("bytes_read",),
    exact=True,
    once=True,
    fewer="reads {} fewer bytes",
    words=Words("reads less", "reads more", "reads least", "reads most", "as few", ""),
)

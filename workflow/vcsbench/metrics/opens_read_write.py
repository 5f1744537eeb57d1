"""How often files are opened to be written."""

from vcsbench.metrics.metric import COUNTED, Metric, less_often

METRIC = Metric(
    name="opens_read_write",
    title="Opens for writing",
    unit="opens",
    reading="How often a file was opened to be written, or to be read and written; of those that "
    "could be opened. "
    f"{COUNTED}",
    quantity="opens for writing",
    needs=("opens_read_write",),
    exact=True,
    once=True,
    fewer="opens {} fewer files to write them",
    words=less_often("opens"),
)

"""How often files are opened to be read only."""

from vcsbench.metrics.metric import COUNTED, Metric, less_often

METRIC = Metric(
    name="opens_read_only",
    title="Opens for reading",
    unit="opens",
    reading="How often a file was opened to be read only; of those that could be opened. "
    f"{COUNTED}",
    quantity="opens for reading",
    needs=("opens_read_only",),
    exact=True,
    once=True,
    fewer="opens {} fewer files to read them",
    words=less_often("opens"),
)

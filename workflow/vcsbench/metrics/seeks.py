"""How often a place in a file is sought."""

from vcsbench.metrics.metric import COUNTED, Metric, less_often

METRIC = Metric(
    name="seeks",
    title="Seeks",
    unit="seeks",
    reading=f"How often a place in a file was sought (lseek). {COUNTED}",
    quantity="seeks",
    needs=("seeks",),
    exact=True,
    once=True,
    fewer="seeks {} less often",
    words=less_often("seeks"),
)

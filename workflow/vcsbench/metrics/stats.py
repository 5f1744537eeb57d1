"""How often the state of a file is asked."""

from vcsbench.metrics.metric import COUNTED, Metric, less_often

METRIC = Metric(
    name="stats",
    title="States asked",
    unit="stats",
    reading=f"How often the state of a file was asked (stat, fstat, statx). {COUNTED}",
    quantity="states asked",
    needs=("stats",),
    exact=True,
    once=True,
    fewer="asks {} less often for states",
    words=less_often("asks for states"),
)

"""How often a file or folder is renamed."""

from vcsbench.metrics.metric import COUNTED, Metric, less_often

METRIC = Metric(
    name="renames",
    title="Renames",
    unit="renames",
    reading=f"How often a file or folder was renamed. {COUNTED}",
    quantity="renames",
    needs=("renames",),
    exact=True,
    once=True,
    fewer="renames {} less often",
    words=less_often("renames"),
)

"""What is told of a run: a file per metric, which is found by its name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from vcsbench.metrics.metric import Metric


def names() -> list[str]:
    """The names of all metrics."""
    here = Path(__file__).parent
    return sorted(
        path.stem for path in here.glob("*.py") if path.stem not in ("__init__", "metric")
    )


@cache
def metric_of(name: str) -> Metric:
    """A metric by its name, which names() has."""
    metric: Metric = import_module(f"{__name__}.{name}").METRIC
    return metric

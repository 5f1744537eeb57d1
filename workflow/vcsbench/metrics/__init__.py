"""What is told of a run: a file per metric, which is found by its name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from vcsbench.metrics.metric import Metric

# What is compared where nothing else is said.
DEFAULT = "elapsed_s"


@cache
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


def metric_in(definition: Mapping[str, Any]) -> Metric:
    """The metric of a table or a finding."""
    return metric_of(name_in(definition))


def name_in(definition: Mapping[str, Any]) -> str:
    """The name of a table's or a finding's metric, of which there may be no such: its own, that of what it
    compares, or the usual one."""
    compared = (definition.get("compare") or {}).get("metric")
    return str(compared or definition.get("metric") or definition.get("level") or DEFAULT)

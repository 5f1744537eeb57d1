"""Where else than here a cell-round is measured: a file per place, which is found by its name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

# Of a recipe, a round, thresholds, the checkout and a private folder: the export, and the context.
Measure = Callable[
    [dict[str, Any], int, dict[str, float], Path, Path], tuple[bytes, dict[str, Any]]
]


def measure_within(name: str) -> Measure:
    """How a cell-round is measured in a place by its name."""
    found: Measure = import_module(f"{__name__}.{name}").MEASURE
    return found

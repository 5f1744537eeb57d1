"""The axes of the grids: a file each, which is found by its name. An axis without one is a plain list."""

from __future__ import annotations

import functools  # not its cache by name: an axis is called that, too
from importlib import import_module
from pathlib import Path

from vcsbench.axes.axis import Axis

# Files in here that are no axis.
_OTHERS = ("__init__", "axis", "here", "values")


@functools.cache
def axis_of(name: str) -> Axis:
    """An axis by its name."""
    if name not in with_files():
        return Axis(name)
    axis: Axis = import_module(f"{__name__}.{name}").AXIS
    return axis


@functools.cache
def with_files() -> list[str]:
    """The names of the axes that have a file: these say what a cell is also where a study lacks them."""
    return sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in _OTHERS)

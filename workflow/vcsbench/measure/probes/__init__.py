"""What is asked of a cell once, after its runs, beside them: a file per probe, which is found by its name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vcsbench.measure.stage import Stage

# What the context says, by its keys; a UserError where a label turns out to be false.
Probe = Callable[["Stage"], dict[str, Any]]


def probe_of(name: str) -> Probe:
    """A probe by its name."""
    found: Probe = import_module(f"{__name__}.{name}").PROBE
    return found

"""The kinds of servers: a file each, which is found by its name."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from vcsbench.measure.servers.kind import Kind


@cache
def kind_of(name: str) -> Kind:
    """A kind of server by its name."""
    kind: Kind = import_module(f"{__name__}.{name}").KIND
    return kind

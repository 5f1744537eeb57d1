"""What a command did, read from what it printed or wrote: its fingerprint.

Cells are compared only where these are equal (vcsbench.evidence.same_work). A study's command says in its key
`work` which kind is its own: a file in here, which is found by its name.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from vcsbench.measure.work.kind import Kind


@cache
def kind_of(name: str) -> Kind:
    """A kind of work by its name."""
    kind: Kind = import_module(f"{__name__}.{name}").KIND
    return kind

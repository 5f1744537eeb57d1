"""What strategies build a tree from that are not given it as a folder: a file per kind of store, which is
found by its name."""

from __future__ import annotations

from importlib import import_module

from vcsbench.subjects.tree.stores.store import Store


def store_of(name: str) -> Store:
    """A kind of store by its name; "" is the folder itself."""
    found: type[Store] = import_module(f"{__name__}.{name}").STORE if name else Store
    return found()

"""Records (a dict per row), and what several parts of a report ask of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

Record = Mapping[Any, Any]
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def grouped_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """The items by a key; keys and items keep their order."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def distinct(items: Iterable[Key]) -> list[Key]:
    """The different ones, in the order of their first use."""
    return list(dict.fromkeys(items))


def values_of(row: Record, axes: Iterable[str]) -> tuple[Any, ...]:
    """A row's values of some axes, "" for one that it lacks."""
    return tuple(row.get(axis, "") for axis in axes)


def name_of(row: Record, axes: Iterable[str]) -> str:
    """The same as one label; those that do not apply are left out."""
    return " ".join(filter(None, values_of(row, axes)))


def varying(rows: Sequence[Record], axes: Iterable[str]) -> list[str]:
    """The axes that have several values among the rows."""
    return [axis for axis in axes if len({row.get(axis, "") for row in rows}) > 1]

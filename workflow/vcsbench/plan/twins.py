"""Twins: cells that are measured twice under two names. What the two differ by is noise.

A twin is its original's equal in all but the name: the path with `~2` after its last component. Both
stand in the grid, are measured in the same blocks, and stand in the measurements. Tables, findings and
advice are made of originals only (reduction.by_round); compare.noise learns from both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

SUFFIX = "~2"

Row = TypeVar("Row", bound=Mapping[str, Any])


def is_twin(path: str) -> bool:
    """Whether a cell's path is a twin's."""
    return path.endswith(SUFFIX)


def twin_of(path: str) -> str:
    """The path of an original's twin."""
    return path + SUFFIX


def original_of(path: str) -> str:
    """The path of a twin's original; an original's own."""
    return path.removesuffix(SUFFIX)


def originals(rows: Iterable[Row]) -> list[Row]:
    """Those of rows with a `cell` that are of no twin."""
    return [row for row in rows if not is_twin(row["cell"])]


def class_of(axes: Mapping[str, str], variance_group: Sequence[str]) -> tuple[str, ...]:
    """Return the class of a cell: its values of the `variance_group`, "" for an axis that it lacks."""
    return tuple(axes.get(axis, "") for axis in variance_group)


def chosen(
    cells: Mapping[str, Mapping[str, str]], variance_group: Sequence[str], per_class: int, seed: int
) -> frozenset[str]:
    """Of cells, by path with their axes, those that get a twin: so many of each class.

    They are those with the smallest digest of seed and path, so more cells never change which of
    the others get one, but where a new one takes its place.
    """
    classes: dict[tuple[str, ...], list[str]] = {}
    for path, axes in cells.items():
        classes.setdefault(class_of(axes, variance_group), []).append(path)
    return frozenset(
        path
        for members in classes.values()
        for path in sorted(members, key=lambda path: _draw(path, seed))[:per_class]
    )


def _draw(path: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/{path}".encode()).digest()

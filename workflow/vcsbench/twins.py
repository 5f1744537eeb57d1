"""Twins: cells that are measured twice under two names. What the two differ by is noise.

A twin is its original's equal in all but the name: the path with `~2` after its last component. Both
stand in the grid, are measured in the same blocks, and stand in the measurements. Tables, findings and
advice are made of originals only (reduction.by_round); the noise floor is made of both (noise.floors).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

SUFFIX = "~2"

# Cells that agree on these axes are of one class: their noise is taken to be alike.
CLASS_AXES = ("command", "cache", "ra")


class CellLike(Protocol):
    """What is asked of a cell here."""

    @property
    def path(self) -> str: ...
    @property
    def axes(self) -> dict[str, str]: ...
    @property
    def skip(self) -> str: ...


C = TypeVar("C", bound=CellLike)


def is_twin(path: str) -> bool:
    """Whether a cell's path is a twin's."""
    return path.endswith(SUFFIX)


def twin_of(path: str) -> str:
    """The path of an original's twin."""
    return path + SUFFIX


def original_of(path: str) -> str:
    """The path of a twin's original; an original's own."""
    return path.removesuffix(SUFFIX)


def class_of(axes: Mapping[str, str]) -> tuple[str, ...]:
    """The class of a cell: its values of CLASS_AXES, "" for an axis that it does not have."""
    return tuple(axes.get(axis, "") for axis in CLASS_AXES)


def chosen(cells: Sequence[C], per_class: int, seed: int) -> list[C]:
    """The originals that get a twin, in the order given: of each class so many, none that is skipped.

    They are those with the smallest digest of seed and path, so more cells never change which of
    the others get one, but where a new one takes its place.
    """
    classes: dict[tuple[str, ...], list[C]] = {}
    for cell in cells:
        if not cell.skip:
            classes.setdefault(class_of(cell.axes), []).append(cell)
    paths = {
        cell.path
        for members in classes.values()
        for cell in sorted(members, key=lambda cell: _draw(cell.path, seed))[:per_class]
    }
    return [cell for cell in cells if cell.path in paths]


def _draw(path: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/{path}".encode()).digest()

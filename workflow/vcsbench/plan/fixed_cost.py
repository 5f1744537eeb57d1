"""Choose the cells that measure fixed cost: the commands of the grid on an empty repository.

A command takes its fixed cost whatever the repository: process start, connection, handshake. Cells that
differ only in the repository and its preparation share one fixed-cost cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from vcsbench.config.configuration import EMPTY
from vcsbench.config.study import Study

REPOSITORY_AXIS = "repo"
CACHE_AXIS = "cache"
PACKING_AXIS, UNPACKED = "packing", "nopack"
FORMAT_AXIS, FORMATS = "format", ("f8", "f7")
# Fixed cost does not depend on these: how a repository is stored, and what is in memory.
NOT_FIXED = frozenset(
    [
        REPOSITORY_AXIS,
        CACHE_AXIS,
        "format",
        "packing",
        "storage",
        "filesystem",
        "reflink",
        "pristines",
    ]
)
# From the warmest to the coldest.
WARMTH = ("hot-svn", "hot", "hot-os", "cold")

Axes = Mapping[str, str]


def is_fixed_cost(axes: Axes) -> bool:
    """Return True for the axis values of a cell on the empty repository."""
    return axes.get(REPOSITORY_AXIS) == EMPTY


def key_of(axes: Axes) -> tuple[tuple[str, str], ...]:
    """Return the axis values that fixed cost depends on. Equal keys share one fixed-cost cell."""
    return tuple((axis, value) for axis, value in axes.items() if axis not in NOT_FIXED)


def fixed_cost_points(
    study: Study,
    cells: Iterable[Axes],
    caches: Sequence[str],
    why_skip: Callable[[Axes], str],
) -> list[dict[str, str]]:
    """Return the axis values of the fixed-cost cells for the measured cells of a study.

    `caches` are the values of the study's axis `cache`. A key whose command does not work on an empty
    repository, or that this machine cannot measure there, has no cell.
    """
    chosen: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for axes in cells:
        command = study.command(axes)
        if not axes.get(REPOSITORY_AXIS) or not command.fixed_cost:
            continue
        if key_of(axes) in chosen:
            continue
        points = (
            {**axes, REPOSITORY_AXIS: EMPTY, **_unpacked(axes), **form, **cache}
            for form in _formats(axes.get(FORMAT_AXIS, ""))
            for cache in _warmest_first(axes.get(CACHE_AXIS, ""), caches)
        )
        if point := next((point for point in points if not why_skip(point)), None):
            chosen[key_of(axes)] = point
    return list(chosen.values())


def _unpacked(axes: Axes) -> Axes:
    """Return the packing of an empty repository, which has no full shard."""
    return {PACKING_AXIS: UNPACKED} if axes.get(PACKING_AXIS) else {}


def _formats(own: str) -> list[Axes]:
    """Return the formats to try: an empty repository cannot be a user's repository as it is."""
    return [{FORMAT_AXIS: form} for form in dict.fromkeys([own, *FORMATS])] if own else [{}]


def _warmest_first(own: str, caches: Sequence[str]) -> list[Axes]:
    """Return the cache states to try: warm ones, and then the cell's own."""
    if not own:
        return [{}]
    return [{CACHE_AXIS: cache} for cache in [*(c for c in WARMTH if c in caches), own]]

"""What the rows of a table should have been, and why some of them are not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench.evidence.flags import FALSE_LABEL
from vcsbench.plan.twins import originals

Record = Mapping[str, Any]


@dataclass(frozen=True)
class WantedRow:
    """A row that the grid asks of a table: keys, the cells that it takes, why it may be absent."""

    keys: dict[str, str]
    cells: tuple[str, ...]
    skip: str
    failures: tuple[str, ...]
    false: tuple[str, ...]  # flags for which runs of these cells are left out


def wanted_rows(
    definition: Mapping[str, Any],
    axes: Sequence[str],
    grid: Sequence[Record],
    failures: Sequence[Record],
    measurements: Sequence[Record],
) -> list[WantedRow]:
    """The rows that the cells of a grid make in a study's table, in the grid's order.

    `grid` has the columns cell, the axes, skip; `failures` cell, round, reason; `measurements`
    cell, flags.
    """
    grid = originals(grid)
    failed: dict[str, list[str]] = {}
    for failure in failures:
        said = f"round {failure['round']:.0f}: {failure['reason']}"
        failed.setdefault(failure["cell"], []).append(said)
    false: dict[str, set[str]] = {}
    for run in measurements:
        false.setdefault(run["cell"], set()).update(FALSE_LABEL.intersection(run["flags"].split()))
    return [
        WantedRow(
            keys,
            tuple(cell["cell"] for cell in cells),
            next((cell["skip"] for cell in cells if cell["skip"]), ""),
            tuple(reason for cell in cells for reason in failed.get(cell["cell"], [])),
            tuple(sorted(set().union(*(false.get(cell["cell"], ()) for cell in cells)))),
        )
        for keys, cells in _rows(definition.get("compare"), axes, grid)
    ]


def _rows(
    compare: Mapping[str, Any] | None, axes: Sequence[str], grid: Sequence[Record]
) -> Iterator[tuple[dict[str, str], list[Record]]]:
    if not compare:
        for cell in grid:
            yield {axis: cell[axis] for axis in axes}, [cell]
        return
    compared, baseline = compare["axis"], compare["baseline"]
    if compared not in axes:  # with a saved baseline: each cell with itself
        for cell in grid:
            keys = {axis: cell[axis] for axis in axes}
            yield keys | {"candidate": compare["candidates"][0]}, [cell]
        return
    others = [axis for axis in axes if axis != compared]
    by_axes = {tuple(cell[axis] for axis in axes): cell for cell in grid}
    for cell in grid:
        if cell[compared] not in compare["candidates"]:
            continue
        partner = tuple(baseline if axis == compared else cell[axis] for axis in axes)
        if partner in by_axes:
            keys = {axis: cell[axis] for axis in others}
            yield keys | {"candidate": cell[compared]}, [by_axes[partner], cell]

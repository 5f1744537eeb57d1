"""What the rows of a table should have been, and why some of them are not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench.evidence.flags import INVALID
from vcsbench.plan.grid import originals
from vcsbench.report.records import Record, grouped_by, values_of
from vcsbench.statistics.contract import matches_cell


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
    failed = grouped_by(failures, lambda failure: failure["cell"])
    runs = grouped_by(measurements, lambda run: run["cell"])
    found = []
    about = [cell for cell in originals(grid) if matches_cell(cell, definition.get("where", {}))]
    for keys, cells in _rows(definition.get("compare"), axes, about):
        names = tuple(cell["cell"] for cell in cells)
        skip = next((cell["skip"] for cell in cells if cell["skip"]), "")
        said = [
            f"round {failure['round']:.0f}: {failure['reason']}"
            for name in names
            for failure in failed.get(name, [])
        ]
        flags = {
            flag for name in names for run in runs.get(name, []) for flag in run["flags"].split()
        }
        found.append(WantedRow(keys, names, skip, tuple(said), tuple(sorted(flags & INVALID))))
    return found


def _rows(
    compare: Mapping[str, Any] | None, axes: Sequence[str], grid: Sequence[Record]
) -> Iterator[tuple[dict[str, str], list[Record]]]:
    compared = compare["axis"] if compare else ""
    if compared not in axes:  # each cell by itself, or against its own saved baseline
        candidate = {"candidate": compare["candidates"][0]} if compare else {}
        for cell in grid:
            yield {axis: cell[axis] for axis in axes} | candidate, [cell]
        return
    assert compare
    by_axes = {values_of(cell, axes): cell for cell in grid}
    for cell in grid:
        if cell[compared] in compare["candidates"]:
            partner = by_axes.get(values_of({**cell, compared: compare["baseline"]}, axes))
            if partner:
                keys = {axis: cell[axis] for axis in axes if axis != compared}
                yield keys | {"candidate": cell[compared]}, [partner, cell]

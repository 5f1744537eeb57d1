"""Find the rows that a table should have, from the cells of the grid."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vcsbench.advice.decision import Row
from vcsbench.config.study import ComparisonDefinition, TableDefinition, matches_cell
from vcsbench.evidence.flags import INVALID
from vcsbench.plan.grid import originals
from vcsbench.plan.result_state import OUTDATED, PENDING
from vcsbench.report.grids import CANDIDATE
from vcsbench.report.results import Rows, grouped_by, values_in
from vcsbench.statistics import texts


@dataclass(frozen=True)
class ExpectedRow:
    """A row that a table should have, with the reasons why it may have no number."""

    keys: Mapping[str, str]  # its place: {"command": "log", "cache": "cold", "candidate": "f7"}
    cells: tuple[str, ...] = ()  # the paths of its cells, the baseline's first
    skip: str = ""  # why a cell cannot be measured here, "" if all can
    failures: tuple[str, ...] = ()  # a sentence for each round without a result
    flags: tuple[str, ...] = ()  # those that made runs invalid
    is_outdated: bool = False  # True if all rounds without a result (one or more) are outdated
    is_unmeasured: bool = False  # True if none of these rounds failed, and some are not measured


def expected_rows(
    definition: TableDefinition,
    axes: Sequence[str],
    *,
    grid: Rows,
    failures: Rows,
    measurements: Rows,
) -> list[ExpectedRow]:
    """Return the rows that a table should have by the cells of the grid, in the order of the grid.

    They show which rows a measured table lacks, and why. A table that compares has a row for each pair of
    cells, any other table one for each cell. Duplicates, and cells that the table does not select, are left
    out. `failures` has a row for each cell-round without a result, and `measurements` one for each timed run.
    """
    failures_by_cell = grouped_by(failures, lambda failure: failure["cell"])
    runs_by_cell = grouped_by(measurements, lambda run: run["cell"])
    where = definition.get("where", {})
    cells_of_table = [cell for cell in originals(grid) if matches_cell(cell, where)]

    rows = []
    for keys, cells in _rows_of_grid(definition.get("compare"), axes, cells_of_table):
        paths = tuple(cell["cell"] for cell in cells)
        skips = [cell["skip"] for cell in cells if cell["skip"]]
        missing = [row for path in paths for row in failures_by_cell.get(path, [])]
        runs = [run for path in paths for run in runs_by_cell.get(path, [])]
        flags = {flag for run in runs for flag in run["flags"].split()}
        reasons = [row["reason"] for row in missing]
        is_outdated = bool(reasons) and all(reason == OUTDATED for reason in reasons)
        # A round with a reason in PENDING did not fail: the next run measures this round.
        is_pending = bool(reasons) and all(reason in PENDING for reason in reasons)
        expected_row = ExpectedRow(
            keys=keys,
            cells=paths,
            # If several cells cannot be measured, the reason of the first one is enough.
            skip=skips[0] if skips else "",
            # The round is a float, as all numbers of CSV files are.
            failures=tuple(
                f"round {row['round']:.0f}: {texts.failure_text(row['reason'])}" for row in missing
            ),
            # Only the flags in INVALID exclude a run from tables.
            flags=tuple(sorted(flags & INVALID)),
            is_outdated=is_outdated,
            is_unmeasured=is_pending and not is_outdated,
        )
        rows.append(expected_row)
    return rows


def _rows_of_grid(
    compare: ComparisonDefinition | None, axes: Sequence[str], grid: Rows
) -> Iterator[tuple[dict[str, str], list[Row]]]:
    """Yield the keys of each row of a table, which are its place, and its cells (rows of the grid).

    A comparison of formats has the keys `{"command": "log", "candidate": "f7"}`, and the cells of both
    formats, the baseline first. A table without a comparison (`compare` is None) has `{"command": "log",
    "format": "f7"}`, and one cell.
    """
    if compare is None:
        for cell in grid:
            yield {axis: cell[axis] for axis in axes}, [cell]
        return

    compared = compare["axis"]
    candidates = compare["candidates"]
    other_axes = [axis for axis in axes if axis != compared]
    cell_at = {values_in(cell, axes): cell for cell in grid}
    for cell in grid:
        keys = {axis: cell[axis] for axis in other_axes}
        if compared not in axes:
            # The table compares this run (`now`, the only candidate) with a saved baseline, of which the grid
            # has no cells.
            yield {**keys, CANDIDATE: candidates[0]}, [cell]
        elif cell[compared] in candidates:
            # The cell of the baseline has the same values of all other axes, and no row of its own.
            values_of_baseline = {**cell, compared: compare["baseline"]}
            baseline = cell_at.get(values_in(values_of_baseline, axes))
            # A candidate without a baseline in the grid has no row.
            if baseline:
                yield {**keys, CANDIDATE: cell[compared]}, [baseline, cell]

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

    The page shows a measured table in these rows, with the reason in place of a missing number. A table that
    compares has a row for each pair of cells, any other table one for each cell. Duplicates, and cells that
    the table does not select (`where`), are left out. `failures` has a row for each cell-round without a
    result: it failed, is outdated, or is not measured yet. `measurements` has a row for each timed run.
    """
    missing_rounds_by_cell = grouped_by(failures, lambda failure: failure["cell"])
    runs_by_cell = grouped_by(measurements, lambda run: run["cell"])
    where = definition.get("where", {})
    cells_of_table = [cell for cell in originals(grid) if matches_cell(cell, where)]

    rows = []
    for keys, cells in _rows_of_grid(definition.get("compare"), axes, cells_of_table):
        paths = [cell["cell"] for cell in cells]
        missing_rounds = [row for path in paths for row in missing_rounds_by_cell.get(path, [])]
        runs = [run for path in paths for run in runs_by_cell.get(path, [])]
        rows.append(_make_row(keys, cells, missing_rounds, runs))
    return rows


def _make_row(
    keys: Mapping[str, str], cells: Sequence[Row], missing_rounds: Rows, runs: Rows
) -> ExpectedRow:
    """Return an expected row, with the reasons why it may have no number.

    `cells` are its cells in the grid, `missing_rounds` their rounds without a result, and `runs` their timed
    runs.
    """
    # If several cells cannot be measured, the reason of the first one is enough.
    skips = [cell["skip"] for cell in cells if cell["skip"]]
    flags = {flag for run in runs for flag in run["flags"].split()}
    # Only flags that make a run invalid leave it out of tables.
    excluding_flags = flags & INVALID
    reasons = [row["reason"] for row in missing_rounds]
    is_outdated = bool(reasons) and all(reason == OUTDATED for reason in reasons)
    # PENDING has the two reasons that are no failures: outdated, and not measured yet.
    is_pending = bool(reasons) and all(reason in PENDING for reason in reasons)
    return ExpectedRow(
        keys=keys,
        cells=tuple(cell["cell"] for cell in cells),
        skip=skips[0] if skips else "",
        # The round is a float, as all numbers of CSV files are.
        failures=tuple(
            f"round {row['round']:.0f}: {texts.failure_text(row['reason'])}"
            for row in missing_rounds
        ),
        flags=tuple(sorted(excluding_flags)),
        is_outdated=is_outdated,
        is_unmeasured=is_pending and not is_outdated,
    )


def _rows_of_grid(
    compare: ComparisonDefinition | None, axes: Sequence[str], grid: Rows
) -> Iterator[tuple[dict[str, str], list[Row]]]:
    """Yield each row of a table: the values that identify it (its keys), and its cells in the grid.

    Example with the formats f6 and f7: a table that compares them has the row `{"command": "log",
    "candidate": "f7"}` with two cells, that of f6 (the baseline) first. A table without a comparison
    (`compare` is None) has a row for each cell, such as `{"command": "log", "format": "f7"}`.
    """
    if compare is None:
        for cell in grid:
            yield {axis: cell[axis] for axis in axes}, [cell]
        return

    compared_axis = compare["axis"]
    candidates = compare["candidates"]
    other_axes = [axis for axis in axes if axis != compared_axis]
    # A saved baseline has the results of an earlier session. They are compared with this session's results,
    # which are the only candidate (`now`). The grid has no axis for that, and only the cells of this session.
    is_with_saved_baseline = compared_axis not in axes
    cell_at = {values_in(cell, axes): cell for cell in grid}
    for cell in grid:
        keys = {axis: cell[axis] for axis in other_axes}
        if is_with_saved_baseline:
            yield {**keys, CANDIDATE: candidates[0]}, [cell]
        elif cell[compared_axis] in candidates:
            # The cell of the baseline has the same values on all other axes.
            values_of_baseline = {**cell, compared_axis: compare["baseline"]}
            baseline = cell_at.get(values_in(values_of_baseline, axes))
            # A candidate without a baseline in the grid has no row.
            if baseline:
                yield {**keys, CANDIDATE: cell[compared_axis]}, [baseline, cell]

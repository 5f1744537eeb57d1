"""The examples of a study: tables of a server before and after changes that were measured together."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.decision import compares
from vcsbench.advice.labels import at_least_1, change, seconds, value_label
from vcsbench.codes import Result
from vcsbench.config.study import ExampleDefinition, matches_cell
from vcsbench.metrics import metric_in
from vcsbench.report.answer_texts import OF_AMOUNTS, OF_TIMES, Comparative
from vcsbench.report.results import Results
from vcsbench.report.table_sections import PlainTable
from vcsbench.statistics.comparisons import comparison_rows

NOT_MEASURED = "not measured"
NOTE = "Each row was measured as a whole. Factors are against the first row."
# Behind a number whose difference from the row above is not certain.
OPEN_MARK = " ~"
OPEN_NOTE = "~: no certain difference from the row above."
# A comparison after one round has no result (None).
OPEN_RESULTS = (None, Result.BOUNDED, Result.UNDECIDED, Result.TOO_SMALL)


def make_examples(results: Results) -> list[PlainTable]:
    """Return a table for each example of the study with numbers in at least two rows.

    A row has a number for each value of the axis in `columns`: `("As it is", "0.62 s", "1.72 s")`.
    """
    tables = []
    for title, example in results.study.examples.items():
        # The key has one axis with its values: {"command": ["log", "export"]}.
        [(axis, values)] = example["columns"].items()
        rows, has_mark = _make_rows(results, example, axis, values)
        if len(rows) > 1:
            heads = ["", *(value_label(axis, value) for value in values)]
            note = f"{NOTE} {OPEN_NOTE}" if has_mark else NOTE
            tables.append(PlainTable(title, heads, rows, numbers_from=1, note=note))
    return tables


class MeasuredRow(NamedTuple):
    """A row of an example with the numbers of its columns; None for a column without a number.

    `table` is the table that has the numbers. `where` has the values of its cells: {"packing": "pack"}.
    """

    label: str
    table: str
    where: Mapping[str, object]
    numbers: Sequence[float | None]


def _make_rows(
    results: Results, example: ExampleDefinition, axis: str, values: Sequence[str]
) -> tuple[list[list[str]], bool]:
    """Return the rows of an example as texts, and True if a text has OPEN_MARK.

    A column is a value of `axis`, such as the command log. Example of a text: `0.63 s (2.7x faster) ~`. The
    factor is against the first row. The mark `~` means that the difference from the row above is not certain.
    """
    measured_rows = _find_measured_rows(results, example, axis, values)
    # Another table may have another metric, so only rows from the table of the example have factors.
    first = next((row for row in measured_rows if row.table == example["table"]), None)
    rows: list[list[str]] = []
    has_mark = False
    above: MeasuredRow | None = None
    for row in measured_rows:
        unit = metric_in(results.study.tables[row.table]).unit
        factors = [""] * len(values)
        if first is not None and row is not first and row.table == first.table:
            factors = _factor_texts(results, first, row)
        marks = [""] * len(values)
        # Rows of different tables are not compared, so they get no mark.
        if above is not None and above.table == row.table:
            marks = _open_marks(results, axis, values, above, row)
        parts = zip(row.numbers, factors, marks, strict=True)
        texts = [f"{_number_text(number, unit)}{factor}{mark}" for number, factor, mark in parts]
        has_mark = has_mark or any(marks)
        rows.append([row.label, *texts])
        above = row
    return rows, has_mark


def _find_measured_rows(
    results: Results, example: ExampleDefinition, axis: str, values: Sequence[str]
) -> list[MeasuredRow]:
    """Return the rows of an example that have at least one number, in their order."""
    measured_rows = []
    for label, row in example["rows"].items():
        table = row.get("table", example["table"])
        where = {**example.get("where", {}), **row.get("where", {})}
        numbers = [_find_number(results, table, {**where, axis: value}) for value in values]
        if any(number is not None for number in numbers):
            measured_rows.append(MeasuredRow(label, table, where, numbers))
    return measured_rows


def _factor_texts(results: Results, first: MeasuredRow, row: MeasuredRow) -> list[str]:
    """Return the factor of each number of a row against the first row, such as ` (2.4x faster)`."""
    metric = metric_in(results.study.tables[row.table])
    comparative = OF_TIMES if metric.is_duration else OF_AMOUNTS
    return [
        _factor_text(first_number, number, results.advice.margin, comparative)
        for first_number, number in zip(first.numbers, row.numbers, strict=True)
    ]


def _open_marks(
    results: Results, axis: str, values: Sequence[str], above: MeasuredRow, row: MeasuredRow
) -> list[str]:
    """Return OPEN_MARK for each number whose difference from the row `above` is open, "" for the others."""
    metric_name = metric_in(results.study.tables[row.table]).name
    marks = []
    for value, number in zip(values, row.numbers, strict=True):
        cell_above, cell = {**above.where, axis: value}, {**row.where, axis: value}
        is_open = number is not None and _is_open(results, metric_name, cell_above, cell)
        marks.append(OPEN_MARK if is_open else "")
    return marks


def _is_open(
    results: Results, metric: str, cell_above: Mapping[str, object], cell: Mapping[str, object]
) -> bool:
    """Return True if a table compares two cells by a metric without a certain result (OPEN_RESULTS).

    The cells are one below the other in an example, and have their values by axis: `{"packing": "pack",
    ...}`. If they differ on several axes, or on none, no table compares them, so the result is False.
    """
    all_axes = {**cell_above, **cell}
    differing = [axis for axis in all_axes if str(cell_above.get(axis)) != str(cell.get(axis))]
    if len(differing) != 1:
        return False
    compared = differing[0]
    # As a set, because either cell may be the baseline of the table.
    sides = {str(cell_above.get(compared)), str(cell.get(compared))}
    common_values = {axis: value for axis, value in cell.items() if axis != compared}
    for name, definition in results.study.tables.items():
        if not compares(definition, compared, metric):
            continue
        fitting = [
            row
            for row in comparison_rows(results.tables.get(name, []))
            if {row.baseline, row.candidate} == sides and matches_cell(row.where, common_values)
        ]
        # Several rows fit if they differ on an axis that the example does not name, such as the repository.
        # Then the table is skipped. A single row without a ratio compares nothing, so it is not open.
        if len(fitting) == 1:
            return fitting[0].has_ratio and fitting[0].result in OPEN_RESULTS
    return False


def _find_number(results: Results, table: str, where: Mapping[str, object]) -> float | None:
    """Return the number of the only row of a table that fits; None for none or for several."""
    rows = results.tables.get(table, [])
    fitting = [row["value"] for row in rows if matches_cell(row, where)]
    numbers = [value for value in fitting if words.is_number(value)]
    return numbers[0] if len(numbers) == 1 else None


def _number_text(number: float | None, unit: str) -> str:
    if number is None:
        return NOT_MEASURED
    return seconds(number) if unit == "s" else f"{words.significant(number)} {unit}"


def _factor_text(
    first: float | None, number: float | None, margin: float, comparative: Comparative
) -> str:
    """Return ` (2.4x faster)` or ` (1.8x more)`; "" below the margin, or without one of the numbers."""
    if not first or not number:
        return ""
    ratio = first / number
    return f" ({change(ratio, comparative)})" if at_least_1(ratio) >= margin else ""

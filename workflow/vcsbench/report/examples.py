"""The examples of a study: tables of a server before and after changes that were measured together."""

from collections.abc import Mapping, Sequence

from vcsbench import words
from vcsbench.advice.answer_texts import OF_AMOUNTS, OF_TIMES, Comparative
from vcsbench.advice.decision import compares
from vcsbench.advice.labels import at_least_1, change, seconds, value_label
from vcsbench.codes import Result
from vcsbench.config.study import ExampleDefinition, matches_cell
from vcsbench.metrics import metric_in
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


def _make_rows(
    results: Results, example: ExampleDefinition, axis: str, values: Sequence[str]
) -> tuple[list[list[str]], bool]:
    """Return the rows of an example that have a number, and whether some number has OPEN_MARK.

    A column is a value of `axis`, such as the command log. A number below the first row has its factor to the
    number in the first row: `0.63 s (2.7x faster)`. The factor is missing if the difference is below the
    margin, or if the row has numbers of another table than the example.
    """
    margin = results.advice.margin
    rows: list[list[str]] = []
    has_mark = False
    # The numbers of the first row that has any, in the table of the example; [] until it is found.
    first_numbers: list[float | None] = []
    # The table and the axis values of the row above.
    table_above = ""
    where_above: Mapping[str, object] = {}
    for label, row in example["rows"].items():
        table = row.get("table", example["table"])
        where = {**example.get("where", {}), **row.get("where", {})}
        numbers = [_find_number(results, table, {**where, axis: value}) for value in values]
        if all(number is None for number in numbers):
            continue
        metric = metric_in(results.study.tables[table])
        texts = [_number_text(number, metric.unit) for number in numbers]
        # Another table may have another metric, and numbers of two metrics have no factor.
        is_of_example = table == example["table"]
        if is_of_example and not first_numbers:
            first_numbers = numbers
        elif is_of_example:
            comparative = OF_TIMES if metric.is_duration else OF_AMOUNTS
            for column, first in enumerate(first_numbers):
                texts[column] += _factor_text(first, numbers[column], margin, comparative)
        # Rows of different tables are not compared, so their numbers get no mark.
        for column, value in enumerate(values):
            if table != table_above or numbers[column] is None:
                continue
            above, cell = {**where_above, axis: value}, {**where, axis: value}
            if _is_open(results, metric.name, above, cell):
                texts[column] += OPEN_MARK
                has_mark = True
        table_above, where_above = table, where
        rows.append([label, *texts])
    return rows, has_mark


def _is_open(
    results: Results, metric: str, above: Mapping[str, object], cell: Mapping[str, object]
) -> bool:
    """Return True if a table compares two cells by a metric, and its result is open, such as undecided.

    `above` and `cell` are the values of both cells by axis: `{"packing": "pack", ...}`. Return False if they
    differ on no axis, or on several: no table compares these cells.
    """
    axes = [axis for axis in {**above, **cell} if str(above.get(axis)) != str(cell.get(axis))]
    if len(axes) != 1:
        return False
    compared = axes[0]
    # As a set, because either cell may be the baseline of the table.
    sides = {str(above.get(compared)), str(cell.get(compared))}
    common_values = {axis: value for axis, value in cell.items() if axis != compared}
    for name, definition in results.study.tables.items():
        if not compares(definition, compared, metric):
            continue
        fitting = [
            row
            for row in comparison_rows(results.tables.get(name, []))
            if {row.baseline, row.candidate} == sides and matches_cell(row.where, common_values)
        ]
        # With several rows, nothing shows which of them is about these two cells. So the table is skipped. A
        # single row without a ratio compares nothing, so it leaves nothing open.
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

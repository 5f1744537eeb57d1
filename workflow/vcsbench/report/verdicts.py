"""The findings as the page says them: numbers written out, each with the table that it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench import words
from vcsbench.compare.baselines import table_name
from vcsbench.metrics import metric_in
from vcsbench.report.grids import Point
from vcsbench.report.sections import TableSection

Record = Mapping[str, Any]
Where = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """One finding. `table` is the name of its table, or "" where it has none; `anchor` that of the first
    row of it that the finding is about, or of the table."""

    id: str
    statement: str
    verdict: str
    expected: str
    published: str
    measured: str
    interval: str
    table: str
    anchor: str
    why: str


def verdicts(
    findings: Sequence[Record],
    definitions: Mapping[str, Mapping[str, Any]],
    tables: Mapping[str, Mapping[str, Any]],
    sections: Sequence[TableSection],
) -> list[Verdict]:
    """The rows of a findings file with their numbers to three digits.

    `definitions` maps a finding's id to its check, `tables` a table's name to its definition;
    `sections` are the tables as the page shows them.
    """
    shown = {section.name: section for section in sections}
    found = []
    for row in findings:
        definition = definitions.get(row["id"], {})
        table, where = table_of(definition, tables)
        found.append(
            Verdict(
                row["id"],
                row["statement"],
                row["verdict"] or "not measured",
                _written(row["expected"]),
                _written(row["published"]),
                _written(row["measured"]),
                _interval(row),
                table,
                _anchor(where, shown[table]) if table in shown else "",
                _why(row.get("why", "")),
            )
        )
    return found


def _why(text: str) -> str:
    """Why the verdict is that; the scale has a mark of its own on the page."""
    return "; ".join(part for part in text.split("; ") if part and not part.startswith("scale: "))


def _anchor(where: Where, section: TableSection) -> str:
    """The anchor of the first measured row that a finding is about; of the table without any."""
    for grid in (beside.measured for beside in section.pairs if beside.measured):
        for row in (row for group in grid.groups for row in group.rows):
            if any(point and _is_about(point, where) for point in row.points):
                return f"{section.anchor}-{row.slug}"
    return section.anchor


def _is_about(point: Point, where: Where) -> bool:
    wanted = {
        axis: {str(value) for value in (values if isinstance(values, list) else [values])}
        for axis, values in where.items()
        if axis in point.keys
    }
    return point.value is not None and all(point.keys[a] in wanted[a] for a in wanted)


def _written(value: Any) -> str:
    try:
        number = float(value)
        # Two decimals keep ratios below one another; what is smaller or larger needs others.
        return words.fixed(number, 2) if 0.1 <= abs(number) < 10 else words.significant(number)
    except (TypeError, ValueError):
        return "" if value is None else str(value)


def _interval(row: Record) -> str:
    if not (words.is_number(row["low"]) and words.is_number(row["high"])):
        return ""
    return f"{_written(row['low'])} to {_written(row['high'])}"


def table_of(
    definition: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]
) -> tuple[str, Where]:
    """The table that compares what a finding compares, whichever is the baseline there; else that of the
    finding's metric; "" without either. And the values of the axes that the finding is about in it."""
    where, wanted = dict(definition.get("where") or {}), definition.get("compare") or {}
    if "to" in wanted:
        name = table_name(wanted["to"])
        return (name if name in tables else ""), where
    metric, sides = metric_in(definition), [wanted.get("baseline"), wanted.get("candidate")]
    for name, table in tables.items():
        compare = table.get("compare") or {}
        if not compare or compare["axis"] != wanted.get("axis") or metric_in(table) is not metric:
            continue
        for baseline, candidate in (sides, sides[::-1]):
            if compare["baseline"] == baseline and candidate in compare["candidates"]:
                return name, {**where, "candidate": candidate}
    if wanted:
        where[wanted["axis"]] = sides
    levels = [n for n, t in tables.items() if not t.get("compare") and metric_in(t) is metric]
    return (levels or [""])[0], where

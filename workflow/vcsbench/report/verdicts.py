"""The findings as the page says them: numbers written out, each with the table that it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench import words
from vcsbench.compare.baselines import table_name
from vcsbench.report.grids import Point
from vcsbench.report.sections import TableSection

Record = Mapping[str, Any]


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
        table = _table(definition, tables)
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
                _anchor(definition, shown[table]) if table in shown else "",
                _why(row.get("why", "")),
            )
        )
    return found


def _why(text: str) -> str:
    """Why the verdict is that; the scale has a mark of its own on the page."""
    return "; ".join(part for part in text.split("; ") if part and not part.startswith("scale: "))


def _anchor(definition: Mapping[str, Any], section: TableSection) -> str:
    """The anchor of the first measured row that a finding is about; of the table without any."""
    where = dict(definition.get("where") or {})
    if candidate := (definition.get("compare") or {}).get("candidate"):
        where["candidate"] = candidate
    for grid in (pair.measured for pair in section.pairs if pair.measured):
        for row in (row for group in grid.groups for row in group.rows):
            if any(point and _is_about(point, where) for point in row.points):
                return f"{section.anchor}-{row.slug}"
    return section.anchor


def _is_about(point: Point, where: Mapping[str, Any]) -> bool:
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


def _table(definition: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The table that compares what the finding compares; that of the metric for all others."""
    wanted = definition.get("compare") or {}
    if "to" in wanted:
        name = table_name(wanted["to"])
        return name if name in tables else ""
    for name, table in tables.items():
        compare = table.get("compare") or {}
        if (
            wanted
            and compare.get("axis") == wanted.get("axis")
            and compare["baseline"] == wanted.get("baseline")
            and wanted.get("candidate") in compare["candidates"]
        ):
            return name
    metric = definition.get("level") or definition.get("metric") or "elapsed_s"
    for name, table in tables.items():
        if table.get("metric") == metric:
            return name
    return ""

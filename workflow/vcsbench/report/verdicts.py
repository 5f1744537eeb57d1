"""The findings as the page says them: numbers written out, each with the table that it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vcsbench import words
from vcsbench.compare.baselines import table_name
from vcsbench.compare.bounds import values_of
from vcsbench.metrics import Metric, metric_in
from vcsbench.report.grids import Point
from vcsbench.report.records import Record
from vcsbench.report.sections import TableSection

Where = Mapping[str, Any]


def verdicts(
    findings: Sequence[Record],
    definitions: Mapping[str, Mapping[str, Any]],
    tables: Mapping[str, Mapping[str, Any]],
    sections: Sequence[TableSection],
) -> list[dict[str, Any]]:
    """The rows of a findings file with their numbers to three digits, and each with its `interval`, what its
    value is `of` (its unit, and of how many cells it is what), its `table` ("" where it has none), and the
    `anchor` of the first row of it that the finding is about, or of the table.

    `definitions` maps a finding's id to its check, `tables` a table's name to its definition;
    `sections` are the tables as the page shows them.
    """
    shown = {section.name: section for section in sections}
    found = []
    for row in findings:
        table, where = table_of(definitions.get(row["id"], {}), tables)
        numbers = {name: _written(row[name]) for name in ("expected", "published", "measured")}
        found.append(
            {
                **row,
                **numbers,
                "verdict": row["verdict"] or "not measured",
                "interval": _interval(row),
                "table": table,
                "anchor": _anchor(where, shown[table]) if table in shown else "",
                "why": _why(row.get("why", "")),
                "of": "; ".join(filter(None, [row.get("unit", ""), row.get("over", "")])),
            }
        )
    return found


def _why(text: str) -> str:
    """Why the verdict is that; the scale has a mark of its own on the page."""
    return "; ".join(part for part in text.split("; ") if part and not part.startswith("scale: "))


def _anchor(where: Where, section: TableSection) -> str:
    """The anchor of the first measured row that a finding is about; of the table without any."""
    for row in (row for beside in section.pairs if beside.measured for row in beside.measured.rows):
        if any(point and _is_about(point, where) for point in row.points):
            return f"{section.anchor}-{row.slug}"
    return section.anchor


def _is_about(point: Point, where: Where) -> bool:
    return point.value is not None and all(
        point.keys[axis] in map(str, wanted if isinstance(wanted, list) else [wanted])
        for axis, wanted in where.items()
        if axis in point.keys
    )


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
    levels = {n: t for n, t in tables.items() if not t.get("compare") and _tells(t, metric)}
    about = [n for n, t in levels.items() if _may_be_about(t.get("where", {}), where)]
    return next(iter([*about, *levels]), ""), where


def _tells(table: Mapping[str, Any], metric: Metric) -> bool:
    return metric_in(table) is metric or metric.name in table.get("each", ())


def _may_be_about(table: Mapping[str, Any], finding: Mapping[str, Any]) -> bool:
    """Whether a table with this `where` may have cells that a finding is about."""
    return all(
        {*values_of(wanted)} & {*values_of(finding[axis])}
        for axis, wanted in table.items()
        if axis in finding
    )

"""The findings as the page says them: numbers written out, each with the table that it is about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench import words
from vcsbench.advice.labels import factor, value_label
from vcsbench.metrics import Metric, metric_in
from vcsbench.report import svg
from vcsbench.report.grids import Point
from vcsbench.report.records import Record
from vcsbench.report.sections import TableSection
from vcsbench.statistics.baselines import table_name
from vcsbench.statistics.contract import (
    DIFFERS,
    INCONCLUSIVE,
    NOT_MEASURED,
    REPRODUCED,
    TOO_SMALL,
    values_of,
)

Where = Mapping[str, Any]


@dataclass(frozen=True)
class FindingView:
    """A finding or an expectation as the page shows it.

    `news` names what changed since it was published, `picture` is SVG, `anchor` the row of its table.
    """

    id: str
    statement: str
    verdict: str
    expected: str
    published: str
    measured: str
    interval: str
    of: str
    why: str
    table: str
    anchor: str
    news: str
    picture: str

    @property
    def rank(self) -> int:
        """Return the place on the page: reversed, differing, inconclusive, reproduced, the rest."""
        if self.news:
            return 0
        order = [DIFFERS, TOO_SMALL, INCONCLUSIVE, REPRODUCED]
        return 1 + order.index(self.verdict) if self.verdict in order else 9


def findings_of(
    rows: Sequence[Record],
    definitions: Mapping[str, Mapping[str, Any]],
    tables: Mapping[str, Mapping[str, Any]],
    sections: Sequence[TableSection],
) -> list[FindingView]:
    """Return the findings of a file, news first.

    `definitions` maps an id to its check, `tables` a name to its definition; `sections` are the tables as
    the page shows them.
    """
    shown = {section.name: section for section in sections}
    found = []
    for row in rows:
        definition = definitions.get(row["id"], {})
        table, where = table_of(definition, tables)
        view = FindingView(
            id=row["id"],
            statement=row["statement"],
            verdict=row["verdict"] or NOT_MEASURED,
            expected=_written(row["expected"]),
            published=_written(row["published"]),
            measured=_written(row["measured"]),
            interval=_interval(row),
            of="; ".join(filter(None, [row.get("unit", ""), row.get("over", "")])),
            why=_why(row.get("why") or ""),
            table=table,
            anchor=_anchor(where, shown[table]) if table in shown else "",
            news=_news(row, definition),
            picture=_picture(row, definition),
        )
        found.append(view)
    return sorted(found, key=lambda one: one.rank)


def _news(row: Record, definition: Mapping[str, Any]) -> str:
    """Return a sentence if the direction of a comparison reversed since it was published."""
    compare = definition.get("compare") or {}
    published, low, high = (_number(row.get(name)) for name in ("published", "low", "high"))
    if "candidate" not in compare or not (published and low and high):
        return ""
    was_faster, is_faster, is_slower = published > 1, low > 1, high < 1
    if not ((was_faster and is_slower) or (not was_faster and is_faster)):
        return ""
    axis, side = compare["axis"], compare["candidate"]
    words = ("faster", "slower") if was_faster else ("slower", "faster")
    was, now = (max(v, 1 / v) for v in (published, float(row["measured"])))
    label = value_label(axis, side)
    return f"Reversed: {label} was {factor(was)} {words[0]}, and is now {factor(now)} {words[1]}."


def _picture(row: Record, definition: Mapping[str, Any]) -> str:
    expect = definition.get("expect") or {}
    expected = (_number(expect.get("at_least")), _number(expect.get("at_most")))
    low, high = _number(row.get("low")), _number(row.get("high"))
    label = f"expected {_written(row['expected'])}, measured {_written(row['measured'])}"
    published, measured = _number(row.get("published")), _number(row.get("measured"))
    interval = (low, high) if low and high else None
    return svg.finding_picture(expected, published, measured, interval, label)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _why(text: str) -> str:
    """Return the reasons of a verdict; a scale without a test is in the section's text."""
    parts = [part for part in text.split("; ") if part]
    return "; ".join(p for p in parts if "(to test: " in p or not p.startswith("scale: "))


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

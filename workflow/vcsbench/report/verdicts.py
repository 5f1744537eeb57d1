"""The findings as the page says them: numbers written out, each with the table that it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench.report import words

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """One finding. `table` is the name of its table, or "" where it has none."""

    id: str
    statement: str
    verdict: str
    expected: str
    published: str
    measured: str
    interval: str
    table: str


def verdicts(
    findings: Sequence[Record],
    definitions: Mapping[str, Mapping[str, Any]],
    tables: Mapping[str, Mapping[str, Any]],
) -> list[Verdict]:
    """The rows of a findings file with their numbers to three digits.

    `definitions` maps a finding's id to its check, `tables` a table's name to its definition.
    """
    return [
        Verdict(
            row["id"],
            row["statement"],
            row["verdict"] or "not measured",
            _written(row["expected"]),
            _written(row["published"]),
            _written(row["measured"]),
            _interval(row),
            _table(definitions.get(row["id"], {}), tables),
        )
        for row in findings
    ]


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

"""The points of a grid from the rows of a table: number, note, colour, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vcsbench import words
from vcsbench.advice.cases import SMALL, outcome_of
from vcsbench.evidence.same_work import OTHER, UNKNOWN
from vcsbench.metrics import metric_in
from vcsbench.report import colours
from vcsbench.report.grids import Point
from vcsbench.report.readings import (
    CALL_MARKS,
    DEVIATIONS,
    MARKS,
    direction,
    has_interval,
    interval,
    shown,
    written,
)
from vcsbench.report.records import Record, grouped_by
from vcsbench.report.wanted import WantedRow
from vcsbench.statistics.contract import TOO_SMALL, is_difference, is_exact, keys_of


def measured_points(
    definition: Mapping[str, Any], rows: Sequence[Record], wanted: Sequence[WantedRow]
) -> list[Point]:
    """A point for each row of a measured table and for each wanted row that it lacks."""
    names = list(wanted[0].keys) if wanted else []
    # Several of one cell, where a table tells more apart than axes.
    measured = grouped_by(rows, lambda row: tuple(row[name] for name in names or keys_of(row)))
    points = []
    for one in wanted:
        for row in measured.pop(tuple(one.keys.values()), [None]):
            if row is None:
                points.append(_absent(one, None))
            elif words.is_number(row["value"]):
                point = numbered(definition, row, one.failures)
                points.append(replace(point, cells=one.cells))
            else:
                points.append(_absent(replace(one, keys=keys_of(row)), row))
    rest = [row for found in measured.values() for row in found]
    return points + [_unwanted(definition, row) for row in rest]


def _unwanted(definition: Mapping[str, Any], row: Record) -> Point:
    """The point of a row that no cell of the grid asks for any more."""
    if words.is_number(row["value"]):
        return numbered(definition, row)
    return _absent(WantedRow(keys_of(row), (), "", (), ()), row)


def not_measured(definition: Mapping[str, Any], points: Iterable[Point]) -> str:
    """Why there is no number at all, in a clause; "" where there is one, or the reasons differ."""
    reasons = {point.reason for point in points if point.kind != "skipped"}
    return reasons.pop() if len(reasons) == 1 and metric_in(definition).exact else ""


def published_points(definition: Mapping[str, Any], rows: Sequence[Record]) -> list[Point]:
    """A point for each row of a published table."""
    return [
        _point(definition, row, "published", True) for row in rows if words.is_number(row["value"])
    ]


def numbered(definition: Mapping[str, Any], row: Record, failures: Sequence[str] = ()) -> Point:
    """The point of a measured row that has a value; `failures` are those of its rounds."""
    flags = row["flags"].split()
    notes = [*_interval(row), *failures]
    if flags:
        notes.append(f"flagged {words.enumeration(flags)}")
    if not definition.get("compare"):
        notes.insert(0, words.with_unit(row["value"], metric_in(definition).unit))
    called = "" if is_exact(row) else CALL_MARKS.get(row.get("call", ""), "")
    is_small = bool(definition.get("compare")) and outcome_of(row) == SMALL
    if is_small:
        called = CALL_MARKS[TOO_SMALL]
        notes.append("mostly start-up")
    mark = called + "".join(sign for flag, sign in MARKS.items() if flag in flags)
    deviation = next((sign for flag, sign in DEVIATIONS.items() if flag in flags), "")
    differs = is_difference(row.get("call", "")) and not is_small
    point = _point(definition, row, "measured", differs)
    title = "; ".join(notes)
    return replace(point, mark=mark, deviation=deviation, is_small=is_small, title=title, row=row)


def reduced_points(definition: Mapping[str, Any], rows: Sequence[Record]) -> list[Point]:
    """The points of measured comparisons over rounds, reduced as the published ones are."""
    found = [row for row in rows if has_interval(row) and words.is_number(row["value"])]
    plain = [{**row, "ratio": None} for row in found]
    return [_point(definition, row, "measured", False) for row in plain]


def _point(definition: Mapping[str, Any], row: Record, kind: str, differs: bool) -> Point:
    """A point with a number; colour is for differences only."""
    if not definition.get("compare"):
        return Point(keys_of(row), kind, row["value"])
    value = shown(row)
    step = colours.class_of(colours.step(value), direction(definition))
    text = words.percentage(value)
    return Point(keys_of(row), kind, value, text=text, colour=step if differs else "same")


def _absent(wanted: WantedRow, row: Record | None) -> Point:
    if wanted.skip:
        return Point(wanted.keys, "skipped", text="n/a", title=f"not measured: {wanted.skip}")
    if wanted.failures and row is None and not wanted.false:
        return Point(wanted.keys, "failed", text="failed", title="; ".join(wanted.failures))
    flags = row["flags"].split() if row is not None else wanted.false
    why = f"flagged {words.enumeration(flags)}" if flags else "no run of it counts"
    left_out = Point(wanted.keys, "withheld", text="left out", title=f"{why}; see Marks and flags")
    if row is None or not row.get("withheld"):
        return left_out
    said = {UNKNOWN: "unknown", OTHER: "other work"}
    text = next((said[flag] for flag in flags if flag in said), left_out.text)
    return replace(left_out, text=text, title=row["withheld"], reason=row["withheld"])


def _interval(row: Record) -> list[str]:
    """Of a comparison its number, interval and rounds; its call, and what could have been told."""
    n = [f"n = {row['n']:.0f}"] if words.is_number(row["n"]) else []
    if not has_interval(row):
        return [", ".join(["no interval", *n])] if words.is_number(row["ratio"]) else n
    if is_exact(row):
        return [f"{written(row['ratio'])} %, exact: all rounds count the same", *n, row["call"]]
    said = ", ".join([f"{written(row['ratio'])} %", f"95 % interval {interval(row)} %", *n])
    if not row.get("call"):
        return [said]
    sizes = [
        f"{name} {written(row[column])} %"
        for name, column in (("differs at most by", "within"), ("detectable from", "detectable"))
        if words.is_number(row.get(column))
    ]
    return [said, row["call"], *sizes]

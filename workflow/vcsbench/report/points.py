"""The points of a grid from the rows of a table: number, note, colour, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vcsbench import words
from vcsbench.compare.columns import keys_of
from vcsbench.compare.decisions import is_difference
from vcsbench.evidence.samework import OTHER, UNKNOWN
from vcsbench.metrics import metric_in
from vcsbench.report import colours
from vcsbench.report.grids import Point
from vcsbench.report.readings import MARKS, direction
from vcsbench.report.wanted import Record, WantedRow


def measured_points(
    definition: Mapping[str, Any], rows: Sequence[Record], wanted: Sequence[WantedRow]
) -> list[Point]:
    """A point for each row of a measured table and for each wanted row that it lacks."""
    names = list(wanted[0].keys) if wanted else []
    # Several of one cell, where a table tells more apart than axes.
    measured: dict[tuple[str, ...], list[Record]] = {}
    for row in rows:
        measured.setdefault(tuple(row[name] for name in names or keys_of(row)), []).append(row)
    points = []
    for one in wanted:
        known = measured.pop(tuple(one.keys.values()), [])
        points += [] if known else [_absent(one, None)]
        for row in known:
            if words.is_number(row["value"]):
                points.append(_measured(definition, row, keys_of(row), one.failures))
            else:
                points.append(_absent(replace(one, keys=keys_of(row)), row))
    others = [row for found in measured.values() for row in found]
    return points + [_measured(definition, row, keys_of(row), ()) for row in others]


def published_points(definition: Mapping[str, Any], rows: Sequence[Record]) -> list[Point]:
    """A point for each row of a published table."""
    return [
        _point(definition, True, keys=keys_of(row), kind="published", value=row["value"])
        for row in rows
        if words.is_number(row["value"])
    ]


def _point(definition: Mapping[str, Any], differs: bool, **said: Any) -> Point:
    """A point with a number; colour is for differences only."""
    value: float = said["value"]
    if not definition.get("compare"):
        return Point(**said)
    step = colours.class_of(colours.step(value), direction(definition))
    return Point(**said, text=words.percentage(value), colour=step if differs else "same")


def _absent(wanted: WantedRow, row: Record | None) -> Point:
    if wanted.skip:
        return Point(wanted.keys, "skipped", text="n/a", title=f"not measured: {wanted.skip}")
    if wanted.failures and row is None and not wanted.false:
        return Point(wanted.keys, "failed", text="failed", title="; ".join(wanted.failures))
    if row is not None and row.get("withheld"):
        said = {UNKNOWN: "unknown", OTHER: "other work"}
        text = next((said[flag] for flag in row["flags"].split() if flag in said), "left out")
        return Point(
            wanted.keys, "withheld", text=text, title=row["withheld"], reason=row["withheld"]
        )
    flags = row["flags"].split() if row is not None else wanted.false
    why = f"flagged {words.enumeration(list(flags))}" if flags else "no run of it counts"
    return Point(wanted.keys, "withheld", text="left out", title=f"{why}; see Marks and flags")


def _measured(
    definition: Mapping[str, Any], row: Record, keys: Mapping[str, str], failures: Sequence[str]
) -> Point:
    flags = row["flags"].split()
    notes = [*_interval(row), *failures]
    if flags:
        notes.append(f"flagged {words.enumeration(flags)}")
    if not definition.get("compare"):
        notes.insert(0, words.with_unit(row["value"], metric_in(definition).unit))
    return _point(
        definition,
        is_difference(row.get("call", "")),
        keys=keys,
        kind="measured",
        value=row["value"],
        mark="".join(sign for flag, sign in MARKS.items() if flag in flags),
        title="; ".join(notes),
    )


def _interval(row: Record) -> list[str]:
    n = f"n = {row['n']:.0f}" if words.is_number(row["n"]) else ""
    if not words.is_number(row["ratio"]):
        return [n] if n else []
    if not words.is_number(row["low"]):
        return [f"ratio {words.significant(row['ratio'])}, no interval, {n}"]
    low, high = words.significant(row["low"]), words.significant(row["high"])
    said = f"ratio {words.significant(row['ratio'])}, 95 % interval {low} to {high}, {n}"
    return [said, *_called(row)]


def _called(row: Record) -> list[str]:
    """The call of a comparison, the noise floor, and what could have been seen."""
    if not row.get("call"):
        return []
    sizes = [
        f"{name} {words.significant(row[column])}"
        for name, column in (("noise floor", "noise_floor"), ("detectable from", "detectable"))
        if words.is_number(row.get(column))
    ]
    return [row["call"], *sizes]

"""The points of a grid from the rows of a table: number, note, colour, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vcsbench import words
from vcsbench.evidence.samework import OTHER, UNKNOWN
from vcsbench.report import colours
from vcsbench.report.expected import Expected, Record
from vcsbench.report.grids import Point
from vcsbench.report.marks import JUDGED, LOW_N, MARKS


def measured_points(
    definition: Mapping[str, Any], rows: Sequence[Record], expected: Sequence[Expected]
) -> list[Point]:
    """A point for each row of a measured table and for each expected row that it lacks."""
    names = list(expected[0].keys) if expected else []
    measured = {tuple(row[name] for name in names or keys_of(row)): row for row in rows}
    points = []
    for wanted in expected:
        row = measured.pop(tuple(wanted.keys.values()), None)
        if row is None or not words.is_number(row["value"]):
            points.append(_absent(wanted, row))
        else:
            points.append(_measured(definition, row, wanted.keys, wanted.failures))
    return points + [_measured(definition, row, keys_of(row), ()) for row in measured.values()]


def published_points(definition: Mapping[str, Any], rows: Sequence[Record]) -> list[Point]:
    """A point for each row of a published table."""
    points = []
    for row in rows:
        if not words.is_number(row["value"]):
            continue
        text = words.percentage(row["value"]) if definition.get("compare") else ""
        colour = colours.class_of(colours.step(row["value"])) if definition.get("compare") else ""
        points.append(Point(keys_of(row), "published", row["value"], text, colour=colour))
    return points


def keys_of(row: Record) -> dict[str, str]:
    """The axis values of a table's row, a candidate included."""
    known = (
        "table",
        "baseline",
        "value",
        "ratio",
        "low",
        "high",
        "n",
        "flags",
        "withheld",
        *JUDGED,
    )
    return {name: value for name, value in row.items() if name not in known}


def _absent(wanted: Expected, row: Record | None) -> Point:
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
    mark = "".join(sign for flag, sign in MARKS.items() if flag in flags)
    flagged = [f"flagged {words.enumeration(flags)}"] if flags else []
    notes = [*_interval(row), *failures, *flagged]
    point = {"keys": keys, "kind": "measured", "value": row["value"], "mark": mark}
    if not definition.get("compare"):
        unit = "%" if definition.get("unit") == "%" else f" {definition.get('unit', '')}"
        return Point(
            **point, title="; ".join([f"{words.significant(row['value'], 4)}{unit}", *notes])
        )
    # Colour is for differences only: none where the interval has equality in it, or is missing.
    step = colours.step(row["value"]) if is_difference(row) else 0
    colour = colours.class_of(step) if is_difference(row) else "same"
    return Point(
        **point, text=words.percentage(row["value"]), title="; ".join(notes), colour=colour
    )


def is_difference(row: Record) -> bool:
    """Whether a row is called a difference; in a table without calls, whether its interval excludes
    1 over enough rounds."""
    if row.get("call"):
        return row["call"] in ("faster", "slower")
    if LOW_N in row["flags"].split():
        return False
    if not (words.is_number(row["low"]) and words.is_number(row["high"])):
        return False
    return bool(row["low"] > 1 or row["high"] < 1)


def _interval(row: Record) -> list[str]:
    n = f"n = {row['n']:.0f}" if words.is_number(row["n"]) else ""
    if not words.is_number(row["ratio"]):
        return [n] if n else []
    if not words.is_number(row["low"]):
        return [f"ratio {words.significant(row['ratio'])}, no interval, {n}"]
    low, high = words.significant(row["low"]), words.significant(row["high"])
    said = f"ratio {words.significant(row['ratio'])}, 95 % interval {low} to {high}, {n}"
    return [said, *_judged(row)]


def _judged(row: Record) -> list[str]:
    """The call of a comparison, the noise floor, and what could have been seen."""
    if not row.get("call"):
        return []
    sizes = [
        f"{name} {words.significant(row[column])}"
        for name, column in (("noise floor", "noise_floor"), ("detectable from", "detectable"))
        if words.is_number(row.get(column))
    ]
    return [row["call"], *sizes]

"""What the numbers of a table are, in words, and which way is the better one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vcsbench import words
from vcsbench.metrics import metric_in
from vcsbench.report.grids import Point
from vcsbench.report.records import Record
from vcsbench.statistics.contract import NOT_SHOWN, TOO_NOISY, TOO_SMALL

# Marks of a number for its flags, in order. Those of deviations are hidden until the reader asks for them.
MARKS = {"same-binaries": "=", "low-n": "?"}
DEVIATIONS = {"outlier-20": "‡", "outlier-10": "†"}
# Marks of a comparison without a difference, before those of its flags.
CALL_MARKS = {NOT_SHOWN: "≈", TOO_NOISY: "~", TOO_SMALL: "s"}
KEY = {
    "≈": "equal: the difference is below the smallest effect worth noting",
    "~": "undecided: too noisy",
    "s": "mostly start-up, decides nothing (hatched)",
    "=": "the same binaries under two names (A/A test)",
    "?": "too few rounds for an interval",
}


def key_of(definition: Mapping[str, Any], points: Iterable[Point]) -> list[tuple[str, str]]:
    """Return the key of a table: each mark and each sign that its points show, with its meaning."""
    shown = list(points)
    marks = {mark for point in shown for mark in point.mark}
    kinds = {point.kind for point in shown}
    found = [(mark, meaning) for mark, meaning in KEY.items() if mark in marks]
    if definition.get("compare"):
        found.append(("grey", "no difference is called"))
    else:
        found.append(("▁", "a bar as long as the number, against the largest of the table"))
    found.append(("·", "not in the grid, or not published"))
    found += [(word, meaning) for word, kind, meaning in ABSENT if kind in kinds]
    if any(point.deviation for point in shown):
        found.append(
            ("† ‡", "a run is more than 10 or 20 % from its cell's median (shown on request)")
        )
    return found


ABSENT = (
    ("n/a", "skipped", "cannot be measured here"),
    ("failed", "failed", "no round has a result"),
    ("left out", "withheld", "invalid runs or other work: point at it for the reason"),
)


def direction(definition: Mapping[str, Any]) -> int:
    """1 where a value above 0 (a ratio above 1), which is the baseline's against the candidate's, says that
    the candidate is better; -1 where it says that of the baseline."""
    return metric_in(definition).gain


def sides(definition: Mapping[str, Any]) -> tuple[str, str]:
    """What a table compares, the baseline and its candidates."""
    compare = definition["compare"]
    return compare["baseline"], " or ".join(compare["candidates"])


def has_interval(row: Record) -> bool:
    """Whether a row is a measured comparison over rounds: it is shown by its ratio wherever it is."""
    return words.is_number(row.get("ratio")) and words.is_number(row.get("low"))


def shown(row: Record) -> float:
    """The number of a row, wherever it is shown: of a comparison over rounds 100 x (ratio - 1), the geometric
    mean that its interval and its call are of; else the value as it was published."""
    return as_pct(row["ratio"]) if has_interval(row) else float(row["value"])


def as_pct(ratio: float) -> float:
    """A ratio as a deviation in per cent."""
    return 100 * (ratio - 1)


def written(ratio: float) -> str:
    """A ratio in per cent with its sign: `+7.2`, `+118`."""
    percent = as_pct(ratio)
    return words.percentage(percent, 0 if abs(percent) >= 9.95 else 1)


def interval(row: Record) -> str:
    """The interval of a comparison over rounds, in per cent."""
    return f"{written(row['low'])} to {written(row['high'])}"


def reading_of_measured(definition: Mapping[str, Any]) -> str:
    """Which reduction the measured numbers of a table that compares are of, and which the published ones."""
    reduced = {"median": "medians", "best": "the best runs", "worst": "the worst runs"}
    return (
        f"Measured: the geometric mean of the rounds' quotients, with its 95 % interval; reduced as "
        f"published: the quotient of {reduced[definition.get('reduce', 'median')]}."
    )


def reading(definition: Mapping[str, Any]) -> str:
    """What the numbers of a table are, in a sentence or two."""
    metric = metric_in(definition)
    reduced = definition.get("reduce", "median")
    if not definition.get("compare") and reduced != "median":
        return f"{metric.title}, in {metric.unit}: the {reduced} of all runs."
    if not definition.get("compare"):
        return metric.reading
    x, y = sides(definition)
    above = "above" if direction(definition) > 0 else "below"
    return (
        f"100 {words.TIMES} ({metric.quantity} {x} ÷ {metric.quantity} {y} {words.MINUS} 1), "
        f"in per cent: {above} 0, {y} {metric.words.is_better}."
    )

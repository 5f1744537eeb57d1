"""What the numbers of a table are, in words, and which way is the better one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vcsbench import words
from vcsbench.compare.decisions import NOT_SHOWN, TOO_NOISY
from vcsbench.metrics import metric_in
from vcsbench.report.records import Record

# The signs that stand beside a number for its flags, in the order in which they stand.
MARKS = {"same-binaries": "=", "off-20": "\N{DOUBLE DAGGER}", "off-10": "\N{DAGGER}", "low-n": "?"}
# Those of a comparison that is not called a difference, before those of its flags.
CALL_MARKS = {NOT_SHOWN: "\N{ALMOST EQUAL TO}", TOO_NOISY: "~"}
LEGEND = {
    MARKS["same-binaries"]: "the same binaries under two names (A/A)",
    MARKS["off-10"]: "a run is more than 10 % from its cell's median",
    MARKS["off-20"]: "a run is more than 20 % from its cell's median",
    MARKS["low-n"]: "fewer rounds than the threshold `min_rounds`",
}
LEGEND_OF_CALLS = {
    CALL_MARKS[NOT_SHOWN]: "no difference shown: the two differ by less than is worth noting",
    CALL_MARKS[TOO_NOISY]: "too noisy to say",
}


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

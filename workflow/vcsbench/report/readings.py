"""What the numbers of a table are, in words, and which way is the better one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vcsbench import words
from vcsbench.metrics import metric_in

# The signs that stand beside a number for its flags, in the order in which they stand.
MARKS = {"same-binaries": "=", "off-20": "\N{DOUBLE DAGGER}", "off-10": "\N{DAGGER}", "low-n": "?"}
LEGEND = {
    MARKS["same-binaries"]: "the same binaries under two names (A/A)",
    MARKS["off-10"]: "a run is more than 10 % from its cell's median",
    MARKS["off-20"]: "a run is more than 20 % from its cell's median",
    MARKS["low-n"]: "fewer rounds than the threshold `enough_rounds`",
}


def direction(definition: Mapping[str, Any]) -> int:
    """1 where a value above 0 (a ratio above 1), which is the baseline's against the candidate's, says that
    the candidate is better; -1 where it says that of the baseline."""
    return metric_in(definition).gain


def sides(definition: Mapping[str, Any]) -> tuple[str, str]:
    """What a table compares, the baseline and its candidates."""
    compare = definition["compare"]
    return compare["baseline"], " or ".join(compare["candidates"])


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
        f"in per cent: {above} 0, {y} is {metric.words[0]}."
    )

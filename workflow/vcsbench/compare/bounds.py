"""What a finding expects of its value, and where a value or an interval lies against it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from vcsbench import words
from vcsbench.compare.decisions import Limits
from vcsbench.compare.intervals import Estimate

REPRODUCED, DIFFERS = "reproduced", "differs"
INCONCLUSIVE, NOT_MEASURED = "inconclusive", "not measured"
TOO_SMALL = "too small to compare"

Finding = Mapping[str, Any]

# A value that so many rounds would not tell from a bound lies on it.
ROUNDS_AT_MOST = 1000


def values_of(wanted: Any) -> list[str]:
    """The values of an axis that a finding or a table names: one, or a list."""
    return [str(value) for value in (wanted if isinstance(wanted, list) else [wanted])]


def matches(cell: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Whether a cell is one of those that a finding or a table names; what it lacks does not matter."""
    return all(cell[a] in values_of(wanted) for a, wanted in where.items() if a in cell)


def in_words(finding: Finding) -> str:
    """What the value must be, as people write it: `1.8 to 4.0`, `at least 4.5`, `at most 0.7`."""
    low, high = (finding["expect"].get(bound) for bound in ("at_least", "at_most"))
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def holds(finding: Finding, value: float) -> bool:
    """Whether a value is what the finding expects."""
    low, high = _bounds(finding)
    return bool(low <= value <= high)


def distance(finding: Finding, value: float) -> float:
    """How far a value is from the nearest bound: of a comparison, as a difference of logarithms."""
    on = _measured_on(finding)
    bounds = [bound for bound in _bounds(finding) if math.isfinite(bound) and bound > 0]
    return min((abs(on(value) - on(bound)) for bound in bounds), default=math.inf)


def rounds_wanted(finding: Finding, measured: Estimate) -> float:
    """The rounds by which an interval would cross no bound, if value and scatter stay as they are; infinite
    where the value lies on one."""
    on, room = _measured_on(finding), distance(finding, measured.value)
    half = (on(measured.high) - on(measured.low)) / 2
    return math.ceil(measured.n * (half / room) ** 2) if room else math.inf


def verdict_of(finding: Finding, measured: Estimate, limits: Limits) -> tuple[str, tuple[str, ...]]:
    """The verdict on a measured value, by its interval alone, and what there is to say of it: why it is
    inconclusive, or that it is the other way round."""
    if not measured.n:
        return NOT_MEASURED, ()
    if measured.n < limits.min_rounds:
        return INCONCLUSIVE, (f"low n: {words.count_of(measured.n, 'round')}",)
    if holds(finding, measured.low) and holds(finding, measured.high):
        return REPRODUCED, ()
    low, high = _bounds(finding)
    if not (measured.high < low or measured.low > high):
        return INCONCLUSIVE, (f"interval: it crosses a bound{_how_long(finding, measured)}",)
    reverse = measured.high < 1 < low or high < 1 < measured.low
    return DIFFERS, ("the other way round",) if "compare" in finding and reverse else ()


def _how_long(finding: Finding, measured: Estimate) -> str:
    """What it would take until an interval crosses no bound, as a clause."""
    if not measured.error > 0:
        return ""
    wanted = rounds_wanted(finding, measured)
    if wanted > ROUNDS_AT_MOST:
        return ", on which the value lies"
    return f"; some {wanted:.0f} rounds would tell, and it has {measured.n}"


def _measured_on(finding: Finding) -> Callable[[float], float]:
    """What a value is measured on: ratios have logarithms, by which their intervals are even, too."""
    return math.log if "compare" in finding else float


def _bounds(finding: Finding) -> tuple[float, float]:
    expect = finding["expect"]
    return expect.get("at_least", -math.inf), expect.get("at_most", math.inf)

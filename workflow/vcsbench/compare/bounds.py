"""What a finding expects of its value, and where a value or an interval lies against it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from vcsbench import words
from vcsbench.compare.decisions import Limits
from vcsbench.compare.intervals import Estimate

REPRODUCED, DIFFERS = "reproduced", "differs"
INCONCLUSIVE, NOT_MEASURED = "inconclusive", "not measured"

Finding = Mapping[str, Any]


def in_words(finding: Finding) -> str:
    """What the value must be, as people write it: `1.8 to 4.0`, `at least 4.5`, `at most 0.7`."""
    low, high = (finding["expect"].get(bound) for bound in ("at_least", "at_most"))
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def holds(finding: Finding, value: float) -> bool:
    """Whether a value is what the finding expects."""
    expect = finding["expect"]
    return bool(expect.get("at_least", -math.inf) <= value <= expect.get("at_most", math.inf))


def verdict_of(
    finding: Finding, measured: Estimate, floor: float, limits: Limits
) -> tuple[str, tuple[str, ...]]:
    """The verdict on a measured value, and why it is inconclusive: with too few rounds, where the interval
    crosses a bound, and where it does so once it is widened by the noise floor."""
    if not measured.n:
        return NOT_MEASURED, ()
    if measured.n < limits.enough_rounds:
        return INCONCLUSIVE, (f"low n: {words.count_of(measured.n, 'round')}",)
    word = _side(finding, measured.low, measured.high)
    if not word:
        return INCONCLUSIVE, ("interval: it crosses a bound",)
    if math.isnan(floor):
        return word, ("noise unknown: no cell of its classes was measured twice",)
    if floor > 1:
        low, high = measured.low, measured.high * floor
        low = low / floor if low > 0 else low * floor
        if not _side(finding, low, high):
            said = f"noise: widened by the noise floor of {floor:.3g} the interval crosses a bound"
            return INCONCLUSIVE, (said,)
    return word, ()


def _side(finding: Finding, low: float, high: float) -> str:
    """Where an interval lies against the bounds; "" where it crosses one."""
    if holds(finding, low) and holds(finding, high):
        return REPRODUCED
    expect = finding["expect"]
    below = high < expect.get("at_least", -math.inf)
    above = low > expect.get("at_most", math.inf)
    return DIFFERS if below or above else ""

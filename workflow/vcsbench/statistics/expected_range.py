"""Return the range in which the value of a finding is expected, from its key `expect`.

A statement has numbers ("two to three times as fast": `at_least`, `at_most`) or only a direction ("much
slower": `direction`). This module imports neither numpy nor pandas, because pages import it first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vcsbench.codes import Direction, RangePlace


@dataclass(frozen=True)
class ExpectedRange:
    """The expected values, from `low` to `high`; -inf or inf is an open end.

    `direction` is None if the statement has numbers. With a direction, `low` and `high` are ratios
    metric(baseline) / metric(candidate).
    """

    low: float
    high: float
    direction: Direction | None = None

    def contains(self, value: float) -> bool:
        """Return True if the value is expected. NaN is not."""
        return self.low <= value <= self.high

    def side_of(self, value: float) -> int:
        """Return 1 for a value above the range, -1 below it, otherwise 0."""
        return (value > self.high) - (value < self.low)

    def place_of(self, low: float, high: float) -> RangePlace:
        """Return the place of the interval from `low` to `high`; OPEN if it crosses an end, or has NaN."""
        if self.contains(low) and self.contains(high):
            return RangePlace.INSIDE
        if high < self.low:
            return RangePlace.BELOW
        if low > self.high:
            return RangePlace.ABOVE
        return RangePlace.OPEN

    @property
    def is_direction(self) -> bool:
        """Return True for `faster` and `slower`: the statement has a direction, but no number."""
        return self.direction in (Direction.FASTER, Direction.SLOWER)

    def states_effect(self, margin: float) -> bool:
        """Return True if the finding states a faster or slower candidate: `faster`, or at least 1.8.

        With the margin 1.1, a range such as 1.05 to 1.25 states no effect, because it has values below 1.1.
        """
        if self.direction:
            return self.is_direction
        return self.low > margin or self.high < 1 / margin


def expected_range(expect: Mapping[str, Any], margin: float) -> ExpectedRange:
    """Return the range in which the value of a finding is expected, by its key `expect`.

    `{"at_least": 1.8}` gives 1.8 to infinity. A direction gives ratios: `{"direction": "slower"}` is 0 to 1,
    and `{"direction": "equal"}` with the margin 1.1 is 1 / 1.1 to 1.1.
    """
    if "direction" not in expect:
        return ExpectedRange(expect.get("at_least", -math.inf), expect.get("at_most", math.inf))
    direction = Direction(expect["direction"])
    ends = {
        # The margin is no end of these two: finding_verdicts.judge_direction() finds slight effects.
        Direction.FASTER: (1.0, math.inf),
        Direction.SLOWER: (0.0, 1.0),
        Direction.EQUAL: (1 / margin, margin),
        # The candidate may be slower, but must not be faster by the margin.
        Direction.NOT_FASTER: (0.0, margin),
    }
    low, high = ends[direction]
    return ExpectedRange(low, high, direction)


def range_text(
    expect: Mapping[str, Any],
    margin: float,
    unit: str = "",
    words: tuple[str, str] = ("faster", "slower"),
) -> str:
    """Return the range in words: `1.5x to 3.5x`, `at least 84 %`, `slower`, or `equal within 10 %`.

    `unit` follows each number of a range, such as `x` or ` %`. `words` describe a candidate whose ratio
    baseline / candidate is above 1, and one whose ratio is below 1: ("less", "more") for a count.
    """
    above, below = words
    expected = expected_range(expect, margin)
    if expected.direction:
        directions = {
            Direction.FASTER: above,
            Direction.SLOWER: below,
            Direction.EQUAL: f"equal within {100 * (margin - 1):g} %",
            Direction.NOT_FASTER: f"not {above}",
        }
        return directions[expected.direction]
    # With more than 12 digits, a sum such as 0.1 + 0.2 would be shown as 0.30000000000000004.
    low = f"{expected.low:.12g}{unit}"
    high = f"{expected.high:.12g}{unit}"
    if math.isinf(expected.high):
        return f"at least {low}"
    if math.isinf(expected.low):
        return f"at most {high}"
    return f"{low} to {high}"

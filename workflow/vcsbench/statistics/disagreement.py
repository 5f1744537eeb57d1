"""Tell if the values of several pairs or cells disagree, so that the verdict on their finding is mixed.

`margin` is the factor from which a difference counts, such as 1.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from vcsbench.codes import RangePlace
from vcsbench.statistics.estimates import Estimate
from vcsbench.statistics.expected_range import ExpectedRange


def _is_below(estimate: Estimate, expected: ExpectedRange, margin: float) -> bool:
    """Return True if the whole interval is below the expected range by more than the margin."""
    return estimate.high < expected.low / margin


def _is_above(estimate: Estimate, expected: ExpectedRange, margin: float) -> bool:
    """Return True if the whole interval is above the expected range by more than the margin."""
    return estimate.low > expected.high * margin


def are_below_and_above(
    estimates: Sequence[Estimate], expected: ExpectedRange, margin: float
) -> bool:
    """Return True if one is below the range and another above it: 1.0 and 4.5 for the range 1.5 to 3.5."""
    has_below = any(_is_below(each, expected, margin) for each in estimates)
    has_above = any(_is_above(each, expected, margin) for each in estimates)
    return has_below and has_above


def are_faster_and_slower(ratios: Sequence[Estimate], margin: float) -> bool:
    """Return True if one pair is faster and another slower: 1.3 (1.2 to 1.4) and 0.8 (0.7 to 0.9).

    The whole interval is on one side of 1, and the ratio itself differs from 1 by the margin or more.
    """
    has_faster = any(each.low > 1 and each.value >= margin for each in ratios)
    has_slower = any(each.high < 1 and each.value <= 1 / margin for each in ratios)
    return has_faster and has_slower


def are_inside_and_outside(
    estimates: Sequence[Estimate], expected: ExpectedRange, margin: float
) -> bool:
    """Return True if one is inside the range and another outside: 98 % and 46 % for `at_least: 84`."""
    places = [expected.place_of(each.low, each.high) for each in estimates]
    has_below = any(_is_below(each, expected, margin) for each in estimates)
    has_above = any(_is_above(each, expected, margin) for each in estimates)
    return RangePlace.INSIDE in places and (has_below or has_above)

"""The verdict on a measured value: does it lie in the expected range, and how does it differ otherwise?

The verdict uses the whole interval. A value is reproduced only if both ends of its interval are expected, and
differs only if neither end nor anything between them is. Everything else is undecided: more rounds may tell.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from vcsbench.codes import Direction, ReasonCode, Verdict
from vcsbench.statistics.comparisons import CALLED_ROUNDS, Limits
from vcsbench.statistics.estimates import Estimate
from vcsbench.statistics.expected_range import ExpectedRange, expected_range
from vcsbench.statistics.verdicts import Reason

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition

# A value that needs more rounds than this lies on its bound.
MAX_ROUNDS = 1000


class ValueVerdict(NamedTuple):
    """The verdict on a value, and the reasons of it."""

    verdict: Verdict
    reasons: list[Reason]


def judge_value(
    finding: FindingDefinition, measured: Estimate, limits: Limits, has_duplicates: bool = True
) -> ValueVerdict:
    """Return the verdict on a measured value of a finding.

    Examples: at least 1.8 times is expected. 2.0 (1.9 to 2.1) is reproduced, 1.2 (1.1 to 1.3) weaker, 2.0
    (1.7 to 2.3) undecided. If `faster` is expected, 1.2 (1.1 to 1.3) is reproduced, and 1.03 (1.01 to 1.05)
    is gone: a difference below the margin is no effect.
    """
    if measured.n < CALLED_ROUNDS:
        return ValueVerdict(Verdict.UNDECIDED, [Reason(ReasonCode.FEW_ROUNDS)])
    remarks = [] if has_duplicates else [Reason(ReasonCode.NO_DUPLICATES)]
    expected = expected_range(finding["expect"], limits.margin)
    if expected.states_effect and _is_equal(measured, limits):
        return ValueVerdict(Verdict.GONE, remarks)
    if expected.contains(measured.low) and expected.contains(measured.high):
        return ValueVerdict(Verdict.REPRODUCED, remarks)
    if measured.high < expected.low or measured.low > expected.high:
        return ValueVerdict(find_direction(finding, expected, measured, limits), remarks)
    return ValueVerdict(Verdict.UNDECIDED, [*remarks, _why_undecided(finding, expected, measured)])


def _is_equal(measured: Estimate, limits: Limits) -> bool:
    """Return True if the whole interval of a ratio is closer to 1 than the margin."""
    return 1 / limits.margin <= measured.low and measured.high <= limits.margin


def find_direction(
    finding: FindingDefinition, expected: ExpectedRange, measured: Estimate, limits: Limits
) -> Verdict:
    """Return how a value outside of its expected range differs from it.

    A finding on levels, such as "the CPU is at least 90 % busy", is weaker below its range and stronger
    above. For a finding on ratios, the side of 1 counts as well: expected at least 1.8 and measured 0.7 is
    reversed.
    """
    expects_effect = expected.low > limits.margin or expected.high < 1 / limits.margin
    if measured.is_ratio and expects_effect and _is_equal(measured, limits):
        return Verdict.GONE
    if "compare" not in finding:
        return Verdict.WEAKER if measured.value < expected.low else Verdict.STRONGER
    if expected.states_effect or expected.direction == Direction.NOT_FASTER:
        return Verdict.REVERSED
    # "No difference" was published, and there is one.
    if expected.contains(1):
        return Verdict.STRONGER
    if expected.low > 1:
        if measured.high < 1:
            return Verdict.REVERSED
        return Verdict.WEAKER if measured.value < expected.low else Verdict.STRONGER
    # The candidate was published as slower: a ratio below 1, and a smaller one is the stronger effect.
    if measured.low > 1:
        return Verdict.REVERSED
    return Verdict.WEAKER if measured.value > expected.high else Verdict.STRONGER


def _why_undecided(
    finding: FindingDefinition, expected: ExpectedRange, measured: Estimate
) -> Reason:
    """Return the number of rounds that should decide a value whose interval crosses a bound.

    A half width shrinks with the root of the rounds. Example: after 5 rounds, the half width is 0.06 and
    the bound 0.03 away. It must shrink to a half, which takes 5 x 2^2 = 20 rounds.
    """
    # A saved baseline gets no more rounds, and its part of the error stays.
    if "to" in finding.get("compare", {}):
        return Reason(ReasonCode.SAVED_ROUNDS)
    # Intervals of ratios are symmetric as logarithms.
    scale = math.log if measured.is_ratio else float
    value = scale(measured.value)
    shrink = 0.0
    for bound in (expected.low, expected.high):
        if measured.low <= bound <= measured.high:
            end = measured.high if bound > measured.value else measured.low
            half_width = scale(end) - value
            room = scale(bound) - value
            shrink = max(shrink, half_width / room if room else math.inf)
    needed = measured.n * shrink**2
    if needed > MAX_ROUNDS:
        return Reason(ReasonCode.ON_BOUND)
    return Reason(ReasonCode.NEEDS_ROUNDS, {"needed": math.ceil(needed), "n": measured.n})

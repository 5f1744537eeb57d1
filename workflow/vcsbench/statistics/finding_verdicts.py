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

# If more rounds than this were needed, the value is as good as equal to an end of the expected range.
MAX_ROUNDS = 1000


class ValueVerdict(NamedTuple):
    """The verdict on a value, and the reasons of it."""

    verdict: Verdict
    reasons: list[Reason]


def judge_value(
    finding: FindingDefinition, measured: Estimate, limits: Limits, has_duplicates: bool = True
) -> ValueVerdict:
    """Return the verdict on a measured value of a finding.

    `measured` has the value and its 95 % interval. The first rule that applies decides:

    1. A single round has no interval: undecided.
    2. The finding states an effect by a direction, and the interval is within the margin of 1: gone.
    3. Both ends of the interval are in the expected range: reproduced.
    4. The whole interval is outside of the range: weaker, stronger, gone or reversed (find_direction).
    5. The interval crosses an end of the range: undecided, with the number of rounds that should decide.

    Without duplicates (`has_duplicates`), a part of the noise is unknown, which a reason tells.

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
    """Return how a value differs whose whole interval is outside of its expected range.

    The first rule that applies decides:

    - An effect beyond the margin was published, and the whole interval is within the margin of 1: gone.
    - A finding that compares nothing, such as "the CPU is at least 90 % busy": weaker below the range,
      stronger above it.
    - "Faster", "slower" or "not faster" was stated, and the value is on the other side: reversed.
    - "No difference" was stated (the range contains 1): stronger, because there is a difference.
    - A ratio above 1 was stated, such as at least 1.8: 0.7 (0.6 to 0.8) is reversed, 1.3 weaker, and a value
      above the range stronger.
    - A ratio below 1 was stated: the same with the other sign. Above 1 it is reversed. Between the range and
      1 it is weaker, and below the range stronger.
    """
    expects_effect = expected.low > limits.margin or expected.high < 1 / limits.margin
    if measured.is_ratio and expects_effect and _is_equal(measured, limits):
        return Verdict.GONE
    if "compare" not in finding:
        return Verdict.WEAKER if measured.value < expected.low else Verdict.STRONGER
    if expected.states_effect or expected.direction == Direction.NOT_FASTER:
        return Verdict.REVERSED
    # "No difference" was published. Any value outside of the range is a difference.
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
    """Return the reason why a value is undecided whose interval crosses an end of the expected range.

    Usually it tells how many rounds should decide. The half width of an interval shrinks with the root of the
    rounds. Example: after 5 rounds, the half width is 0.06, and the end of the range is 0.03 away. The half
    width must shrink to a half, which takes 5 x 2^2 = 20 rounds. Above MAX_ROUNDS, the reason is ON_BOUND:
    the value is so close to the end that more rounds help very little.
    """
    # More rounds make only the current part of the error smaller. That of a saved baseline stays, so no
    # number of rounds can be promised.
    if "to" in finding.get("compare", {}):
        return Reason(ReasonCode.SAVED_ROUNDS)
    # The interval of a ratio is symmetric on a logarithmic scale: 2.0 (1.0 to 4.0). So half widths of ratios
    # are measured as logarithms.
    scale = math.log if measured.is_ratio else float
    value = scale(measured.value)
    # How many times narrower the interval must become. It may cross both ends of the range.
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

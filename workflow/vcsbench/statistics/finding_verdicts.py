"""The verdict on a measured value: does it lie in the expected range, and how does it differ otherwise?

The verdict uses the whole interval. A value is reproduced only if both ends of its interval are expected, and
differs only if neither end nor anything between them is. Everything between is undecided.
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
MAX_ROUNDS = 100


class ValueVerdict(NamedTuple):
    """The verdict on a value, and the reasons of it."""

    verdict: Verdict
    reasons: list[Reason]


def judge_value(
    finding: FindingDefinition, measured: Estimate, limits: Limits, has_duplicates: bool = True
) -> ValueVerdict:
    """Return the verdict on a measured value of a finding, by its 95 % interval, and the reasons of it.

    Examples for `at_least: 1.8`: 2.0 (1.9 to 2.1) is reproduced, 1.2 (1.1 to 1.3) weaker, 2.0 (1.7 to 2.3)
    undecided, and 1.03 (1.01 to 1.05) gone, because it shows no effect.

    With fewer than two rounds (CALLED_ROUNDS), the value is undecided with the only reason FEW_ROUNDS.
    `has_duplicates` is False if no cell was measured twice: a part of the noise is unknown. After two or more
    rounds, every verdict then has the reason NO_DUPLICATES, also UNDECIDED.
    """
    if measured.n < CALLED_ROUNDS:
        return ValueVerdict(Verdict.UNDECIDED, [Reason(ReasonCode.FEW_ROUNDS)])
    remarks = [] if has_duplicates else [Reason(ReasonCode.NO_DUPLICATES)]
    expected = expected_range(finding["expect"], limits.margin)
    # An effect is a ratio that differs from 1 by the margin (such as 1.1) or more. A stated effect, such as
    # `faster`, is gone if the whole interval is within the margin. This check comes before the check for
    # REPRODUCED, because `faster` expects all ratios above 1, and 1.03 (1.01 to 1.05) is among them.
    if measured.is_ratio and expected.states_effect(limits.margin):
        is_equal = 1 / limits.margin <= measured.low and measured.high <= limits.margin
        if is_equal:
            return ValueVerdict(Verdict.GONE, remarks)
    if expected.contains(measured.low) and expected.contains(measured.high):
        return ValueVerdict(Verdict.REPRODUCED, remarks)
    if measured.high < expected.low or measured.low > expected.high:
        return ValueVerdict(verdict_outside_range(expected, measured, limits.margin), remarks)
    # The interval crosses an end of the range. The reason is, for example, that more rounds are needed.
    reason = _why_undecided(finding, expected, measured, limits.margin)
    return ValueVerdict(Verdict.UNDECIDED, [*remarks, reason])


def verdict_outside_range(expected: ExpectedRange, measured: Estimate, margin: float) -> Verdict:
    """Return weaker, stronger, gone or reversed for a value whose whole interval is outside of its range.

    `margin` is the smallest ratio worth noting, such as 1.1. Examples (above 1, the candidate is faster):

    - `1.8 to 2.5`: 1.3 is weaker, 3.0 stronger, 0.7 reversed, and 0.94 gone.
    - `0.93 to 1.0` (slower by up to 7 %): 0.8 is stronger, 1.2 reversed.
    - `equal`, or `0.95 to 1.05` (values on both sides of 1): any value is stronger, because it differs more.
    - `not faster`: any value is reversed, because the candidate is faster.
    """
    is_above = measured.low > expected.high
    # Only a ratio is compared with 1. A value that is no ratio, such as a CPU that is 90 % busy, can only be
    # above or below its range.
    if not measured.is_ratio:
        return Verdict.STRONGER if is_above else Verdict.WEAKER
    # `not faster` expects 0 to 1.1 (the margin), so a ratio outside of the range is above 1.1.
    if expected.direction == Direction.NOT_FASTER:
        return Verdict.REVERSED
    states_faster = expected.low >= 1 and expected.high > 1
    states_slower = expected.high <= 1 and expected.low < 1
    # A range with values on both sides of 1 states equality. A value outside of it shows more of a difference
    # than stated.
    if not states_faster and not states_slower:
        return Verdict.STRONGER
    # A stronger effect is farther from 1, and a reversed one is on the other side of 1.
    if states_faster:
        is_stronger = is_above
        is_on_other_side = measured.high < 1
    else:
        is_stronger = not is_above
        is_on_other_side = measured.low > 1
    if is_stronger:
        return Verdict.STRONGER
    if not is_on_other_side:
        return Verdict.WEAKER
    # The value is on the other side of 1. As in tables, a difference below the margin counts as equal. So the
    # stated effect is gone. If the range itself states no effect (0.93 to 1.0 is below the margin, too), the
    # value is reversed.
    is_slight = 1 / margin < measured.value < margin
    if is_slight and expected.states_effect(margin):
        return Verdict.GONE
    return Verdict.REVERSED


def _why_undecided(
    finding: FindingDefinition, expected: ExpectedRange, measured: Estimate, margin: float
) -> Reason:
    """Return the reason why a value is undecided whose interval crosses an end of the expected range.

    - SAVED_ROUNDS: the finding compares with a saved baseline, so no number of rounds can be promised.
    - NEEDS_ROUNDS: this reason has the total number of rounds that should decide. Example: after 5 rounds,
      the half width of the interval is 0.06, and the end of the range is 0.03 away from the value. The half
      width must shrink to a half. That takes 5 x 2^2 = 20 rounds, because a half width shrinks with the root
      of the rounds.
    - ON_BOUND: more than 100 rounds (MAX_ROUNDS) would be needed.

    `margin` is the smallest ratio worth noting, such as 1.1.
    """
    # The key `to` names a saved baseline. The error has a part of the current rounds and a part of the
    # baseline's rounds. More rounds make only the first part smaller.
    if "to" in finding.get("compare", {}):
        return Reason(ReasonCode.SAVED_ROUNDS)
    # The interval of a ratio, or of a geometric mean, is symmetric on a logarithmic scale: 2.0 (1.0 to 4.0).
    # So its distances are measured between logarithms.
    scale = math.log if measured.is_log else float
    value, low, high = scale(measured.value), scale(measured.low), scale(measured.high)
    # `shrink` is how many times narrower the interval must become, so that it crosses no end of the range.
    # If it crosses both ends, the one that takes more shrinking decides.
    shrink = 0.0
    for bound in (expected.low, expected.high):
        if measured.low <= bound <= measured.high:
            # The half of the interval that contains the bound, above or below the value, must become shorter
            # than the distance to the bound.
            half_width = high - value if bound > measured.value else value - low
            distance = abs(scale(bound) - value)
            # If the value lies on the bound, no interval is narrow enough.
            shrink = max(shrink, half_width / distance if distance else math.inf)
    # A value near 1 may need fewer rounds for another verdict. A stated effect, such as `faster`, is gone as
    # soon as the whole interval is between 1 / margin and margin (judge_value). Example: 1.005 lies nearly on
    # the end 1 of the range of `faster`, but is far from 1.1.
    can_be_gone = measured.is_ratio and expected.states_effect(margin)
    if can_be_gone and 1 / margin < measured.value < margin:
        # The logarithms of 1 / margin and margin.
        lower_limit, upper_limit = -math.log(margin), math.log(margin)
        shrink_above = (high - value) / (upper_limit - value)
        shrink_below = (value - low) / (value - lower_limit)
        shrink_until_gone = max(shrink_above, shrink_below)
        # The verdict that needs fewer rounds comes first.
        shrink = min(shrink, shrink_until_gone)
    needed = measured.n * shrink**2
    if needed > MAX_ROUNDS:
        return Reason(ReasonCode.ON_BOUND)
    return Reason(ReasonCode.NEEDS_ROUNDS, {"needed": math.ceil(needed), "n": measured.n})

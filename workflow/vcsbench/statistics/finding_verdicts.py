"""The verdict on a measured value: does it lie in the expected range, and how does it differ otherwise?

The verdict uses the whole interval. A value is reproduced only if both ends of its interval are expected, and
differs only if neither end nor anything between them is. Everything between is undecided. A statement that is
only `faster` or `slower` has no range of numbers. Its verdict follows the classes in which tables count
comparisons, so that a table and a finding never disagree about a small difference.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from vcsbench.codes import Call, Direction, RangePlace, ReasonCode, Result, Verdict
from vcsbench.metrics import METRICS, name_in
from vcsbench.statistics.calls import COUNT_TOLERANCE
from vcsbench.statistics.comparisons import CALLED_ROUNDS, Limits, classify_call
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

    Verdicts on the statement `at_least: 1.8`:

    - reproduced: 2.0 (1.9 to 2.1), because the whole interval is inside the range.
    - undecided: 2.0 (1.7 to 2.3), because the interval crosses an end of the range.
    - weaker: 1.2 (1.1 to 1.3), because the whole interval is outside. Likewise stronger and reversed.
    - gone: 1.03 (1.01 to 1.05), because a difference below 10 % (the margin) counts as no effect.

    A direction without a number, such as `faster`, is judged as tables judge a ratio: 1.3 (1.2 to 1.4) is
    reproduced, and 1.08 (1.05 to 1.12) is gone. `has_duplicates` is False if no cell was measured twice to
    show how much equal cells differ. A part of the noise is then unknown (reason NO_DUPLICATES).
    """
    if measured.n < CALLED_ROUNDS:
        return ValueVerdict(Verdict.UNDECIDED, [Reason(ReasonCode.FEW_ROUNDS)])
    reasons = [] if has_duplicates else [Reason(ReasonCode.NO_DUPLICATES)]
    expected = expected_range(finding["expect"], limits.margin)
    if expected.is_direction:
        is_count = METRICS[name_in(finding)].exact
        verdict = judge_direction(expected, measured, limits, is_count)
    else:
        verdict = _judge_by_range(expected, measured, limits.margin)
    if verdict == Verdict.UNDECIDED:
        reasons.append(_why_undecided(finding, expected, measured, limits.margin))
    return ValueVerdict(verdict, reasons)


def judge_direction(
    expected: ExpectedRange, measured: Estimate, limits: Limits, is_count: bool = False
) -> Verdict:
    """Return the verdict on a ratio that is expected to be `faster` or `slower`, with the classes of tables.

    A difference is reproduced on the expected side of 1, otherwise reversed. An equal one is gone: 1.08 (1.05
    to 1.12) is certain, but below the margin. Counts have no margin (comparisons.classify_call).
    """
    result = _class_of_interval(measured, limits, is_count)
    if result == Result.EQUAL:
        return Verdict.GONE
    if result != Result.DIFFERENT:
        return Verdict.UNDECIDED
    return Verdict.REPRODUCED if expected.contains(measured.value) else Verdict.REVERSED


def _class_of_interval(measured: Estimate, limits: Limits, is_count: bool) -> Result:
    """Return the class of a ratio as in tables: DIFFERENT, EQUAL or UNDECIDED.

    If the 95 % interval contains 1, the ratio is UNDECIDED, or EQUAL if the interval is within the margin.
    Otherwise, the ratio differs for certain. It is DIFFERENT by the margin or more, and EQUAL below, such as
    1.08 (1.05 to 1.12). For counts, a difference above 1 % is enough (COUNT_TOLERANCE).
    """
    differs_for_certain = measured.low > 1 or measured.high < 1
    if not differs_for_certain:
        return Result.EQUAL if _is_within_margin(measured, limits.margin) else Result.UNDECIDED
    is_tiny = abs(math.log(measured.value)) <= math.log1p(COUNT_TOLERANCE)
    if is_count and is_tiny:
        return Result.EQUAL
    call = Call.FASTER if measured.value > 1 else Call.SLOWER
    # The margin decides. The result is None only for an empty call.
    result = classify_call(call, measured.value, limits, is_count)
    assert result is not None
    return result


def _is_within_margin(measured: Estimate, margin: float) -> bool:
    """Return True if the whole interval of a ratio is within the margin around 1."""
    return 1 / margin <= measured.low and measured.high <= margin


def _judge_by_range(expected: ExpectedRange, measured: Estimate, margin: float) -> Verdict:
    """Return the verdict on a value whose range has numbers, or is `equal` or `not faster`."""
    # A stated effect, such as `at_least: 1.8`, is gone if the whole interval is within the margin.
    states_effect = measured.is_ratio and expected.states_effect(margin)
    if states_effect and _is_within_margin(measured, margin):
        return Verdict.GONE
    place = expected.place_of(measured.low, measured.high)
    if place == RangePlace.INSIDE:
        return Verdict.REPRODUCED
    if place == RangePlace.OPEN:
        return Verdict.UNDECIDED
    return verdict_outside_range(expected, measured, margin)


def verdict_outside_range(expected: ExpectedRange, measured: Estimate, margin: float) -> Verdict:
    """Return weaker, stronger, gone or reversed for a value whose whole interval is outside of its range.

    Examples with the margin 1.1 (above 1, the candidate is faster):

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
    # A range with values on both sides of 1 states equality.
    if not states_faster and not states_slower:
        return Verdict.STRONGER
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
    # As in tables, a difference below the margin counts as equal, so the stated effect is gone. If the range
    # itself states no effect (0.93 to 1.0 is below the margin, too), the value is reversed.
    is_slight = 1 / margin < measured.value < margin
    if is_slight and expected.states_effect(margin):
        return Verdict.GONE
    return Verdict.REVERSED


def _why_undecided(
    finding: FindingDefinition, expected: ExpectedRange, measured: Estimate, margin: float
) -> Reason:
    """Return the reason why a value is undecided whose interval crosses an end of the expected range.

    - SAVED_ROUNDS: the finding compares with a saved baseline. A part of the error comes from its rounds, and
      more rounds now do not make that part smaller.
    - NEEDS_ROUNDS: so many rounds in total should decide. Example: after 5 rounds, the interval must become 2
      times narrower. Its width shrinks with the root of the rounds, so 5 x 2^2 = 20 rounds are needed.
    - ON_BOUND: more than 100 rounds (MAX_ROUNDS) would be needed.
    """
    compares_with_saved_baseline = "to" in finding.get("compare", {})
    if compares_with_saved_baseline:
        return Reason(ReasonCode.SAVED_ROUNDS)
    shrink = _shrink_to_clear_range(expected, measured)
    # The verdict GONE (no effect: the whole interval is within the margin) may need fewer rounds. Example:
    # 1.005 lies nearly on 1, the end of the range of `faster`, but far from the margin 1.1.
    can_be_gone = measured.is_ratio and expected.states_effect(margin)
    if can_be_gone and 1 / margin < measured.value < margin:
        shrink = min(shrink, _shrink_to_fit_margin(measured, margin))
    needed = measured.n * shrink**2
    if needed > MAX_ROUNDS:
        return Reason(ReasonCode.ON_BOUND)
    return Reason(ReasonCode.NEEDS_ROUNDS, {"needed": math.ceil(needed), "n": measured.n})


def _shrink_to_clear_range(expected: ExpectedRange, measured: Estimate) -> float:
    """Return how many times narrower an interval must become, so that it crosses no end of the range.

    Example: an interval reaches 0.06 above its value, and the upper end of the range is 0.03 above the value.
    Then the result is 2. If both ends are crossed, the larger factor is returned.
    """
    # The interval of a ratio, or of a geometric mean, is symmetric on a logarithmic scale: 2.0 (1.0 to 4.0).
    scale = math.log if measured.is_log else float
    value, low, high = scale(measured.value), scale(measured.low), scale(measured.high)
    shrink = 0.0
    for bound in (expected.low, expected.high):
        is_crossed = measured.low <= bound <= measured.high
        if is_crossed:
            # The half of the interval that contains the bound must become shorter than the distance to it.
            half_width = high - value if bound > measured.value else value - low
            distance = abs(scale(bound) - value)
            # If the value lies on the bound, no interval is narrow enough.
            shrink = max(shrink, half_width / distance if distance else math.inf)
    return shrink


def _shrink_to_fit_margin(measured: Estimate, margin: float) -> float:
    """Return how many times narrower the interval of a ratio must become to lie within the margin around 1.

    The ratio itself lies within the margin. Logarithms are used, because the interval is symmetric in them.
    """
    value, low, high = math.log(measured.value), math.log(measured.low), math.log(measured.high)
    lower_limit, upper_limit = -math.log(margin), math.log(margin)
    shrink_above = (high - value) / (upper_limit - value)
    shrink_below = (value - low) / (value - lower_limit)
    return max(shrink_above, shrink_below)

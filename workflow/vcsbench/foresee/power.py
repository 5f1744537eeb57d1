"""What difference some rounds can show, and how many rounds show a difference: for one comparison alone,
round by round, by the rule that tables are called by (compare.family)."""

from __future__ import annotations

import math
from bisect import bisect_left

from vcsbench.statistics.contract import NOISY_PCT, Limits
from vcsbench.statistics.multiple_testing import detectable_effect

# Errors are learned over the comparisons of a kind together, which are at least so many.
LEARNED_FROM = 10

# Nobody measures more.
ROUNDS_AT_MOST = 10_000
FEWEST = 2
# As a logarithm; what takes more is not shown at all.
LARGEST = 10.0


def shown_pct(scatter: float, rounds: int) -> float:
    """The smallest difference in per cent that is called one in 9 of 10 experiments, where a round's time
    scatters by `scatter` (a standard deviation, as a share)."""
    # A comparison is of two times in each round.
    error = math.log1p(scatter) * math.sqrt(2 / rounds)
    degrees = LEARNED_FROM * (rounds - 1)
    return 100 * math.expm1(min(float(detectable_effect(error, degrees)), LARGEST))


def rounds_said(scatter: float, limits: Limits) -> str:
    """`10 % differences take some 40 rounds`, and on a noisy machine how many it takes to show what is worth
    noting there."""
    notable = dict.fromkeys(
        [limits.min_effect_pct, limits.on_machine(math.log1p(scatter)).min_effect_pct]
    )
    first, *more = ((f"{pct:g} %", rounds_for(scatter, pct)) for pct in notable)
    noisy = f" (what counts where runs scatter by more than {NOISY_PCT:g} %)"
    also = "".join(f", {pct} ones{noisy} {rounds}" for pct, rounds in more)
    return f"{first[0]} differences take some {first[1]} rounds{also}"


def rounds_for(scatter: float, difference_pct: float) -> int:
    """The fewest rounds that show a difference of so many per cent."""
    numbers = range(FEWEST, ROUNDS_AT_MOST)
    return FEWEST + bisect_left(
        numbers, True, key=lambda n: shown_pct(scatter, n) <= difference_pct
    )

"""What difference some rounds can show, and how many rounds show a difference: for one comparison alone,
round by round, by the rule that tables are called by (compare.family)."""

from __future__ import annotations

import math

from vcsbench.compare.family import EACH
from vcsbench.compare.intervals import POWER, t_quantile

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
    quantiles = t_quantile(degrees, 1 - EACH) + t_quantile(degrees, 2 * POWER - 1)
    return 100 * math.expm1(min(quantiles * error, LARGEST))


def rounds_for(scatter: float, difference_pct: float) -> int:
    """The fewest rounds that show a difference of so many per cent."""
    low, high = FEWEST, ROUNDS_AT_MOST
    while low < high:
        middle = (low + high) // 2
        enough = shown_pct(scatter, middle) <= difference_pct
        low, high = (low, middle) if enough else (middle + 1, high)
    return low

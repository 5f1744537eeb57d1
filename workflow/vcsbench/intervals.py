"""Means over rounds with their 95 % intervals; Student's t throughout, no bootstrap at such n."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

# With fewer rounds an interval says little: tables say `low-n`, nothing is concluded.
ENOUGH_ROUNDS = 5
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean and the bounds of its interval (NaN where there is none) over `n` rounds."""

    value: float
    low: float
    high: float
    n: int

    @property
    def low_n(self) -> bool:
        """Whether there are too few rounds to conclude anything."""
        return self.n < ENOUGH_ROUNDS

    def excludes(self, value: float) -> bool:
        """Whether the interval is known and `value` lies outside of it."""
        return self.high < value or value < self.low


def mean_interval(values: Iterable[float]) -> Estimate:
    """The arithmetic mean of one value per round and its t interval.

    Values that are not finite are left out; fewer than two have no interval.
    """
    numbers = [value for value in values if math.isfinite(value)]
    n = len(numbers)
    if not n:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = math.fsum(numbers) / n
    if n < 2:
        return Estimate(mean, math.nan, math.nan, n)
    variance = math.fsum((number - mean) ** 2 for number in numbers) / (n - 1)
    half = t_quantile(n - 1) * math.sqrt(variance / n)
    return Estimate(mean, mean - half, mean + half, n)


def ratio_interval(log_ratios: Iterable[float]) -> Estimate:
    """The geometric mean of one ratio per round, given as natural logarithms, and its interval.

    For paired logarithms ln(baseline / candidate), above 1 the candidate is faster.
    """
    estimate = mean_interval(log_ratios)
    return Estimate(
        math.exp(estimate.value), math.exp(estimate.low), math.exp(estimate.high), estimate.n
    )


@cache
def t_quantile(degrees: int) -> float:
    """Student's t for a two-sided interval of 95 %."""
    # The function below scipy.stats.t.ppf; importing scipy.stats takes a second.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))

"""Means over rounds with their 95 % intervals; Student's t throughout, no bootstrap at such n."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95
# In this share of experiments a difference is seen that is said to be detectable.
POWER = 0.9


@dataclass(frozen=True)
class Estimate:
    """A mean and the bounds of its interval (NaN where there is none) over `n` rounds."""

    value: float
    low: float
    high: float
    n: int

    def statistics(self) -> dict[str, float]:
        """Those of a ratio as columns of a table."""
        return {"ratio": self.value, "low": self.low, "high": self.high, "n": self.n}


def mean_interval(values: Iterable[float]) -> Estimate:
    """The arithmetic mean of one value per round and its t interval.

    Values that are not finite are left out; fewer than two have no interval.
    """
    numbers = [value for value in values if math.isfinite(value)]
    n = len(numbers)
    mean, square = _mean_and_square(numbers)
    half = t_quantile(n - 1) * math.sqrt(square) if n > 1 else math.nan
    return Estimate(mean, mean - half, mean + half, n)


def _mean_and_square(numbers: Sequence[float]) -> tuple[float, float]:
    """The mean, and the square of its standard error; NaN where there are too few numbers."""
    n = len(numbers)
    mean = math.fsum(numbers) / n if n else math.nan
    squares = math.fsum((number - mean) ** 2 for number in numbers)
    return mean, squares / (n - 1) / n if n > 1 else math.nan


def ratio_interval(log_ratios: Iterable[float]) -> Estimate:
    """The geometric mean of one ratio per round, given as natural logarithms, and its interval.

    For paired logarithms ln(baseline / candidate).
    """
    estimate = mean_interval(log_ratios)
    return Estimate(
        math.exp(estimate.value), math.exp(estimate.low), math.exp(estimate.high), estimate.n
    )


def unpaired_ratio(
    baseline_logs: Iterable[float], candidate_logs: Iterable[float], confidence: float = CONFIDENCE
) -> Estimate:
    """The ratio of two geometric means, baseline / candidate, and its interval after Welch: for rounds
    that were not measured side by side. `n` is the smaller number of rounds.
    """
    sides = [[x for x in logs if math.isfinite(x)] for logs in (baseline_logs, candidate_logs)]
    n = min(map(len, sides))
    (one, first), (other, second) = map(_mean_and_square, sides)
    difference, error = one - other, math.fsum([first, second])
    half = math.nan if n < 2 else 0.0
    if error > 0:  # not NaN
        parts = zip((first, second), sides, strict=True)
        degrees = error**2 / math.fsum(square**2 / (len(side) - 1) for square, side in parts)
        half = t_quantile(degrees, confidence) * math.sqrt(error)
    low, high = math.exp(difference - half), math.exp(difference + half)
    return Estimate(math.exp(difference), low, high, n)


@cache
def t_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Student's t for a two-sided interval, of 95 % unless told otherwise."""
    # The function below scipy.stats.t.ppf; importing scipy.stats takes a second.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + confidence) / 2))


def detectable(error: float, degrees: int, floor: float, level: float) -> float:
    """The smallest difference that is called one in 9 of 10 experiments, as a logarithm.

    `error` is the standard error of a mean of logarithms, with its degrees of freedom; `floor` the
    noise floor (a logarithm), `level` the chance of a false call that is allowed.
    """
    called_from = max(floor, t_quantile(degrees, 1 - level) * error)
    return called_from + t_quantile(degrees, 2 * POWER - 1) * error

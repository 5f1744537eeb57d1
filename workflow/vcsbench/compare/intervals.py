"""Means over rounds with their errors and 95 % intervals; Student's t throughout, no bootstrap at such n."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
# In this share of experiments a difference is seen that is said to be detectable.
POWER = 0.9
# Half of an interval, as a logarithm: a wider one says nothing more, and is soon no number.
WIDEST = 100.0


@dataclass(frozen=True)
class Estimate:
    """A mean and the bounds of its interval (NaN where there is none) over `n` rounds.

    `error` is its standard error, or that of its logarithm where it is a ratio, with so many `degrees` of
    freedom. `pairs`: the average of how many comparisons it is, within each round.
    """

    value: float
    low: float
    high: float
    n: int
    error: float = math.nan
    degrees: float = math.nan
    pairs: float = 1.0

    def statistics(self) -> dict[str, float]:
        """Those of a ratio as columns of a table."""
        names = ("low", "high", "n", "error", "degrees")
        return {"ratio": self.value} | {name: getattr(self, name) for name in names}


def mean_interval(values: Iterable[float]) -> Estimate:
    """The arithmetic mean of one value per round and its t interval.

    Values that are not finite are left out; fewer than two have no interval.
    """
    numbers = [value for value in values if math.isfinite(value)]
    n = len(numbers)
    value, square = _mean_and_square(numbers)
    return mean(value, math.sqrt(square), n - 1 if n > 1 else math.nan, n)


def mean(value: float, error: float, degrees: float, n: int, pairs: float = 1.0) -> Estimate:
    """A mean by its error."""
    half = t_quantile(degrees) * error
    return Estimate(value, value - half, value + half, n, error, degrees, pairs)


def _mean_and_square(numbers: Sequence[float]) -> tuple[float, float]:
    """The mean, and the square of its standard error; NaN where there are too few numbers."""
    n = len(numbers)
    centre = math.fsum(numbers) / n if n else math.nan
    squares = math.fsum((number - centre) ** 2 for number in numbers)
    return centre, squares / (n - 1) / n if n > 1 else math.nan


def ratio_interval(log_ratios: Iterable[float], pairs: float = 1.0) -> Estimate:
    """The geometric mean of one ratio per round, given as natural logarithms, and its interval.

    For paired logarithms ln(baseline / candidate), or averages of them over so many `pairs`.
    """
    own = mean_interval(log_ratios)
    return ratio(own.value, own.error, own.degrees, own.n, pairs)


def ratio(
    log: float,
    error: float,
    degrees: float,
    n: int,
    pairs: float = 1.0,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """A ratio by its logarithm, with that one's error."""
    half = float(np.minimum(t_quantile(degrees, confidence) * error, WIDEST))
    low, high = math.exp(log - half), math.exp(log + half)
    return Estimate(math.exp(log), low, high, n, error, degrees, pairs)


def unpaired_ratio(baseline_logs: Iterable[float], candidate_logs: Iterable[float]) -> Estimate:
    """The ratio of two geometric means, baseline / candidate, and its interval after Welch: for rounds
    that were not measured side by side. `n` is the smaller number of rounds.
    """
    sides = [[x for x in logs if math.isfinite(x)] for logs in (baseline_logs, candidate_logs)]
    n = min(map(len, sides))
    (one, first), (other, second) = map(_mean_and_square, sides)
    square, degrees = math.fsum([first, second]), n - 1 if n > 1 else math.nan
    if square > 0:  # not NaN
        parts = zip((first, second), sides, strict=True)
        degrees = square**2 / math.fsum(part**2 / (len(side) - 1) for part, side in parts)
    return ratio(one - other, math.sqrt(square), degrees, n)


def t_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Student's t for a two-sided interval, of 95 % unless told otherwise; NaN without degrees."""
    if math.isnan(degrees):
        return math.nan
    # The function below scipy.stats.t.ppf; importing scipy.stats takes a second.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + confidence) / 2))

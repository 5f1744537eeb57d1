"""Means over rounds with standard errors and 95 % intervals by Student's t."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
# Share of experiments in which a detectable difference is called.
POWER = 0.9
# Largest half width of an interval, as a logarithm: exp() of more overflows soon.
MAX_HALF_WIDTH = 100.0


@dataclass(frozen=True)
class Estimate:
    """A mean with the bounds of its interval (NaN without one) over `n` rounds.

    `error` is the standard error (of the logarithm if the mean is a ratio) with `degrees` of freedom. `pairs`
    is the number of comparisons that are averaged within a round.
    """

    value: float
    low: float
    high: float
    n: int
    error: float = math.nan
    degrees: float = math.nan
    pairs: float = 1.0

    def statistics(self) -> dict[str, float]:
        """Return the columns of a table for a ratio."""
        names = ("low", "high", "n", "error", "degrees")
        return {"ratio": self.value} | {name: getattr(self, name) for name in names}


def mean_interval(values: Iterable[float]) -> Estimate:
    """Return the arithmetic mean of finite values, one per round, with its interval."""
    numbers = [value for value in values if math.isfinite(value)]
    n = len(numbers)
    value, square = _mean_and_square(numbers)
    return mean(value, math.sqrt(square), n - 1 if n > 1 else math.nan, n)


def mean(value: float, error: float, degrees: float, n: int, pairs: float = 1.0) -> Estimate:
    """Return a mean with the interval of its standard error."""
    half = t_quantile(degrees) * error
    return Estimate(value, value - half, value + half, n, error, degrees, pairs)


def _mean_and_square(numbers: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its squared standard error (NaN below two numbers)."""
    n = len(numbers)
    centre = math.fsum(numbers) / n if n else math.nan
    squares = math.fsum((number - centre) ** 2 for number in numbers)
    return centre, squares / (n - 1) / n if n > 1 else math.nan


def ratio_interval(log_ratios: Iterable[float], pairs: float = 1.0) -> Estimate:
    """Return the geometric mean of paired ratios, given as one ln(baseline / candidate) per round."""
    log = mean_interval(log_ratios)
    return ratio(log.value, log.error, log.degrees, log.n, pairs)


def ratio(
    log: float,
    error: float,
    degrees: float,
    n: int,
    pairs: float = 1.0,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Return a ratio with its interval from a logarithm and the standard error of it."""
    half = float(np.minimum(t_quantile(degrees, confidence) * error, MAX_HALF_WIDTH))
    low, high = math.exp(log - half), math.exp(log + half)
    return Estimate(math.exp(log), low, high, n, error, degrees, pairs)


NO_ESTIMATE = Estimate(math.nan, math.nan, math.nan, 0)


def unpaired_ratio(baseline_logs: Iterable[float], candidate_logs: Iterable[float]) -> Estimate:
    """Return baseline / candidate of geometric means with Welch's interval.

    Use it for rounds that did not run next to each other. `n` is the smaller number of rounds.
    """
    sides = [[x for x in logs if math.isfinite(x)] for logs in (baseline_logs, candidate_logs)]
    n = min(map(len, sides))
    (baseline, first), (candidate, second) = map(_mean_and_square, sides)
    square, degrees = math.fsum([first, second]), n - 1 if n > 1 else math.nan
    if square > 0:  # not NaN
        parts = zip((first, second), sides, strict=True)
        degrees = square**2 / math.fsum(part**2 / (len(side) - 1) for part, side in parts)
    return ratio(baseline - candidate, math.sqrt(square), degrees, n)


def t_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Return Student's t of a two-sided interval; NaN without degrees of freedom."""
    if math.isnan(degrees):
        return math.nan
    # Importing scipy.stats takes a second.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + confidence) / 2))

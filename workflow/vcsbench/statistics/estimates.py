"""Means and ratios with 95 % intervals by Student's t.

Ratios are estimated as logarithms, for two reasons. Noise of a machine multiplies times, so that logarithms
scatter equally around short and long times. And ln(a / b) = -ln(b / a): "a is 2 times as fast as b" and
"b takes half of the time of a" get the same error, which a mean of ratios or of percentages does not give.

Student's t, because the error itself is estimated: with 4 degrees of freedom, the 95 % interval is 2.78
standard errors wide on each side, and with many 1.96.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from scipy import special

CONFIDENCE = 0.95
# The largest half width of the interval of a logarithm (interval).
MAX_HALF_WIDTH = 100.0


@dataclass(frozen=True)
class Estimate:
    """A mean with the bounds of its interval (NaN without one) over `n` rounds.

    `error` is the standard error (of the logarithm with `is_log`), and `degrees` its degrees of freedom.
    `averaged` is the number of cells or pairs that are averaged within a round. `is_geometric` is True for
    the geometric mean of values that are no ratios, such as times.
    """

    value: float
    low: float
    high: float
    n: int
    error: float = math.nan
    degrees: float = math.nan
    averaged: float = 1.0
    is_ratio: bool = True
    is_geometric: bool = False

    @property
    def is_log(self) -> bool:
        """Return True if the logarithm was estimated: its interval is symmetric, and `error` is its error."""
        return self.is_ratio or self.is_geometric

    def with_error(self, error: float, degrees: float, level: float = CONFIDENCE) -> "Estimate":
        """Return the estimate with another standard error (with `is_log`: of its logarithm) and interval."""
        centre = math.log(self.value) if self.is_log else self.value
        changed = interval(centre, error, degrees, self.n, self.averaged, level, self.is_log)
        return replace(changed, is_ratio=self.is_ratio, is_geometric=self.is_geometric)


NO_ESTIMATE = Estimate(math.nan, math.nan, math.nan, 0)


def interval(
    centre: float,
    error: float,
    degrees: float,
    n: int,
    averaged: float = 1.0,
    level: float = CONFIDENCE,
    is_ratio: bool = True,
) -> Estimate:
    """Return the estimate of a mean (`centre`) or of a ratio, with its interval by Student's t.

    With `is_ratio`, `centre` and `error` are the logarithm of the ratio and its standard error. Example: the
    centre 1.046 with the error 0.023 and 60 degrees of freedom is the ratio 2.85 (2.72 to 2.98). `level` is
    the chance that the interval contains the truth. After a single round, `error` and `degrees` are NaN, and
    so are the ends of the interval. `n` and `averaged` are only stored.
    """
    half_width = t_quantile(degrees, level) * error
    if not is_ratio:
        low, high = centre - half_width, centre + half_width
        return Estimate(centre, low, high, n, error, degrees, averaged, is_ratio=False)
    # With very few degrees of freedom, exp() could overflow, and exp(100) already means "unknown". A half
    # width of NaN stays NaN: min() returns its first argument unless the second one is smaller.
    log_half_width = min(half_width, MAX_HALF_WIDTH)
    low, high = math.exp(centre - log_half_width), math.exp(centre + log_half_width)
    return Estimate(math.exp(centre), low, high, n, error, degrees, averaged, is_ratio=True)


def t_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Return the half width of an interval in standard errors: 2.78 with 4 degrees of freedom."""
    return float(special.stdtrit(degrees, (1 + confidence) / 2))


@dataclass(frozen=True)
class _SampleMean:
    """The mean of `n` values (NaN of none), and its squared standard error (NaN of one value)."""

    mean: float
    squared_error: float
    n: int

    @property
    def degrees(self) -> float:
        """Return the degrees of freedom of the squared error."""
        return self.n - 1 if self.n > 1 else math.nan


def _mean_of_sample(values: Iterable[float]) -> _SampleMean:
    """Return the mean of the finite values and its squared standard error."""
    numbers = [value for value in values if math.isfinite(value)]
    n = len(numbers)
    if not n:
        return _SampleMean(math.nan, math.nan, 0)
    # fsum() rounds once, at the end. So a mean does not depend on the order of rounds, and equal values have
    # exactly this mean and the error 0.
    mean = math.fsum(numbers) / n
    if n == 1:
        return _SampleMean(mean, math.nan, 1)
    squares = math.fsum((number - mean) ** 2 for number in numbers)
    return _SampleMean(mean, squares / (n - 1) / n, n)


def mean_interval(
    values: Iterable[float], averaged: float = 1.0, is_ratio: bool = False
) -> Estimate:
    """Return the mean of one value per round, with the interval that the scatter of the rounds gives.

    With `is_ratio`, the values are logarithms of ratios, and the result is a geometric mean: ln(2) and
    ln(4.5) give 3.
    """
    sample = _mean_of_sample(values)
    error = math.sqrt(sample.squared_error)
    return interval(sample.mean, error, sample.degrees, sample.n, averaged, is_ratio=is_ratio)


def ratio_interval(log_ratios: Iterable[float], averaged: float = 1.0) -> Estimate:
    """Return the geometric mean of paired ratios, given as one ln(baseline / candidate) per round.

    Both sides of a round ran next to each other. So a drift of the machine cancels in their ratio.
    """
    return mean_interval(log_ratios, averaged, is_ratio=True)


def geometric_mean_interval(logs: Iterable[float], averaged: float = 1.0) -> Estimate:
    """Return the geometric mean of values such as times, given as the logarithm of one value per round."""
    # A verdict compares only ratios with 1.
    return replace(ratio_interval(logs, averaged), is_ratio=False, is_geometric=True)


def unpaired_ratio(baseline_logs: Sequence[float], candidate_logs: Sequence[float]) -> Estimate:
    """Return the ratio baseline / candidate of two geometric means, with Welch's interval.

    The ratio is of rounds that did not run next to each other, such as a saved baseline's rounds and today's.
    The arguments have one logarithm per round. `n` of the result is the number of rounds of the side that has
    fewer. With n = 1, the result has no interval (NaN), and with n = 0 no ratio.
    """
    baseline = _mean_of_sample(baseline_logs)
    candidate = _mean_of_sample(candidate_logs)
    n = min(baseline.n, candidate.n)
    # The squared standard error of the difference of both means; NaN if a side has fewer than two rounds.
    # Welch's test (1947) allows the two sides to scatter differently, as two days do.
    squared_error = math.fsum([baseline.squared_error, candidate.squared_error])
    degrees: float
    if n < 2:
        degrees = math.nan
    elif squared_error > 0:
        # Welch-Satterthwaite: v^2 / sum(v_side^2 / degrees_side). Here v is the squared error of the
        # difference, and v_side the variance of the mean of one side.
        denominator = math.fsum(
            side.squared_error**2 / side.degrees for side in (baseline, candidate)
        )
        degrees = squared_error**2 / denominator
    else:
        # If neither side scatters, the formula is 0 / 0. So the side with fewer rounds gives the degrees.
        degrees = n - 1
    log_ratio = baseline.mean - candidate.mean
    return interval(log_ratio, math.sqrt(squared_error), degrees, n, is_ratio=True)

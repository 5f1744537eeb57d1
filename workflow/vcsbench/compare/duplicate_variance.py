"""Estimate how much duplicates differ beyond the scatter of their rounds: a variance that no round reduces.

Two estimates are combined. The first is the moment estimate of DerSimonian and Laird (1986). The second is
the posterior mean with a prior for the standard deviation: the positive half of a Student's t. Evidence
decides between them: a clear excess (P_SIGNIFICANT) takes the first, an excess that chance often shows
(P_UNCERTAIN) the second. So one unlucky duplicate does not cost a run its answers. Both estimates have
degrees of freedom from the prior, so that one or two pairs of duplicates suffice for a comparison.
docs/statistics.md has the resulting error rates (benchmarks/simulation.py).
"""

from __future__ import annotations

import math

import numpy as np

from vcsbench.compare.variances import EXACT, Part, chance

P_SIGNIFICANT, P_UNCERTAIN = 0.01, 0.1
# The prior of the standard deviation of ln(duplicate / original): its scale and its degrees of freedom. Pairs
# of real runs differed by 0.6 % in the median.
PRIOR_SCALE, PRIOR_DEGREES = 0.010, 3.0
# Degrees of freedom that the prior adds to the moment estimate.
ADDED_DEGREES = 2.0
MOST_DEGREES = 1e6
_POINTS = 300


def duplicate_variance(squares: np.ndarray, by_rounds: np.ndarray, degrees: np.ndarray) -> Part:
    """Return the variance of ln(duplicate / original) beyond the scatter of rounds.

    Each pair has the square of its mean log difference, the variance of that mean by its rounds, and
    the degrees of freedom of this variance.
    """
    by_rounds = np.maximum(by_rounds, EXACT)
    degrees = np.minimum(degrees, MOST_DEGREES)
    weights = 1 / by_rounds
    excess = (squares * weights).mean()
    guess = _posterior(squares, by_rounds, degrees)
    variance = float((excess - 1) / weights.mean())
    if variance <= EXACT:
        return guess
    doubt = ((weights * (variance + by_rounds)) ** 2 + 1 / degrees).sum() / weights.sum() ** 2
    moments = Part(variance, float(variance**2 / doubt) + ADDED_DEGREES)
    share = _weight_of_moments(float(chance(excess, len(squares), float(degrees.mean()))))
    return moments if share == 1 else _combine(share, moments, guess)


def _weight_of_moments(p_value: float) -> float:
    """Return 1 for a significant excess, 0 for an uncertain one, and a value between for others."""
    p = min(max(p_value, P_SIGNIFICANT), P_UNCERTAIN)
    return math.log(P_UNCERTAIN / p) / math.log(P_UNCERTAIN / P_SIGNIFICANT)


def _combine(share: float, first: Part, second: Part) -> Part:
    parts = ((share, first), (1 - share, second))
    return Part(
        math.fsum(weight * part.variance for weight, part in parts),
        math.fsum(weight * part.degrees for weight, part in parts),
    )


def _posterior(squares: np.ndarray, by_rounds: np.ndarray, degrees: np.ndarray) -> Part:
    """Return the scaled inverse chi-square with the mean and variance of the posterior."""
    widest = max(30 * PRIOR_SCALE, 5 * math.sqrt(squares.max()))
    deviations = np.concatenate([[0.0], np.geomspace(PRIOR_SCALE / 20, widest, _POINTS)])
    variances = deviations**2
    total = variances[:, None] + by_rounds
    # Only the part of the rounds is uncertain (Satterthwaite).
    freedom = degrees * (total / by_rounds) ** 2
    spread = (freedom + 1) / 2 * np.log1p(squares / freedom / total) + np.log(total) / 2
    prior = (PRIOR_DEGREES + 1) / 2 * np.log1p((deviations / PRIOR_SCALE) ** 2 / PRIOR_DEGREES)
    logs = -prior - spread.sum(axis=1)
    weights = np.exp(logs - logs.max()) * np.gradient(deviations)
    weights /= weights.sum()
    mean = float((weights * variances).sum())
    around = float((weights * (variances - mean) ** 2).sum())
    if not around:
        return Part(mean, MOST_DEGREES)
    freedom_of_mean = 4 + 2 * mean**2 / around
    return Part(mean * (freedom_of_mean - 2) / freedom_of_mean, freedom_of_mean)

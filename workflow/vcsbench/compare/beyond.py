"""What twins differ by beyond what their rounds make of it: a variance that no round reduces.

What is plain (chance shows as much in PLAIN of all studies) is taken as it is seen, by the moments of
DerSimonian and Laird (1986). What chance shows more often than in DOUBTFUL is a guess from a dozen twins: the
mean of what is likely of it, where twins are taken to differ by about USUAL before any is seen. Between the
two the one goes over into the other. So the error of all comparisons grows with the evidence, and an unlucky
twin does not cost a run its answers. docs/statistics.md shows what comes of it.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from vcsbench.compare.variances import EXACT, Part

PLAIN, DOUBTFUL = 0.01, 0.1
# The scale of half of a normal distribution, that of twins' standard deviation (of logarithms) before any is
# seen.
USUAL = 0.006
FARTHEST, POINTS = 10, 400
MANY = 1e6  # degrees of freedom, as good as endless ones


def beyond(squares: np.ndarray, by_rounds: np.ndarray, degrees: np.ndarray) -> Part:
    """The variance, 0 where twins show none. For each twin the square of the mean difference from its
    original, the variance that rounds make of that, and this one's degrees of freedom."""
    from scipy.special import fdtrc

    weights, degrees = 1 / np.maximum(by_rounds, EXACT), np.minimum(degrees, MANY)
    excess = (squares * weights).mean()
    variance = float((excess - 1) / weights.mean())
    if variance <= EXACT:
        return Part(0.0)
    guess = _likely(squares, 1 / weights, degrees)
    share = _plain(fdtrc(len(squares), degrees.mean(), excess))
    if not share:
        return guess
    doubt = ((weights * (variance + by_rounds)) ** 2 + 1 / degrees).sum() / weights.sum() ** 2
    mean = share * variance + (1 - share) * guess.variance
    doubt = share * doubt + (1 - share) * guess.variance**2 / guess.degrees
    return Part(mean, float(mean**2 / doubt))


def _plain(chance: float) -> float:
    """How much of what is seen counts as it is: from 0, where chance often shows as much, to 1, where it is
    plain."""
    seen = np.clip(chance, PLAIN, DOUBTFUL)
    return math.log(DOUBTFUL / seen) / math.log(DOUBTFUL / PLAIN)


def _likely(squares: np.ndarray, by_rounds: np.ndarray, degrees: np.ndarray) -> Part:
    """The mean of the variance after what was seen, and as many degrees of freedom as it is known by."""
    variances, usual = _before()
    total = variances[:, None] + by_rounds
    spread = (degrees + 1) / 2 * np.log1p(squares / degrees / total) + np.log(total) / 2
    logs = usual - spread.sum(axis=1)
    chance = np.exp(logs - logs.max())
    chance /= chance.sum()
    mean = float((chance * variances).sum())
    return Part(mean, 2 * mean**2 / float((chance * (variances - mean) ** 2).sum()))


@cache
def _before() -> tuple[np.ndarray, np.ndarray]:
    """Variances, and the logarithm of how likely each is before any twin is seen."""
    scaled = np.linspace(0, FARTHEST, POINTS)
    return (USUAL * scaled) ** 2, -(scaled**2) / 2

"""What twins differ by beyond what their rounds make of it: a variance that no round reduces.

What is plain (chance shows as much in PLAIN of all studies) is taken as it is seen, by the moments of
DerSimonian and Laird (1986). What chance shows more often than in DOUBTFUL is a guess from a dozen twins: the
mean of what is likely of it, where twins are taken to differ by about USUAL before any is seen. Between the
two the one goes over into the other. So the error of all comparisons grows with the evidence, and an unlucky
twin does not cost a run its answers. docs/statistics.md shows what comes of it.
"""

from __future__ import annotations

import math

import numpy as np

from vcsbench.compare.variances import EXACT, Part, chance

PLAIN, DOUBTFUL = 0.01, 0.1
# The scale of half of a normal distribution, that of twins' standard deviation (of logarithms) before any is
# seen; and how many scales far it is looked at, in how many points.
USUAL = 0.006
FARTHEST, POINTS = 10, 400
MANY = 1e6  # degrees of freedom, as good as endless ones


def beyond(squares: np.ndarray, by_rounds: np.ndarray, degrees: np.ndarray) -> Part:
    """The variance, 0 where twins show none. For each twin the square of the mean difference from its
    original, the variance that rounds make of that, and this one's degrees of freedom."""
    weights, degrees = 1 / np.maximum(by_rounds, EXACT), np.minimum(degrees, MANY)
    excess = (squares * weights).mean()
    variance = float((excess - 1) / weights.mean())
    if variance <= EXACT:
        return Part(0.0)
    doubt = ((weights * (variance + by_rounds)) ** 2 + 1 / degrees).sum() / weights.sum() ** 2
    seen = Part(variance, float(variance**2 / doubt))
    share = _plain(float(chance(excess, len(squares), float(degrees.mean()))))
    return seen if share == 1 else _between(share, seen, _likely(squares, 1 / weights, degrees))


def _plain(shown_by_chance: float) -> float:
    """How much of what is seen counts as it is: from 0, where chance often shows as much, to 1, where it is
    plain."""
    seen = min(max(shown_by_chance, PLAIN), DOUBTFUL)
    return math.log(DOUBTFUL / seen) / math.log(DOUBTFUL / PLAIN)


def _between(share: float, seen: Part, guess: Part) -> Part:
    """Such a share of the one, and the rest of the other."""
    parts = ((share, seen), (1 - share, guess))
    mean = math.fsum(x * part.variance for x, part in parts)
    return Part(mean, mean**2 / math.fsum(x * part.variance**2 / part.degrees for x, part in parts))


def _likely(squares: np.ndarray, by_rounds: np.ndarray, degrees: np.ndarray) -> Part:
    """The mean of the variance after what was seen, and as many degrees of freedom as it is known by."""
    scales = np.linspace(0, FARTHEST, POINTS)
    variances = (USUAL * scales) ** 2
    total = variances[:, None] + by_rounds
    spread = (degrees + 1) / 2 * np.log1p(squares / degrees / total) + np.log(total) / 2
    logs = -(scales**2) / 2 - spread.sum(axis=1)
    likely = np.exp(logs - logs.max())
    likely /= likely.sum()
    mean = float((likely * variances).sum())
    return Part(mean, 2 * mean**2 / float((likely * (variances - mean) ** 2).sum()))

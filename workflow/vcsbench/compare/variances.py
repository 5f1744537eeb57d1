"""Variances with their degrees of freedom: added up, taken from residuals, made steadier by one another.

The last is empirical Bayes after Smyth (2004), as limma's squeezeVar does it: the variances behind those
seen are taken to scatter about a common one as if that had been seen over d0 degrees of freedom, and each
becomes the average of its own and the common one, weighted by their degrees. d0 comes from how the logarithms
scatter beyond what chance makes of equal ones: alike ones have many degrees, unequal ones few.
Three cautions keep errors right where variances are very unequal: d0 is the least that the scatter
allows (LIMIT), not the likeliest; what lies far above the others (OUTLIER) stands on its own; and where
there are fewer than ENOUGH, or d0 is less than ALIKE, each does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

LIMIT = 0.1  # the chance that variances scatter more than they are taken to
OUTLIER = 0.01
ENOUGH = 8
ALIKE = 2.0
# What has no spread but that of floating point is exact: its error is 0, and it says nothing of the others'.
EXACT = 1e-18


class Part(NamedTuple):
    """A variance that is a part of another, and how well it is known."""

    variance: float
    degrees: float = math.inf

    def times(self, factor: float) -> Part:
        """Of something so many times as large in square."""
        return Part(self.variance * factor, self.degrees)


def summed(parts: Iterable[Part]) -> Part:
    """The variance of a sum of independent things, its degrees of freedom after Satterthwaite."""
    known = [part for part in parts if part.variance]
    total = math.fsum(part.variance for part in known)
    doubt = math.fsum(part.variance**2 / part.degrees for part in known)
    return Part(total, total**2 / doubt if doubt else math.inf)


def residual(logs: np.ndarray, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How cells (rows) scatter over rounds (columns, NaN where there is none) beyond what all cells of a
    block share in a round: sums of squares, and their degrees of freedom. `blocks` numbers each cell's."""
    seen = np.isfinite(logs)
    n = seen.sum(axis=1)
    centred = np.where(seen, logs - _mean(logs, seen, 1)[:, None], 0.0)
    squares, degrees = np.zeros(len(logs)), np.zeros(len(logs))
    for block in np.unique(blocks):
        rows = np.flatnonzero(blocks == block)
        here, among = seen[rows], seen[rows].sum(axis=0)
        rest = np.where(here, centred[rows] - _mean(centred[rows], here, 0), 0.0)
        squares[rows] = (rest**2).sum(axis=1)
        free = np.where(here, 1 - 1 / np.maximum(among, 1), 0.0).sum(axis=1)
        degrees[rows] = free * (1 - 1 / np.maximum(n[rows], 1))
    return squares, degrees


def _mean(values: np.ndarray, seen: np.ndarray, axis: int) -> np.ndarray:
    total = np.where(seen, values, 0.0).sum(axis=axis)
    return np.asarray(total / np.maximum(seen.sum(axis=axis), 1))


def squeezed(variances: np.ndarray, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The variances and their degrees of freedom, with what they say of one another; NaN stays NaN."""
    common, kept = common_of(variances, degrees)
    if not common:
        return variances, degrees
    own = degrees[kept]
    share = 1.0 if math.isinf(common.degrees) else common.degrees / (common.degrees + own)
    steadier, more = variances.copy(), degrees.astype(float)
    steadier[kept] = share * common.variance + (1 - share) * variances[kept]
    more[kept] = np.minimum(common.degrees + own, own.sum())  # of no more than all that was seen
    return steadier, more


def common_of(variances: np.ndarray, degrees: np.ndarray) -> tuple[Part | None, np.ndarray]:
    """The common variance behind some, None where there is no such; and which of them it is behind."""
    kept = np.isfinite(variances) & (degrees > 0) & (variances > EXACT)
    if kept.sum() < ENOUGH:
        return None, kept
    first = _common(variances[kept], degrees[kept])
    with np.errstate(invalid="ignore"):
        kept &= ~(chance(variances / first.variance, degrees, first.degrees) < OUTLIER)
    if kept.sum() < ENOUGH:
        return None, kept
    found = _common(variances[kept], degrees[kept])
    return (found if found.degrees >= ALIKE else None), kept


def _common(variances: np.ndarray, degrees: np.ndarray) -> Part:
    from scipy.special import digamma, gammaincinv, polygamma

    logs = np.log(variances) - digamma(degrees / 2) + np.log(degrees / 2)
    chance, others = polygamma(1, degrees / 2).mean(), len(logs) - 1
    scatter = logs.var(ddof=1)
    likeliest = _degrees(scatter - chance)
    least = _degrees(scatter * others / (2 * gammaincinv(others / 2, LIMIT)) - chance)
    if math.isinf(likeliest):
        return Part(float(np.average(variances, weights=degrees)), least)
    centre = logs.mean() + digamma(likeliest / 2) - math.log(likeliest / 2)
    return Part(math.exp(centre), least)


def _degrees(scatter: float) -> float:
    """The degrees of freedom with which logarithms of variances scatter by so much."""
    return 2 * trigamma_inverse(scatter) if scatter > 0 else math.inf


def trigamma_inverse(value: float) -> float:
    """The x of which the trigamma function is `value`: by Newton's method on 1 / trigamma, which is nearly a
    straight line (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    if value < 1e-6:
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = polygamma(1, x)
        step = float(trigamma * (1 - trigamma / value) / polygamma(2, x))
        x += step
        if abs(step) < 1e-8 * x:
            break
    return x


def chance(quotient: Any, degrees: Any, prior: float) -> np.ndarray:
    """The chance of a quotient as large of a variance and the common one (Snedecor's F)."""
    from scipy.special import chdtrc, fdtrc

    if math.isinf(prior):
        return np.asarray(chdtrc(degrees, degrees * quotient))
    return np.asarray(fdtrc(degrees, prior, quotient))

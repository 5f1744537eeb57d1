"""Moderate variances: estimate each from its own rounds, and from all other cells of the study.

The method is empirical Bayes after Smyth (2004), like squeezeVar() of limma in R, which has the same problem:
thousands of genes, a few samples of each. Five rounds of one pair alone know its scatter to a factor of two,
and the scatter of two rounds is nearly chance. But the cells of a study scatter alike, because one machine
measured them. Smyth's model: true variances scatter about a prior variance with d0 degrees of freedom. The
moderated variance is the average of a cell's own and of the prior, weighted by their degrees of freedom.

Example: the prior is (3 %)^2 with d0 = 16. A cell with 4 degrees and (6 %)^2 gets
(16 x 9 + 4 x 36) / 20 = 14.4, that is (3.8 %)^2, with 20 degrees.

If variances differ much, a plain fit makes the intervals of noisy cells too narrow. Three cautions prevent
it:

- d0 is the least that the scatter of the variances allows (SCATTER_LIMIT), not the likeliest;
- an outlier (OUTLIER_P) stands alone, as in limma with robust=TRUE;
- fewer than MIN_VARIANCES, or d0 below MIN_PRIOR_DEGREES, are not moderated.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from vcsbench.statistics.variances import Variance

SCATTER_LIMIT = 0.1
OUTLIER_P = 0.01
MIN_VARIANCES = 8
MIN_PRIOR_DEGREES = 2.0
# A smaller variance of logarithms is rounding: the values were equal.
EXACT = 1e-18


@dataclass(frozen=True, eq=False)
class PriorFit:
    """The prior of variances (None: they are not moderated), and True for each variance that it describes."""

    prior: Variance | None
    is_member: np.ndarray


def moderate(variances: np.ndarray, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the moderated variances, and their degrees of freedom, in the order of the arguments.

    `variances` and `degrees` have an entry per cell; an unknown variance is NaN. Outliers, unknown variances
    and variances of 0 stay as they are. All variances stay if there is no prior, for example with fewer than
    8 cells (fit_prior).
    """
    fit = fit_prior(variances, degrees)
    if fit.prior is None:
        return variances, degrees
    prior, is_member = fit.prior, fit.is_member
    own_degrees = degrees[is_member]
    total_degrees = prior.degrees + own_degrees
    # With infinite degrees of the prior, all cells have the same true variance, and only the prior counts.
    prior_share = 1.0 if math.isinf(prior.degrees) else prior.degrees / total_degrees
    moderated = variances.copy()
    moderated[is_member] = prior_share * prior.variance + (1 - prior_share) * variances[is_member]
    # The prior was estimated from these cells. So a moderated variance cannot have more degrees of freedom
    # than all of these cells together.
    moderated_degrees = degrees.astype(float)
    moderated_degrees[is_member] = np.minimum(total_degrees, own_degrees.sum())
    return moderated, moderated_degrees


def fit_prior(variances: np.ndarray, degrees: np.ndarray) -> PriorFit:
    """Return the prior, which is the usual variance of the cells, and the cells that it describes (members).

    moderate() averages the variance of each member with the prior. The degrees of freedom of the prior are
    its weight in this average: they are large if all variances are alike. The arguments have an entry per
    cell; an unknown variance is NaN.

    All cells with a known variance above 0 are members, except outliers. The prior is None with fewer than
    MIN_VARIANCES members, or with fewer than MIN_PRIOR_DEGREES degrees: with so few degrees, the variances
    differ so much that the other cells show nearly nothing about a single one.
    """
    # A variance without degrees of freedom is unknown. One of 0 (EXACT) has no logarithm, which _fit() needs.
    is_member = np.isfinite(variances) & (degrees > 0) & (variances > EXACT)
    if is_member.sum() < MIN_VARIANCES:
        return PriorFit(None, is_member)
    # A first fit shows which variances are outliers: chance makes a variance as large as theirs in less than
    # 1 % of cases (OUTLIER_P).
    first = _fit(variances[is_member], degrees[is_member])
    with np.errstate(invalid="ignore"):
        p_values = p_value_of_quotient(variances / first.variance, degrees, first.degrees)
    # A variance without p-value (NaN) was no member before, and stays none.
    is_outlier = p_values < OUTLIER_P
    is_member &= ~is_outlier
    if is_member.sum() < MIN_VARIANCES:
        return PriorFit(None, is_member)
    prior = _fit(variances[is_member], degrees[is_member])
    has_enough = prior.degrees >= MIN_PRIOR_DEGREES
    return PriorFit(prior if has_enough else None, is_member)


def _fit(variances: np.ndarray, degrees: np.ndarray) -> Variance:
    """Return the prior variance with its degrees of freedom d0, fitted to at least 8 variances above 0.

    The model is by Smyth (2004, section 6.2). The true variances of the cells scatter about the prior
    variance; if d0 is large, they scatter little. The given variances scatter more, because each is an
    estimate. So their scatter beyond chance gives d0.

    The prior variance is computed with the likeliest d0, but the result has the smallest d0 that the given
    variances allow. With a smaller d0, the prior counts less. With too large a d0, the intervals of noisy
    cells would be too narrow.
    """
    # The logarithm of a variance that is estimated with d degrees is ln(true variance) + chance. The mean of
    # the chance, digamma(d / 2) - ln(d / 2), is subtracted. Its variance, trigamma(d / 2), remains.
    logs = np.log(variances) - special.digamma(degrees / 2) + np.log(degrees / 2)
    # polygamma(1, x) is trigamma(x).
    chance_variance = special.polygamma(1, degrees / 2).mean()
    scatter = logs.var(ddof=1)
    likeliest_degrees = _prior_degrees(scatter, chance_variance)
    least_degrees = _prior_degrees(_largest_scatter(scatter, len(logs)), chance_variance)
    # If all cells seem to have the same true variance, its best estimate is the weighted average.
    if math.isinf(likeliest_degrees):
        return Variance(float(np.average(variances, weights=degrees)), least_degrees)
    # The mean of ln(true variance) is ln(prior) - (digamma(d0 / 2) - ln(d0 / 2)). The smallest d0 would make
    # this prior too small.
    half = likeliest_degrees / 2
    log_variance = logs.mean() + special.digamma(half) - math.log(half)
    return Variance(math.exp(log_variance), least_degrees)


def _largest_scatter(scatter: float, count: int) -> float:
    """Return the upper limit of a variance that is estimated from `count` values, by chi square.

    The true variance is larger with the chance SCATTER_LIMIT.
    """
    degrees = count - 1
    # 2 x gammaincinv(d / 2, chance) is the quantile of chi square with d degrees of freedom.
    quantile = 2 * special.gammaincinv(degrees / 2, SCATTER_LIMIT)
    return float(scatter * degrees / quantile)


def _prior_degrees(scatter: float, chance_variance: float) -> float:
    """Return d0 by the scatter of log variances; infinite if chance explains all of it.

    The scatter of the true variances is trigamma(d0 / 2), which is solved for d0.
    """
    if scatter > chance_variance:
        return 2 * trigamma_inverse(scatter - chance_variance)
    return math.inf


def trigamma_inverse(value: float) -> float:
    """Return x with trigamma(x) = value > 0, by Newton's method on 1 / trigamma (Smyth 2004, appendix).

    Trigamma is polygamma(1, x) in scipy, which has no inverse. Example: 1.645 (pi squared / 6) gives 1.
    """
    # trigamma(x) is nearly 1 / x if x is large.
    if value < 1e-6:
        return 1 / value
    # 1 / trigamma(x) is nearly the line x - 0.5, so this is a good start. A few of the 50 steps are enough.
    x = 0.5 + 1 / value
    for _ in range(50):
        # The step is -f / f' for f(x) = 1 / trigamma - 1 / value, with f' = -polygamma(2, x) / trigamma^2.
        trigamma = special.polygamma(1, x)
        step = float(trigamma * (1 - trigamma / value) / special.polygamma(2, x))
        x += step
        if abs(step) < 1e-8 * x:
            break
    return x


def p_value_of_quotient(
    quotient: float | np.ndarray, degrees: float | np.ndarray, prior_degrees: float
) -> np.ndarray:
    """Return the probability of a larger quotient of a variance and its prior (F test).

    With infinite degrees of the prior, which scipy's F does not accept, F becomes chi square / degrees.
    """
    if math.isinf(prior_degrees):
        return np.asarray(special.chdtrc(degrees, degrees * quotient))
    return np.asarray(special.fdtrc(degrees, prior_degrees, quotient))

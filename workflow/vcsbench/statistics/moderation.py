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
    """The prior of variances (None: they are not moderated), and which of them belong to it."""

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
    """Return the prior, which is the usual variance of all cells, and which variances it describes.

    The arguments have an entry per cell; an unknown variance is NaN. Members are the variances above 0
    (EXACT) with degrees of freedom, without outliers: the prior is fitted to the members. The prior is None
    with fewer than MIN_VARIANCES members, or with fewer than MIN_PRIOR_DEGREES degrees: the other cells then
    show nearly nothing about a single one.
    """
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
    """Return the likeliest prior variance, with the smallest degrees of freedom d0 that the variances allow.

    There are at least MIN_VARIANCES variances, all above 0. The more the true variances of cells differ, the
    smaller is d0, and the less the prior counts. The smallest d0 is the cautious one: with too large a d0,
    the intervals of noisy cells are too narrow. The method is that of Smyth (2004, section 6.2).
    """
    # An estimated variance with d degrees is the true variance x chi square(d) / d. Its logarithm has three
    # terms: the logarithm of the true variance, the average digamma(d / 2) - ln(d / 2), and chance. `logs`
    # are without the average. The chance has the variance trigamma(d / 2): polygamma(1, d / 2).
    logs = np.log(variances) - special.digamma(degrees / 2) + np.log(degrees / 2)
    chance_variance = special.polygamma(1, degrees / 2).mean()
    # The scatter beyond the variance of the chance is that of the true variances. _prior_degrees() solves
    # scatter - chance_variance = trigamma(d0 / 2) for d0.
    scatter = logs.var(ddof=1)
    # The scatter is itself estimated from few cells, so the true scatter may be larger. Its upper limit by
    # chi square (exceeded with the chance SCATTER_LIMIT) gives the smallest d0.
    scatter_degrees = len(logs) - 1
    # 2 x gammaincinv(d / 2, chance) is the quantile of chi square with d degrees of freedom.
    quantile = 2 * special.gammaincinv(scatter_degrees / 2, SCATTER_LIMIT)
    largest_scatter = scatter * scatter_degrees / quantile
    likeliest_degrees = _prior_degrees(scatter, chance_variance)
    least_degrees = _prior_degrees(largest_scatter, chance_variance)
    # If all cells seem to have the same true variance, its best estimate is the weighted average.
    if math.isinf(likeliest_degrees):
        return Variance(float(np.average(variances, weights=degrees)), least_degrees)
    # A true variance is the prior x d0 / chi square(d0). So the average of its logarithm is ln(prior) minus
    # (digamma(d0 / 2) - ln(d0 / 2)).
    half = likeliest_degrees / 2
    log_variance = logs.mean() + special.digamma(half) - math.log(half)
    return Variance(math.exp(log_variance), least_degrees)


def _prior_degrees(scatter: float, chance_variance: float) -> float:
    """Return d0 by the scatter of log variances; infinite if chance explains all of it."""
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

"""The variance between duplicates (A/A test): cells with the same settings that differ all the same.

Two copies of a repository lie at other places of a disk, and two processes at other addresses. Such a
difference is the same in every round, so no number of rounds reduces it. It is part of each comparison,
because the two cells of a comparison have it, too. Its variance is called the lasting variance here.

Two estimates of the lasting variance are combined:

- The moment estimate of DerSimonian and Laird (1986), the usual one of meta-analysis: the squared
  differences of the pairs minus what their rounds explain. It needs many pairs: of one pair, it is mostly
  chance, and 0 in two of three cases.
- The posterior estimate with a half Student's t as prior of the standard deviation (Gelman 2006). The scale
  of the prior comes from pairs of real runs. So one pair suffices if duplicates are about as alike as usual.

Differences that are significantly larger than rounds explain (P_SIGNIFICANT) take the first, uncertain ones
(P_UNCERTAIN) the second. Both have degrees of freedom from the prior, because one or two pairs alone have too
few for any conclusion.
"""

import math
from dataclasses import dataclass

import numpy as np

from vcsbench.statistics.moderation import EXACT, p_value_of_quotient
from vcsbench.statistics.variances import Variance

P_SIGNIFICANT, P_UNCERTAIN = 0.01, 0.1
# For ln(duplicate / original). Pairs of real runs differ by 0.6 % in the median. With 3 degrees of freedom, a
# half Student's t allows a machine whose pairs differ several times as much.
PRIOR_SCALE, PRIOR_DEGREES = 0.010, 3.0
# The degrees of freedom that the prior adds to the moment estimate.
ADDED_DEGREES = 2.0
# A variance that is known exactly. Infinity would give 0 x infinity.
MAX_DEGREES = 1e6
# Standard deviations at which the posterior is computed. Twice as many change the fifth digit.
_POINTS = 300


@dataclass(frozen=True, eq=False)
class DuplicatePairs:
    """The pairs (a cell and its duplicate) of a study, with an entry for each pair in every array.

    - `squares`: the squared difference of the pair, which is the mean of ln(duplicate / original) over its
      rounds.
    - `by_rounds`: the variance that the difference has because the rounds scatter.
    - `degrees`: the degrees of freedom of `by_rounds`, which is an estimate.
    """

    squares: np.ndarray
    by_rounds: np.ndarray
    degrees: np.ndarray


def duplicate_variance(pairs: DuplicatePairs) -> Variance:
    """Return the lasting variance: of the part of ln(duplicate / original) that is the same in all rounds.

    There are two estimates: by the pairs alone (_moment_estimate), and by the pairs and the experience of
    earlier runs (_posterior_estimate). The larger the differences are, compared with the scatter of rounds,
    the more the first one counts. Example: many pairs differ by 2 %, and their rounds explain 1 %. The result
    is 0.02^2 - 0.01^2, that is (1.7 %)^2. With a single such pair, experience counts as well, and the result
    is about (1.3 %)^2. `pairs` must not be empty.
    """
    # Rounds without any scatter have the variance 0, by which nothing can be divided. Infinite degrees of
    # freedom would give 0 x infinity.
    bounded = DuplicatePairs(
        squares=pairs.squares,
        by_rounds=np.maximum(pairs.by_rounds, EXACT),
        degrees=np.minimum(pairs.degrees, MAX_DEGREES),
    )
    posterior = _posterior_estimate(bounded)
    # How many times larger the squared differences are than rounds explain: about 1 if nothing else differs.
    mean_quotient = (bounded.squares * (1 / bounded.by_rounds)).mean()
    moments = _moment_estimate(bounded, mean_quotient)
    # The rounds explain all differences, so the pairs alone show no lasting variance.
    if moments is None:
        return posterior
    # The chance of such large differences if rounds were their only cause: an F test of the quotient, with as
    # many degrees of freedom as there are pairs.
    mean_degrees = float(bounded.degrees.mean())
    p = float(p_value_of_quotient(mean_quotient, len(bounded.squares), mean_degrees))
    if p <= P_SIGNIFICANT:
        return moments
    return _mix_estimates(moments, posterior, p)


def _mix_estimates(moments: Variance, posterior: Variance, p: float) -> Variance:
    """Return the weighted average of both estimates, by the p-value of the differences.

    The share of `moments` is 1 at p = P_SIGNIFICANT, falls evenly with ln(p), and is 0 from P_UNCERTAIN on. A
    sudden fall could make the intervals of a whole study jump with one more round.
    """
    log_distance = math.log(P_UNCERTAIN / min(p, P_UNCERTAIN))
    moment_share = log_distance / math.log(P_UNCERTAIN / P_SIGNIFICANT)
    return Variance(
        moment_share * moments.variance + (1 - moment_share) * posterior.variance,
        moment_share * moments.degrees + (1 - moment_share) * posterior.degrees,
    )


def _moment_estimate(pairs: DuplicatePairs, mean_quotient: float) -> Variance | None:
    """Return the lasting variance by the pairs alone (method of moments); None if they show none.

    The squared difference of a pair is on average the sum of two variances: the lasting one, which all pairs
    share, and `by_rounds` of the pair. So square / by_rounds is 1 + lasting / by_rounds on average. With the
    mean of this quotient over all pairs, lasting = (mean_quotient - 1) / mean(1 / by_rounds).
    """
    weights = 1 / pairs.by_rounds
    lasting = float((mean_quotient - 1) / weights.mean())
    if lasting <= EXACT:
        return None
    # The degrees of freedom follow from the variance of this estimate, which is (sum of the quotients - their
    # number) / sum(weights). A quotient with the mean m has the variance 2 m^2, and 2 / d more, because its
    # by_rounds has only d degrees. Satterthwaite's formula takes half of it.
    mean_of_quotients = weights * (lasting + pairs.by_rounds)
    half_variances = mean_of_quotients**2 + 1 / pairs.degrees
    half_of_variance = half_variances.sum() / weights.sum() ** 2
    degrees = float(lasting**2 / half_of_variance)
    # One or two pairs have too few degrees for any conclusion. The experience of earlier runs adds some.
    return Variance(lasting, degrees + ADDED_DEGREES)


def _posterior_estimate(pairs: DuplicatePairs) -> Variance:
    """Return the lasting variance by the pairs and by the experience of earlier runs (Bayesian estimate).

    Each point of a grid is an assumed lasting standard deviation. Its weight, the posterior, is how usual it
    was in earlier runs (prior), times how well it explains the differences of the pairs (likelihood). The
    weights give the mean of the lasting variance, and how uncertain it is: its degrees of freedom.
    """
    # The grid has 0, and deviations from a twentieth of the prior's scale to one that is so large that
    # neither the prior nor a pair gives it much weight.
    largest_difference = math.sqrt(pairs.squares.max())
    widest = max(30 * PRIOR_SCALE, 5 * largest_difference)
    deviations = np.concatenate([[0.0], np.geomspace(PRIOR_SCALE / 20, widest, _POINTS)])
    variances = deviations**2
    log_posterior = _log_prior(deviations) + _log_likelihood(variances, pairs)
    # exp() of all logarithms could be 0. So the largest is subtracted first, which changes no proportion. The
    # points are not evenly spaced, so the distance to the next ones counts, too.
    weights = np.exp(log_posterior - log_posterior.max()) * np.gradient(deviations)
    weights /= weights.sum()
    mean = float((weights * variances).sum())
    spread = float((weights * (variances - mean) ** 2).sum())
    return _match_inverse_chi_square(mean, spread)


def _log_prior(deviations: np.ndarray) -> np.ndarray:
    """Return how usual each standard deviation of duplicates is, as a logarithm, by a half Student's t.

    A constant term is left out, because it changes no proportion of weights.
    """
    squared_t = (deviations / PRIOR_SCALE) ** 2
    return -(PRIOR_DEGREES + 1) / 2 * np.log1p(squared_t / PRIOR_DEGREES)


def _log_likelihood(variances: np.ndarray, pairs: DuplicatePairs) -> np.ndarray:
    """Return for each assumed lasting variance how well it explains all pairs, as a logarithm.

    The difference of a pair has Student's t distribution. The density of t with d degrees of freedom is
    (1 + t^2 / d)^(-(d + 1) / 2), divided by the standard deviation. A factor that depends on d only is left
    out, because it is nearly the same everywhere.
    """
    # These arrays have a row per lasting variance, and a column per pair. The variance of a difference is a
    # sum: the lasting variance, which is exact here, and by_rounds, which is estimated. The smaller the
    # estimated part is, the more degrees of freedom the sum has (Satterthwaite).
    total_variances = variances[:, None] + pairs.by_rounds
    degrees = pairs.degrees * (total_variances / pairs.by_rounds) ** 2
    # The squared t is the squared difference divided by its variance.
    squared_t_per_degree = pairs.squares / degrees / total_variances
    log_deviations = np.log(total_variances) / 2
    log_densities = -(degrees + 1) / 2 * np.log1p(squared_t_per_degree) - log_deviations
    return np.asarray(log_densities.sum(axis=1))


def _match_inverse_chi_square(mean: float, spread: float) -> Variance:
    """Return the scale s^2 and the degrees d of the inverse chi square with a mean and a variance (`spread`).

    Its mean is s^2 d / (d - 2), and its variance 2 mean^2 / (d - 4). An uncertain variance is assumed to have
    this distribution, because Student's t with s^2 and d then gives the right intervals.
    """
    # If one point of the grid has all of the weight, the mean counts as exact.
    if not spread:
        return Variance(mean, MAX_DEGREES)
    degrees = 4 + 2 * mean**2 / spread
    scale = mean * (degrees - 2) / degrees
    return Variance(scale, degrees)

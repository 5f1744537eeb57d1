"""The variance between duplicates (A/A test): cells with the same settings that differ all the same.

Two copies of a repository lie at other places of a disk, and two processes at other addresses. Such a
difference is the same in every round, so no number of rounds reduces it. It is part of each comparison,
because the two cells of a comparison have it, too.

Two estimates of this variance are combined:

- The moment estimate of DerSimonian and Laird (1986), the usual one of meta-analysis: the squared
  differences of the pairs minus what their rounds explain. It needs many pairs: of one pair, it is mostly
  chance, and 0 in two of three cases.
- The posterior estimate with a half Student's t as prior of the standard deviation (Gelman 2006). The scale
  of the prior comes from pairs of real runs. So one pair suffices if duplicates are about as alike as usual.

A significant excess (P_SIGNIFICANT) takes the first, an uncertain one (P_UNCERTAIN) the second. Both have
degrees of freedom from the prior, because one or two pairs alone have too few for any conclusion.
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
    """The pairs of a study, an entry for each in every array.

    - `squares`: the square of the mean of ln(duplicate / original) over the rounds.
    - `by_rounds`: the variance of this mean that the scatter of the rounds explains.
    - `degrees`: the degrees of freedom of that variance.
    """

    squares: np.ndarray
    by_rounds: np.ndarray
    degrees: np.ndarray


def duplicate_variance(pairs: DuplicatePairs) -> Variance:
    """Return the excess variance: of ln(duplicate / original), beyond what the scatter of rounds explains.

    `pairs` must not be empty. Example: several pairs with the squares 0.02^2 and `by_rounds` 0.01^2 have
    about 0.02^2 - 0.01^2, that is (1.7 %)^2. One pair alone has (1.3 %)^2, because the prior still counts.
    """
    # Rounds without any scatter have the variance 0, by which nothing can be divided. Infinite degrees of
    # freedom would give 0 x infinity.
    bounded = DuplicatePairs(
        squares=pairs.squares,
        by_rounds=np.maximum(pairs.by_rounds, EXACT),
        degrees=np.minimum(pairs.degrees, MAX_DEGREES),
    )
    posterior = _posterior_estimate(bounded)
    # The mean of the squares, each divided by its variance by rounds: 1 on average if rounds explain all.
    quotient = (bounded.squares * (1 / bounded.by_rounds)).mean()
    moments = _moment_estimate(bounded, quotient)
    # The pairs alone show no excess.
    if moments is None:
        return posterior
    # The chance of such large differences if there were no excess: an F test of the quotient, with as many
    # degrees of freedom as there are pairs.
    mean_degrees = float(bounded.degrees.mean())
    p = float(p_value_of_quotient(quotient, len(bounded.squares), mean_degrees))
    if p <= P_SIGNIFICANT:
        return moments
    # Between the two limits of p, the result is a mixture. The share of the moment estimate is 1 at p =
    # P_SIGNIFICANT, falls evenly with ln(p), and is 0 from P_UNCERTAIN on. A sudden fall could make the
    # intervals of a whole study jump with one more round.
    log_distance = math.log(P_UNCERTAIN / min(p, P_UNCERTAIN))
    moment_share = log_distance / math.log(P_UNCERTAIN / P_SIGNIFICANT)
    return Variance(
        moment_share * moments.variance + (1 - moment_share) * posterior.variance,
        moment_share * moments.degrees + (1 - moment_share) * posterior.degrees,
    )


def _moment_estimate(pairs: DuplicatePairs, quotient: float) -> Variance | None:
    """Return the excess variance by the method of moments; None if there is no excess.

    `quotient` is the mean over the pairs of squares / by_rounds (above 0). On average, a square is the excess
    + its by_rounds. So `quotient` is 1 + excess x mean(1 / by_rounds), which is solved for the excess.
    """
    weights = 1 / pairs.by_rounds
    excess = float((quotient - 1) / weights.mean())
    if excess <= EXACT:
        return None
    # Half of the variance of each pair's square / by_rounds. The square of a difference with the variance v
    # has the variance 2 v^2. A variance that was estimated with d degrees of freedom adds 2 / d.
    half_variances = (weights * (excess + pairs.by_rounds)) ** 2 + 1 / pairs.degrees
    half_of_variance = half_variances.sum() / weights.sum() ** 2
    # Satterthwaite's degrees of freedom: the squared estimate divided by half of its own variance.
    degrees = float(excess**2 / half_of_variance)
    return Variance(excess, degrees + ADDED_DEGREES)


def _posterior_estimate(pairs: DuplicatePairs) -> Variance:
    """Return the Bayesian estimate of the excess variance: that of duplicates beyond the scatter of rounds.

    The prior is how likely each standard deviation of duplicates was in other studies, and the posterior is
    prior times likelihood. The result is the scale and the degrees of freedom of the scaled inverse chi
    square with the same mean and variance as the posterior. With these two, Student's t gives the right
    intervals.
    """
    # 1. The grid of standard deviations: 0, and from a twentieth of the prior's scale to one that is so large
    # that neither the prior nor a pair gives it much weight.
    widest = max(30 * PRIOR_SCALE, 5 * math.sqrt(pairs.squares.max()))
    deviations = np.concatenate([[0.0], np.geomspace(PRIOR_SCALE / 20, widest, _POINTS)])
    variances = deviations**2
    # 2. The variance of the difference of each pair (column) if the excess is that of a grid point (row). Of
    # its two parts, the excess is exact here, and by_rounds is estimated. So the sum has the more degrees of
    # freedom, the smaller the part by_rounds is (Satterthwaite).
    total = variances[:, None] + pairs.by_rounds
    degrees = pairs.degrees * (total / pairs.by_rounds) ** 2
    # 3. Minus the logarithms of the likelihood (Student's t) and of the prior (half Student's t). Constant
    # factors are left out, because the weights are divided by their sum below. The density of Student's t
    # is (1 + t^2 / degrees)^(-(degrees + 1) / 2) / sqrt(total), with t^2 = square / total.
    squared_t_by_degrees = pairs.squares / degrees / total
    half_logs = np.log(total) / 2
    minus_log_data = (degrees + 1) / 2 * np.log1p(squared_t_by_degrees) + half_logs
    prior_squared_t = (deviations / PRIOR_SCALE) ** 2
    minus_log_prior = (PRIOR_DEGREES + 1) / 2 * np.log1p(prior_squared_t / PRIOR_DEGREES)
    log_posterior = -minus_log_prior - minus_log_data.sum(axis=1)
    # 4. The weights of the grid points, times the width of their unequal steps. exp() of all logarithms could
    # be 0. So the largest is subtracted first, which changes no proportion.
    weights = np.exp(log_posterior - log_posterior.max()) * np.gradient(deviations)
    weights /= weights.sum()
    # 5. The mean and the variance of the excess variance.
    mean = float((weights * variances).sum())
    spread = float((weights * (variances - mean) ** 2).sum())
    # If one point of the grid has all of the weight, the mean counts as exact.
    if not spread:
        return Variance(mean, MAX_DEGREES)
    # A scaled inverse chi square with d degrees of freedom and the scale s^2 has the mean s^2 d / (d - 2)
    # and the variance 2 mean^2 / (d - 4). Solved for d and s^2:
    matched_degrees = 4 + 2 * mean**2 / spread
    matched_scale = mean * (matched_degrees - 2) / matched_degrees
    return Variance(matched_scale, matched_degrees)

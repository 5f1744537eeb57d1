"""Means, intervals and variances, their moderation, and the variance of duplicates, on known data."""

import math

import numpy as np
import pytest
from scipy import stats

from vcsbench.statistics.estimates import (
    PRIOR_SCALE,
    Variance,
    duplicate_variance,
    mean_interval,
    moderated,
    ratio_interval,
    residual_squares,
    sum_variances,
    t_quantile,
)


def test_mean_interval_equals_scipy_and_printed_table():
    values = [1.0, 1.3, 0.8, 1.1, 1.2]
    ours = mean_interval(values)
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    assert (ours.value, ours.n) == (pytest.approx(1.08), 5)
    assert t_quantile(4) == pytest.approx(2.776, abs=5e-4)


def test_ratio_interval_is_geometric_mean_and_one_round_has_no_interval():
    estimate = ratio_interval([math.log(2), math.log(8)])
    assert estimate.value == pytest.approx(4) and estimate.low < 2 < 8 < estimate.high
    assert estimate.high / 4 == pytest.approx(4 / estimate.low)
    estimate = ratio_interval([math.log(3), math.nan])
    assert estimate.value == pytest.approx(3)
    assert math.isnan(estimate.low) and math.isnan(estimate.high)


def test_sum_variances_has_satterthwaite_degrees():
    total = sum_variances([Variance(4.0, 10), Variance(1.0, 5), Variance(0.0, 3)])
    assert total == (5, pytest.approx(25 / (16 / 10 + 1 / 5)))
    assert sum_variances([Variance(0.0)]) == (0, math.inf)


def test_moderated_variances_of_model_have_its_degrees():
    """Draw variances from the model: around a common variance with 8 degrees of freedom."""
    random = np.random.default_rng(2)
    truth = 0.02 * 8 / random.chisquare(8, 20_000)
    seen = truth * random.chisquare(4, 20_000) / 4
    made, degrees = moderated(seen, np.full(20_000, 4.0))
    included = degrees != 4
    assert included.mean() > 0.98
    assert degrees[included][0] == pytest.approx(4 + 8, rel=0.15)  # because outliers are excluded
    errors = [np.log(variances[included] / truth[included]).std() for variances in (made, seen)]
    assert errors[0] < 0.8 * errors[1]


def test_moderated_outlier_is_excluded():
    alike = np.random.default_rng(4).chisquare(4, 60) / 4
    alone, _ = moderated(alike, np.full(60, 4.0))
    made, degrees = moderated(np.append(alike, 300.0), np.full(61, 4.0))
    assert (made[-1], degrees[-1]) == (300.0, 4.0)
    assert made[:-1] == pytest.approx(alone, rel=0.02)


def test_residual_squares_exclude_shared_drift():
    random = np.random.default_rng(7)
    own = random.normal(0, 0.1, (40, 30))
    drift = np.repeat(random.normal(0, 3, (2, 30)), 20, axis=0)
    squares, degrees = residual_squares(own + drift, np.repeat([0, 1], 20))
    assert degrees == pytest.approx(29 * 19 / 20)
    assert (squares.sum() / degrees.sum()) ** 0.5 == pytest.approx(0.1, rel=0.08)


BY_ROUNDS = 0.03  # the standard deviation of a mean log difference by its rounds
PAIRS = 12


def estimate(excess, pairs=PAIRS, by_rounds=BY_ROUNDS):
    squares = np.full(pairs, excess * by_rounds**2)
    return duplicate_variance(squares, np.full(pairs, by_rounds**2), np.full(pairs, 40.0))


def moments(excess, by_rounds=BY_ROUNDS):
    return by_rounds**2 * (excess - 1)


def simulated(studies, by_rounds, differ, seed):
    variances, degrees = np.full(PAIRS, by_rounds**2), np.full(PAIRS, 40.0)
    drawn = np.random.default_rng(seed).normal(0, math.hypot(by_rounds, differ), (studies, PAIRS))
    return np.array([duplicate_variance(row, variances, degrees).variance for row in drawn**2])


def test_duplicate_variance_grows_from_prior_to_moments():
    for excess in (0.0, 0.5, 1.0):
        assert estimate(excess).variance < PRIOR_SCALE**2
    uncertain = [estimate(excess).variance for excess in (1.01, 1.2, 1.5, 1.8)]
    assert uncertain == sorted(uncertain) and uncertain[-1] < 0.7 * moments(1.8)
    assert estimate(4.0).variance == pytest.approx(moments(4.0))
    assert estimate(10.0, 1, 0.001).variance == pytest.approx(moments(10.0, 0.001))
    between = np.sqrt([estimate(x).variance for x in np.linspace(1.5, 3, 301)])
    assert np.diff(between).max() < 0.02 * between.max(), "no jump"


@pytest.mark.parametrize("pairs", [1, 2, 4])
def test_duplicate_variance_few_pairs_have_degrees_of_the_prior(pairs):
    """Without the prior, two pairs have 2 degrees, and a difference of 60 % is inconclusive."""
    for excess in (0.0, 1.5, 3.0, 50.0):
        assert estimate(excess, pairs).degrees > 2.5


def test_duplicate_variance_simulated_equals_truth():
    assert np.mean(np.sqrt(simulated(2000, BY_ROUNDS, 0.0, seed=1)) > 0.02) < 0.03
    assert math.sqrt(simulated(500, 0.02, 0.03, seed=2).mean()) == pytest.approx(0.03, rel=0.15)

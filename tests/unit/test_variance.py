"""Variances, their moderation, and the variance of duplicates, on data of known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from vcsbench.statistics import variance
from vcsbench.statistics.variance import (
    PRIOR_SCALE,
    Variance,
    duplicate_variance,
    moderated,
    residual_squares,
    sum_variances,
    trigamma_inverse,
)


def test_sum_variances_has_satterthwaite_degrees():
    total = sum_variances([Variance(4.0, 10), Variance(1.0, 5), Variance(0.0, 3)])
    assert total.variance == 5
    assert total.degrees == pytest.approx(25 / (16 / 10 + 1 / 5))
    same = sum_variances([Variance(2.0, 7), Variance(2.0, 7)])
    assert same.degrees == pytest.approx(14)
    assert sum_variances([Variance(0.0)]) == (0, math.inf)


@pytest.mark.parametrize("value", [1e-8, 0.01, 0.3, 1.0, 7.0, 1e4])
def test_trigamma_inverse_inverts(value):
    assert special.polygamma(1, trigamma_inverse(value)) == pytest.approx(value, rel=1e-6)


def test_moderated_equal_variances_have_all_degrees():
    random = np.random.default_rng(1)
    seen = 0.01 * random.chisquare(4, 2000) / 4
    made, degrees = moderated(seen, np.full(2000, 4.0))
    assert np.quantile(made, [0.05, 0.95]) == pytest.approx([0.01, 0.01], rel=0.2)
    assert np.median(degrees) > 30


def test_prior_of_degrees_equal_truth():
    """Draw variances from the model: around a common variance with 8 degrees of freedom."""
    random = np.random.default_rng(2)
    truth = 0.02 * 8 / random.chisquare(8, 20_000)
    made, degrees = moderated(truth * random.chisquare(4, 20_000) / 4, np.full(20_000, 4.0))
    included = degrees != 4
    assert included.mean() > 0.98
    assert degrees[included][0] == pytest.approx(4 + 8, rel=0.15)  # because outliers are excluded
    # The expectation of a variance is then the true one.
    assert (
        np.log(made[included] / truth[included]).std()
        < np.log(0.9 * stats.chi2(4).rvs(20_000)).std()
    )


def test_moderated_unequal_variances_are_unchanged():
    random = np.random.default_rng(3)
    truth = np.exp(random.normal(0, 2, 500))
    _, degrees = moderated(truth * random.chisquare(4, 500) / 4, np.full(500, 4.0))
    assert np.median(degrees) == 4


def test_moderated_outlier_is_excluded():
    random = np.random.default_rng(4)
    alike = random.chisquare(4, 60) / 4
    alone, _ = moderated(alike, np.full(60, 4.0))
    made, degrees = moderated(np.append(alike, 300.0), np.full(61, 4.0))
    assert (made[-1], degrees[-1]) == (300.0, 4.0)
    assert made[:-1] == pytest.approx(alone, rel=0.02)


def test_moderated_few_or_exact_are_unchanged():
    few = np.array([1.0, 2.0, 3.0])
    made, degrees = moderated(few, np.full(3, 4.0))
    assert (made.tolist(), degrees.tolist()) == (few.tolist(), [4.0] * 3)
    random = np.random.default_rng(5)
    some = np.append(random.chisquare(4, 20), [0.0, 1e-30, math.nan])
    made, _ = moderated(some, np.full(23, 4.0))
    assert made[20:22].tolist() == [0.0, 1e-30]
    assert math.isnan(made[22])
    assert variance.MIN_VARIANCES > 3


def test_residual_squares_two_cells_equal_paired_test():
    random = np.random.default_rng(6)
    logs = random.normal(0, 1, (2, 6)) + np.linspace(0, 9, 6)
    squares, degrees = residual_squares(logs, np.array([0, 0]))
    assert (squares / degrees).sum() == pytest.approx((logs[0] - logs[1]).var(ddof=1))
    assert degrees.tolist() == [2.5, 2.5]


def test_residual_squares_exclude_shared_drift():
    random = np.random.default_rng(7)
    own = random.normal(0, 0.1, (40, 30))
    drift = np.repeat(random.normal(0, 3, (2, 30)), 20, axis=0)
    squares, degrees = residual_squares(own + drift, np.repeat([0, 1], 20))
    assert degrees == pytest.approx(29 * 19 / 20)
    assert (squares.sum() / degrees.sum()) ** 0.5 == pytest.approx(0.1, rel=0.08)


def test_residual_squares_ignore_missing_rounds():
    random = np.random.default_rng(8)
    logs = random.normal(0, 0.1, (10, 8))
    logs[3, 2:] = math.nan
    squares, degrees = residual_squares(logs, np.zeros(10, int))
    assert degrees[3] == pytest.approx(1 * 0.9)
    assert np.isfinite(squares).all()
    alone, none = residual_squares(logs[:1], np.zeros(1, int))
    assert (alone[0], none[0]) == (0, 0)


BY_ROUNDS = 0.03  # the standard deviation of a mean log difference by its rounds
PAIRS = 12


def estimate(excess: float, pairs: int = PAIRS, by_rounds: float = BY_ROUNDS) -> Variance:
    squares = np.full(pairs, excess * by_rounds**2)
    return duplicate_variance(squares, np.full(pairs, by_rounds**2), np.full(pairs, 40.0))


def deviation(excess: float, pairs: int = PAIRS, by_rounds: float = BY_ROUNDS) -> float:
    return math.sqrt(estimate(excess, pairs, by_rounds).variance)


def moments(excess: float, by_rounds: float = BY_ROUNDS) -> float:
    return by_rounds * math.sqrt(excess - 1)


def simulated(studies: int, by_rounds: float, differ: float, seed: int) -> np.ndarray:
    variances, degrees = np.full(PAIRS, by_rounds**2), np.full(PAIRS, 40.0)
    drawn = np.random.default_rng(seed).normal(0, math.hypot(by_rounds, differ), (studies, PAIRS))
    return np.array([duplicate_variance(row, variances, degrees).variance for row in drawn**2])


@pytest.mark.parametrize("excess", [0.0, 0.5, 1.0])
def test_duplicate_variance_without_excess_is_below_prior(excess):
    assert deviation(excess) < PRIOR_SCALE


def test_duplicate_variance_uncertain_excess_grows_and_stays_below_moments():
    found = [deviation(excess) for excess in (1.01, 1.2, 1.5, 1.8)]
    assert found == sorted(found)
    assert found[-1] < 0.85 * moments(1.8)


def test_duplicate_variance_significant_excess_equals_moments():
    assert deviation(4.0) == pytest.approx(moments(4.0))
    assert deviation(10.0, pairs=1, by_rounds=0.001) == pytest.approx(moments(10.0, 0.001))


def test_duplicate_variance_has_no_jump_between_the_estimates():
    found = np.array([deviation(x) for x in np.linspace(1.5, 3, 301)])
    assert np.diff(found).max() < 0.02 * found.max()


@pytest.mark.parametrize("pairs", [1, 2, 4])
def test_duplicate_variance_few_pairs_have_degrees_of_the_prior(pairs):
    """Without the prior, two pairs have 2 degrees, and a difference of 60 % is inconclusive."""
    for excess in (0.0, 1.5, 3.0, 50.0):
        assert estimate(excess, pairs).degrees > 2.5


def test_duplicate_variance_equal_duplicates_rarely_have_a_large_one():
    assert np.mean(np.sqrt(simulated(2000, BY_ROUNDS, 0.0, seed=1)) > 0.02) < 0.03


def test_duplicate_variance_is_unbiased_for_clear_differences():
    assert math.sqrt(simulated(500, 0.02, 0.03, seed=2).mean()) == pytest.approx(0.03, rel=0.15)


def test_duplicate_variance_without_scatter_is_finite():
    none, endless = np.zeros(3), np.full(3, math.inf)
    assert duplicate_variance(none, none, endless).variance < 1e-6
    assert duplicate_variance(np.full(3, 1e-4), none, endless).variance == pytest.approx(1e-4)
    found = duplicate_variance(np.full(3, 1.2e-4), np.full(3, 1e-4), endless)
    assert found.variance > 0 and math.isfinite(found.degrees)

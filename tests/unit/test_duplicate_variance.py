"""The variance between duplicates beyond the scatter of their rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vcsbench.statistics.variance import PRIOR_SCALE, Variance, duplicate_variance

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
    """Two pairs alone have 2 degrees, with which a difference of 60 % stays inconclusive."""
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

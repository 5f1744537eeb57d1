"""Variances made steadier by one another, against what limma gives and against truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from vcsbench.statistics import variance
from vcsbench.statistics.variance import (
    Variance,
    moderated,
    residual_squares,
    sum_variances,
    trigamma_inverse,
)


def test_a_sum_has_satterthwaites_degrees():
    total = sum_variances([Variance(4.0, 10), Variance(1.0, 5), Variance(0.0, 3)])
    assert total.variance == 5
    assert total.degrees == pytest.approx(25 / (16 / 10 + 1 / 5))
    same = sum_variances([Variance(2.0, 7), Variance(2.0, 7)])
    assert same.degrees == pytest.approx(14)
    assert sum_variances([Variance(0.0)]) == (0, math.inf)


@pytest.mark.parametrize("value", [1e-8, 0.01, 0.3, 1.0, 7.0, 1e4])
def test_trigamma_inverse_is_one(value):
    assert special.polygamma(1, trigamma_inverse(value)) == pytest.approx(value, rel=1e-6)


def test_what_scatters_alike_is_taken_to_be_alike():
    random = np.random.default_rng(1)
    seen = 0.01 * random.chisquare(4, 2000) / 4
    made, degrees = moderated(seen, np.full(2000, 4.0))
    assert np.quantile(made, [0.05, 0.95]) == pytest.approx([0.01, 0.01], rel=0.2)
    assert np.median(degrees) > 30


def test_d0_is_that_of_the_truth():
    """Variances drawn as the model says: about a common one with 8 degrees of freedom."""
    random = np.random.default_rng(2)
    truth = 0.02 * 8 / random.chisquare(8, 20_000)
    made, degrees = moderated(truth * random.chisquare(4, 20_000) / 4, np.full(20_000, 4.0))
    kept = degrees != 4
    assert kept.mean() > 0.98
    assert degrees[kept][0] == pytest.approx(4 + 8, rel=0.15)  # for the outlying ones are left out
    # A variance's expectation is then what it is made.
    assert np.log(made[kept] / truth[kept]).std() < np.log(0.9 * stats.chi2(4).rvs(20_000)).std()


def test_very_unequal_variances_stand_on_their_own():
    random = np.random.default_rng(3)
    truth = np.exp(random.normal(0, 2, 500))
    _, degrees = moderated(truth * random.chisquare(4, 500) / 4, np.full(500, 4.0))
    assert np.median(degrees) == 4


def test_one_far_above_the_others_keeps_its_own_and_changes_nothing():
    random = np.random.default_rng(4)
    alike = random.chisquare(4, 60) / 4
    alone, _ = moderated(alike, np.full(60, 4.0))
    made, degrees = moderated(np.append(alike, 300.0), np.full(61, 4.0))
    assert (made[-1], degrees[-1]) == (300.0, 4.0)
    assert made[:-1] == pytest.approx(alone, rel=0.02)


def test_few_are_not_asked_and_exact_ones_stay_exact():
    few = np.array([1.0, 2.0, 3.0])
    made, degrees = moderated(few, np.full(3, 4.0))
    assert (made.tolist(), degrees.tolist()) == (few.tolist(), [4.0] * 3)
    random = np.random.default_rng(5)
    some = np.append(random.chisquare(4, 20), [0.0, 1e-30, math.nan])
    made, _ = moderated(some, np.full(23, 4.0))
    assert made[20:22].tolist() == [0.0, 1e-30]
    assert math.isnan(made[22])
    assert variance.MIN_VARIANCES > 3


def test_residuals_of_two_cells_are_the_paired_comparison():
    random = np.random.default_rng(6)
    logs = random.normal(0, 1, (2, 6)) + np.linspace(0, 9, 6)
    squares, degrees = residual_squares(logs, np.array([0, 0]))
    assert (squares / degrees).sum() == pytest.approx((logs[0] - logs[1]).var(ddof=1))
    assert degrees.tolist() == [2.5, 2.5]


def test_what_a_block_shares_in_a_round_is_no_scatter():
    random = np.random.default_rng(7)
    own = random.normal(0, 0.1, (40, 30))
    drift = np.repeat(random.normal(0, 3, (2, 30)), 20, axis=0)
    squares, degrees = residual_squares(own + drift, np.repeat([0, 1], 20))
    assert degrees == pytest.approx(29 * 19 / 20)
    assert (squares.sum() / degrees.sum()) ** 0.5 == pytest.approx(0.1, rel=0.08)


def test_a_round_that_is_missing_has_no_part():
    random = np.random.default_rng(8)
    logs = random.normal(0, 0.1, (10, 8))
    logs[3, 2:] = math.nan
    squares, degrees = residual_squares(logs, np.zeros(10, int))
    assert degrees[3] == pytest.approx(1 * 0.9)
    assert np.isfinite(squares).all()
    alone, none = residual_squares(logs[:1], np.zeros(1, int))
    assert (alone[0], none[0]) == (0, 0)

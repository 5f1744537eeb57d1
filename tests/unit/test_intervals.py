"""Intervals, against Student's table and scipy's own test of means."""

import math

import pytest
from scipy import stats

from vcsbench.statistics.intervals import mean_interval, ratio, ratio_interval, t_quantile


def test_quantiles_are_those_of_the_printed_table():
    assert t_quantile(4) == pytest.approx(2.776, abs=5e-4)
    assert t_quantile(9) == pytest.approx(2.262, abs=5e-4)


def test_mean_interval_is_scipys():
    values = [1.0, 1.3, 0.8, 1.1, 1.2]
    ours = mean_interval(values)
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    assert (ours.value, ours.n) == (pytest.approx(1.08), 5)


def test_ratio_is_the_geometric_mean_of_the_rounds():
    estimate = ratio_interval([math.log(2), math.log(8)])
    assert estimate.value == pytest.approx(4)
    assert estimate.low < 2 < 8 < estimate.high
    assert math.log(estimate.high) - math.log(4) == pytest.approx(
        math.log(4) - math.log(estimate.low)
    )


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf, -math.inf]])
def test_no_values_have_no_mean(values):
    estimate = mean_interval(values)
    assert math.isnan(estimate.value)
    assert estimate.n == 0


def test_one_round_has_a_mean_and_no_interval():
    estimate = ratio_interval([math.log(3), math.nan])
    assert estimate.value == pytest.approx(3)
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)


def test_an_interval_of_which_hardly_anything_is_known_is_wide_and_finite():
    estimate = ratio(0.1, 0.5, 0.1, 5)
    assert 0 < estimate.low < 1e-40 and 1e40 < estimate.high < math.inf

"""Intervals, against Student's table and scipy's own test of means."""

import math

import pytest
from scipy import stats

from vcsbench.statistics.intervals import mean_interval, ratio, ratio_interval, t_quantile


def test_t_quantile_equals_printed_table():
    assert t_quantile(4) == pytest.approx(2.776, abs=5e-4)
    assert t_quantile(9) == pytest.approx(2.262, abs=5e-4)


def test_mean_interval_equals_scipy():
    values = [1.0, 1.3, 0.8, 1.1, 1.2]
    ours = mean_interval(values)
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    assert (ours.value, ours.n) == (pytest.approx(1.08), 5)


def test_ratio_interval_is_geometric_mean():
    estimate = ratio_interval([math.log(2), math.log(8)])
    assert estimate.value == pytest.approx(4)
    assert estimate.low < 2 < 8 < estimate.high
    assert math.log(estimate.high) - math.log(4) == pytest.approx(
        math.log(4) - math.log(estimate.low)
    )


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf, -math.inf]])
def test_mean_interval_empty_is_nan(values):
    estimate = mean_interval(values)
    assert math.isnan(estimate.value)
    assert estimate.n == 0


def test_mean_interval_one_round_has_no_interval():
    estimate = ratio_interval([math.log(3), math.nan])
    assert estimate.value == pytest.approx(3)
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)


def test_ratio_almost_unknown_error_is_finite():
    estimate = ratio(0.1, 0.5, 0.1, 5)
    assert 0 < estimate.low < 1e-40 and 1e40 < estimate.high < math.inf

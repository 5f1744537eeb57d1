"""Calls of comparisons: different, equivalent or inconclusive, corrected for multiple testing."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from vcsbench.statistics.contract import DEFAULT_LIMITS, Limits, is_difference
from vcsbench.statistics.intervals import Estimate, ratio_interval
from vcsbench.statistics.multiple_testing import (
    ALPHA,
    EQUIVALENCE_ALPHA,
    TABLE_ALPHA,
    add_calls,
    calls_of,
)

WORDS = ("faster", "slower")


def estimate(mean, spread=0.01, n=5):
    """Return log ratios with a given mean and standard deviation."""
    z = stats.zscore(np.arange(n, dtype=float), ddof=1) if n > 1 else np.zeros(n)
    return ratio_interval(mean + spread * z)


def call(mean, spread=0.01, n=5, notable=10.0, twins_known=True):
    return calls_of([estimate(mean, spread, n)], twins_known, WORDS, Limits(notable))[0]


def table_of(found):
    row = vars(found) | {"twin_sd": 0.0}
    return add_calls(pd.DataFrame([row]).rename(columns={"value": "ratio"}), WORDS, DEFAULT_LIMITS)


def test_add_calls_known_intervals_have_calls():
    assert call(0.2) == "faster"
    assert call(-0.2) == "slower"
    assert call(0.0) == "no difference shown"
    assert call(0.0, spread=0.1) == "too noisy to say"
    assert call(0.2, n=4) == "too noisy to say"
    assert call(0.2, n=1) == "too noisy to say"
    assert call(0.2, twins_known=False) == "too noisy to say"
    assert calls_of([ratio_interval([])], True, WORDS, DEFAULT_LIMITS) == [""]


@pytest.mark.parametrize("side", [1, -1])
def test_add_calls_equivalence_by_two_one_sided_tests(side):
    """Compare with scipy: the nearer bound gives the p-value."""
    n, spread = 8, 0.05
    z = stats.zscore(np.arange(n, dtype=float), ddof=1)
    bound = math.log(1.1)

    def chance(mean):
        return max(
            stats.ttest_1samp(mean + spread * z, -bound, alternative="greater").pvalue,
            stats.ttest_1samp(mean + spread * z, bound, alternative="less").pvalue,
        )

    means = np.linspace(0, 0.1, 200)
    most = max(mean for mean in means if chance(mean) <= EQUIVALENCE_ALPHA)
    assert 0.01 < most < 0.09
    none = {call(side * mean, spread, n) for mean in means[means <= most]}
    assert none == {"no difference shown"}
    assert call(side * (most + 0.001), spread, n) != "no difference shown"


def test_add_calls_within_is_limit_of_equivalence():
    found = estimate(0.02, 0.05, 9)
    within = table_of(found)["within"][0]
    for factor, word in ((1.001, "no difference shown"), (0.999, "too noisy to say")):
        limits = Limits(min_effect_pct=100 * (1 + (within - 1) * factor - 1))
        assert calls_of([found], True, WORDS, limits) == [word]


def test_add_calls_small_significant_difference_is_called():
    assert call(0.03, spread=0.001) == "faster"


def test_add_calls_single_comparison_uses_alpha():
    t = stats.t.ppf(1 - ALPHA / 2, 4) * 0.01 / math.sqrt(5)
    assert call(1.01 * t) == "faster"
    assert call(0.99 * t) == "no difference shown"


def test_add_calls_holm_equals_textbook():
    # 40 comparisons, ten with a difference, and Holm's rule with p-values of scipy.
    means = [*np.linspace(0.05, 0.14, 10), *[0.001] * 30]
    found = [estimate(mean, 0.02, 6) for mean in means]
    p = [2 * stats.t.sf(m / (0.02 / math.sqrt(6)), 5) for m in means]
    expected = []
    for rank, i in enumerate(np.argsort(p)):
        if p[i] > min(ALPHA, TABLE_ALPHA / (40 - rank)):
            break
        expected.append(i)
    assert 0 < len(expected) < 10
    calls = calls_of(found, True, WORDS, DEFAULT_LIMITS)
    assert [i for i, word in enumerate(calls) if word == "faster"] == sorted(expected)
    # By itself each but the least is a difference.
    assert all(calls_of([one], True, WORDS, DEFAULT_LIMITS) == ["faster"] for one in found[1:10])


def test_add_calls_untested_rows_are_not_corrected_for():
    one = estimate(0.04, 0.01)
    others = [estimate(0.0, 0.01, n=3)] * 50 + [Estimate(math.nan, math.nan, math.nan, 0)] * 50
    assert (
        calls_of([one, *others], True, WORDS, DEFAULT_LIMITS)[0]
        == calls_of([one], True, WORDS, DEFAULT_LIMITS)[0]
        == "faster"
    )


def test_detectable_effect_is_called_in_nine_of_ten():
    error, n = 0.01 / math.sqrt(8), 8
    smallest = table_of(estimate(0.0, 0.01, n))["detectable"][0]
    assert math.log(smallest) == pytest.approx(
        (stats.t.ppf(1 - ALPHA / 2, n - 1) + stats.t.ppf(0.9, n - 1)) * error
    )


def test_add_calls_without_scatter_is_exact():
    assert call(0.5, spread=0.0) == "faster"
    assert call(0.0, spread=0.0) == "no difference shown"


def test_add_calls_min_rounds_is_a_limit():
    three = [estimate(0.2, n=3)]
    assert calls_of(three, True, WORDS, DEFAULT_LIMITS) == ["too noisy to say"]
    assert calls_of(three, True, WORDS, Limits(min_rounds=3)) == ["faster"]
    assert calls_of([estimate(0.2, n=5)], True, WORDS, Limits(min_rounds=6)) != ["faster"]


def test_add_calls_words_are_of_metric():
    higher = calls_of([estimate(0.2), estimate(-0.2)], True, ("lower", "higher"), DEFAULT_LIMITS)
    assert higher == ["lower", "higher"]
    assert all(map(is_difference, higher))
    assert not any(map(is_difference, ["", call(0.0), call(0.2, n=4)]))

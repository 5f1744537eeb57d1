"""Calls of comparisons: different, equivalent or inconclusive, corrected for multiple testing."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from vcsbench.statistics.contract import (
    DEFAULT_LIMITS,
    NOT_SHOWN,
    TOO_NOISY,
    Limits,
    is_difference,
)
from vcsbench.statistics.estimates import NO_ESTIMATE, ratio_interval
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


def call(mean, spread=0.01, n=5, has_duplicates=True, **limits):
    return calls_of([estimate(mean, spread, n)], has_duplicates, WORDS, Limits(**limits))[0]


def table_of(found):
    row = vars(found) | {"twin_sd": 0.0}
    return add_calls(pd.DataFrame([row]).rename(columns={"value": "ratio"}), WORDS, DEFAULT_LIMITS)


# A single comparison with this mean has a p-value of ALPHA.
EDGE = stats.t.ppf(1 - ALPHA / 2, 4) * 0.01 / math.sqrt(5)


@pytest.mark.parametrize(
    ("mean", "options", "expected"),
    [
        (0.2, {}, "faster"),
        (-0.2, {}, "slower"),
        (0.0, {}, NOT_SHOWN),
        (0.0, {"spread": 0.1}, TOO_NOISY),
        (0.2, {"n": 4}, TOO_NOISY),
        (0.2, {"n": 1}, TOO_NOISY),
        (0.2, {"has_duplicates": False}, TOO_NOISY),
        (0.03, {"spread": 0.001}, "faster"),
        (1.01 * EDGE, {}, "faster"),
        (0.99 * EDGE, {}, NOT_SHOWN),
        (0.5, {"spread": 0.0}, "faster"),
        (0.0, {"spread": 0.0}, NOT_SHOWN),
        (0.2, {"n": 3, "min_rounds": 3}, "faster"),
        (0.2, {"n": 5, "min_rounds": 6}, TOO_NOISY),
    ],
)
def test_calls_of_known_interval_has_call(mean, options, expected):
    assert call(mean, **options) == expected
    assert is_difference(expected) == (expected in WORDS)


@pytest.mark.parametrize("side", [1, -1])
def test_calls_of_equivalence_equals_two_one_sided_tests(side):
    """Compare with scipy: the nearer bound gives the p-value."""
    n, spread, bound = 8, 0.05, math.log(1.1)
    z = stats.zscore(np.arange(n, dtype=float), ddof=1)

    def chance(mean):
        return max(
            stats.ttest_1samp(mean + spread * z, -bound, alternative="greater").pvalue,
            stats.ttest_1samp(mean + spread * z, bound, alternative="less").pvalue,
        )

    means = np.linspace(0, 0.1, 200)
    most = max(mean for mean in means if chance(mean) <= EQUIVALENCE_ALPHA)
    assert 0.01 < most < 0.09
    assert {call(side * mean, spread, n) for mean in means[means <= most]} == {NOT_SHOWN}
    assert call(side * (most + 0.001), spread, n) != NOT_SHOWN


def test_calls_of_holm_equals_textbook():
    """Compare 40 comparisons, 20 of them with a difference, with Holm's rule on scipy's p-values."""
    means = [*np.linspace(0.04, 0.14, 20), *[0.001] * 20]
    found = [estimate(mean, 0.02, 6) for mean in means]
    p = [2 * stats.t.sf(m / (0.02 / math.sqrt(6)), 5) for m in means]
    expected = []
    for rank, i in enumerate(np.argsort(p)):
        if p[i] > min(ALPHA, TABLE_ALPHA / (40 - rank)):
            break
        expected.append(i)
    by_bonferroni = [i for i in range(40) if p[i] <= TABLE_ALPHA / 40]
    by_themselves = [i for i in range(40) if p[i] <= ALPHA]
    assert 0 < len(by_bonferroni) < len(expected) < len(by_themselves) < 20
    calls = calls_of(found, True, WORDS, DEFAULT_LIMITS)
    assert [i for i, word in enumerate(calls) if word == "faster"] == sorted(expected)


def test_calls_of_untested_rows_are_not_corrected_for():
    one, others = estimate(0.04), [estimate(0.0, n=3)] * 50 + [NO_ESTIMATE] * 50
    assert call(0.04) == calls_of([one, *others], True, WORDS, DEFAULT_LIMITS)[0] == "faster"


def test_add_calls_detectable_effect_is_called_in_nine_of_ten():
    smallest = table_of(estimate(0.0, 0.01, 8))["detectable"][0]
    error = 0.01 / math.sqrt(8)
    effect = (stats.t.ppf(1 - ALPHA / 2, 7) + stats.t.ppf(0.9, 7)) * error
    assert math.log(smallest) == pytest.approx(effect)

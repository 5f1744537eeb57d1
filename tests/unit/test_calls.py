"""Calls of known ratios, compared with scipy and with Holm's procedure of the textbook."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from vcsbench.codes import Call
from vcsbench.metrics import DEFAULT_METRIC, METRICS
from vcsbench.statistics import calls
from vcsbench.statistics.comparisons import (
    DEFAULT_LIMITS,
    Limits,
    can_be_start_up,
    classify_call,
    has_longer_start_up,
    is_difference,
)
from vcsbench.statistics.estimates import NO_ESTIMATE, ratio_interval

WORDS = (Call.FASTER, Call.SLOWER)
# A single comparison with this mean has a p-value of ALPHA.
EDGE = stats.t.ppf(1 - calls.ALPHA / 2, 4) * 0.01 / math.sqrt(5)


def ratio_with(mean, spread=0.01, n=5):
    """Return the ratio of logarithms with a given mean and standard deviation."""
    z = stats.zscore(np.arange(n, dtype=float), ddof=1) if n > 1 else np.zeros(n)
    return ratio_interval(mean + spread * z)


def call(mean, spread=0.01, n=5, has_duplicates=True):
    return calls.call_ratios([ratio_with(mean, spread, n)], has_duplicates, WORDS, Limits())[0]


def table_of(estimates, share_baseline=math.nan, share_candidate=math.nan, withheld=""):
    """Return the rows of ratios as call_table needs them."""
    return pd.DataFrame(estimates).assign(
        ratio=[estimate.value for estimate in estimates],
        flags="",
        withheld=withheld,
        share_baseline=share_baseline,
        share_candidate=share_candidate,
        baseline_mean=[2.0 * estimate.value for estimate in estimates],
        candidate_mean=2.0,
    )


def call_table(table, limits=DEFAULT_LIMITS, metric=DEFAULT_METRIC):
    return calls.call_table(table, 0.0, METRICS[metric], limits)


@pytest.mark.parametrize(
    ("metric", "decides_from_s", "expected"),
    [
        ("elapsed_s", 0.0, [Call.FASTER, Call.SLOWER]),
        # The slower sides take 3.0 s and 2.0 s.
        ("elapsed_s", 2.5, [Call.FASTER, Call.TOO_SMALL]),
        ("elapsed_s", 3.5, [Call.TOO_SMALL, Call.TOO_SMALL]),
        # The kernel counts processor times, so short ones decide.
        ("server_cpu_s", 3.5, [Call.LESS, Call.MORE]),
    ],
)
def test_call_table_decides_only_if_the_slower_side_is_long(metric, decides_from_s, expected):
    table = table_of([ratio_with(math.log(1.5)), ratio_with(math.log(0.5))])
    called = call_table(table, Limits(decides_from_s=decides_from_s), metric)
    assert list(called["call"]) == expected


@pytest.mark.parametrize(
    ("mean", "options", "expected"),
    [
        (0.2, {}, Call.FASTER),
        (-0.2, {}, Call.SLOWER),
        (0.0, {}, Call.EQUAL),
        (0.0, {"spread": 0.12}, Call.BOUNDED),
        (0.0, {"spread": 0.2}, Call.UNDECIDED),
        (0.2, {"n": 3}, Call.FASTER),
        (0.2, {"n": 2}, Call.UNDECIDED),  # two rounds of one pair alone
        (0.2, {"n": 2, "spread": 1e-5}, Call.FASTER),
        (0.2, {"n": 1}, Call.UNDECIDED),
        (0.2, {"has_duplicates": False}, Call.UNDECIDED),
        (0.03, {"spread": 0.001}, Call.FASTER),
        (1.01 * EDGE, {}, Call.FASTER),
        (0.99 * EDGE, {}, Call.EQUAL),
        (0.5, {"spread": 0.0}, Call.FASTER),
        (0.0, {"spread": 0.0}, Call.EQUAL),
    ],
)
def test_call_ratios_known_interval_has_call(mean, options, expected):
    assert call(mean, **options) == expected
    assert is_difference(expected) == (expected in WORDS)


@pytest.mark.parametrize("side", [1, -1])
def test_call_ratios_equivalence_equals_two_one_sided_tests(side):
    """Compare with scipy: the nearer bound gives the p-value."""
    n, spread, bound = 8, 0.05, math.log(1.1)
    z = stats.zscore(np.arange(n, dtype=float), ddof=1)

    def p_value(mean):
        logs = mean + spread * z
        above = stats.ttest_1samp(logs, -bound, alternative="greater").pvalue
        below = stats.ttest_1samp(logs, bound, alternative="less").pvalue
        return max(above, below)

    means = np.linspace(0, 0.1, 200)
    largest = max(mean for mean in means if p_value(mean) <= calls.EQUIVALENCE_ALPHA)
    assert 0.01 < largest < 0.09
    assert {call(side * mean, spread, n) for mean in means[means <= largest]} == {Call.EQUAL}
    assert call(side * (largest + 0.001), spread, n) != Call.EQUAL


def test_call_ratios_many_ratios_equals_holm_of_textbook():
    """Compare 40 comparisons, 20 of them with a difference, with Holm's rule on scipy's p-values."""
    means = [*np.linspace(0.04, 0.14, 20), *[0.001] * 20]
    p = [2 * stats.t.sf(mean / (0.02 / math.sqrt(6)), 5) for mean in means]
    expected = []
    for rank, i in enumerate(np.argsort(p)):
        if p[i] > min(calls.ALPHA, calls.TABLE_ALPHA / (40 - rank)):
            break
        expected.append(i)
    by_bonferroni = [i for i in range(40) if p[i] <= calls.TABLE_ALPHA / 40]
    alone = [i for i in range(40) if p[i] <= calls.ALPHA]
    assert 0 < len(by_bonferroni) < len(expected) < len(alone) < 20
    ratios = [ratio_with(mean, 0.02, 6) for mean in means]
    called = calls.call_ratios(ratios, True, WORDS, DEFAULT_LIMITS)
    assert [i for i, word in enumerate(called) if word == Call.FASTER] == sorted(expected)


def test_call_ratios_untested_ratios_are_not_corrected_for():
    untested = [ratio_with(0.0, n=1)] * 50 + [NO_ESTIMATE] * 50
    called = calls.call_ratios([ratio_with(0.04), *untested], True, WORDS, DEFAULT_LIMITS)
    assert called[0] == call(0.04) == Call.FASTER


@pytest.mark.parametrize(
    ("withheld", "expected"), [("zero", {"", Call.FASTER}), ("", {Call.EQUAL})]
)
def test_call_table_withheld_rows_have_no_call_and_are_not_corrected_for(withheld, expected):
    """The difference is significant alone, and not among 51 comparisons."""
    ratios = [ratio_with(0.03), *[ratio_with(0.0)] * 50]
    table = table_of(ratios, withheld=["", *[withheld] * 50])
    assert set(call_table(table)["call"]) == expected


@pytest.mark.parametrize(
    ("fast", "slow", "factor", "is_explained"),
    [
        # The published case: the fast side is mostly start-up, and 6.4x (4.8 to 8.7) is not.
        (0.66, 0.10, 4.8, False),
        (0.66, 0.10, 1.1, True),
        # Both sides are start-up.
        (0.8, 0.8, 3.0, True),
        (0.8, 0.8, 6.0, False),
        # Without much start-up every difference counts, and an unknown share explains all.
        (0.4, 0.4, 1.01, False),
        (math.nan, math.nan, 1.01, False),
        (0.66, math.nan, 9.0, True),
    ],
)
def test_can_be_start_up_only_if_no_difference_is_left_without_it(fast, slow, factor, is_explained):
    assert can_be_start_up(fast, slow, factor) == is_explained


@pytest.mark.parametrize(
    ("fast", "slow", "factor", "is_explained"),
    [
        # One side waits for acknowledgements, or sets up a connection: its work takes no longer.
        (0.03, 0.31, 1.36, True),
        # Its work takes longer, too.
        (0.03, 0.31, 1.5, False),
        # Both sides have the same start-up in seconds: 0.2 of 1 s, and of 1.05 s.
        (0.2, 0.2 / 1.05, 1.05, False),
        (0.03, 0.31, 0.99, False),
        (math.nan, 0.31, 1.36, False),
        (0.03, math.nan, 1.36, False),
    ],
)
def test_has_longer_start_up_if_the_work_alone_is_no_slower(fast, slow, factor, is_explained):
    assert has_longer_start_up(fast, slow, factor) == is_explained


def test_call_table_start_up_is_too_small_or_at_least():
    ratios = [ratio_with(math.log(factor)) for factor in (6.4, 1.3, 1 / 6.4, 1.4, 1.4)]
    baseline, candidate = [0.1, 0.3, 0.66, 0.31, 0.03], [0.66, 0.66, 0.1, 0.03, 0.31]
    called = call_table(table_of(ratios, baseline, candidate))
    assert [*called["call"]] == ["faster", "too small", "slower", "too small", "faster"]
    assert [*called["result"]] == ["different", "too small", "different", "too small", "different"]
    assert [*called["flags"]] == ["at-least", "", "at-least", "", ""]


def test_only_a_difference_that_is_withdrawn_keeps_the_flag_of_disturbance():
    before = [Call.FASTER, Call.SLOWER, Call.UNDECIDED, Call.EQUAL, Call.TOO_SMALL]
    after = [Call.UNDECIDED, Call.UNDECIDED, *before[2:]]
    withdrawn = calls.withdraw_disturbed(pd.DataFrame({"call": before, "flags": "disturbed low-n"}))
    assert [*withdrawn["call"]] == after
    assert [*withdrawn["flags"]] == ["disturbed low-n"] * 2 + ["low-n"] * 3


@pytest.mark.parametrize(
    ("call", "ratio", "is_count", "result"),
    [
        (Call.FASTER, 1.09, False, "equal"),
        (Call.SLOWER, 1 / 1.09, False, "equal"),
        (Call.FASTER, 1.11, False, "different"),
        (Call.LESS, 1.05, True, "different"),
        (Call.BOUNDED, 1.09, False, "bounded"),
        ("", math.nan, False, None),
    ],
)
def test_result_of_difference_below_the_margin_is_equal(call, ratio, is_count, result):
    assert classify_call(call, ratio, DEFAULT_LIMITS, is_count) == result

"""Calls: when a difference is called one, and which word stands where it is not."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from vcsbench.compare.decisions import USUAL, Limits, is_difference
from vcsbench.compare.family import call_all, with_calls
from vcsbench.compare.intervals import Estimate, ratio_interval

WORDS = ("faster", "slower")


def estimate(mean, spread=0.01, n=5):
    """A ratio of logarithms with just this mean and standard deviation."""
    z = stats.zscore(np.arange(n, dtype=float), ddof=1) if n > 1 else np.zeros(n)
    return ratio_interval(mean + spread * z)


def call(mean, spread=0.01, n=5, floor=1.01, notable=10.0):
    return call_all([estimate(mean, spread, n)], [floor], WORDS, Limits(notable))[0]


def test_the_words():
    assert call(0.2) == "faster"
    assert call(-0.2) == "slower"
    assert call(0.0) == "no difference shown"
    assert call(0.0, spread=0.1) == "too noisy to say"
    assert call(0.2, n=4) == "too noisy to say"
    assert call(0.2, n=1) == "too noisy to say"
    assert call(0.2, floor=math.nan) == "too noisy to say"
    assert call_all([ratio_interval([])], [1.01], WORDS, USUAL) == [""]


def test_a_difference_within_the_noise_floor_is_none():
    assert call(0.2, floor=math.exp(0.19)) == "faster"
    assert call(0.2, floor=math.exp(0.21)) == "too noisy to say"
    assert call(-0.2, floor=math.exp(0.21)) == "too noisy to say"
    assert call(0.2, floor=math.exp(0.21), notable=40) == "no difference shown"


def test_an_interval_that_includes_1_is_no_difference():
    found = estimate(0.02, spread=0.02)
    assert found.low < 1 < found.high
    assert call(0.02, spread=0.02, floor=1.0) == "no difference shown"


def test_a_single_comparison_is_held_to_one_in_a_hundred():
    t = stats.t.ppf(1 - 0.01 / 2, 4) * 0.01 / math.sqrt(5)
    assert call(1.01 * t, floor=1.0) == "faster"
    assert call(0.99 * t, floor=1.0) == "no difference shown"


def test_holm_as_statsmodels_and_textbooks_have_it():
    # 40 comparisons of which ten differ; Holm's own rule with p-values from scipy.
    means = [*np.linspace(0.05, 0.14, 10), *[0.001] * 30]
    found = [estimate(mean, 0.02, 6) for mean in means]
    p = [2 * stats.t.sf(m / (0.02 / math.sqrt(6)), 5) for m in means]
    expected = []
    for rank, i in enumerate(np.argsort(p)):
        if p[i] > min(0.01, 0.05 / (40 - rank)):
            break
        expected.append(i)
    assert 0 < len(expected) < 10
    calls = call_all(found, [1.0] * 40, WORDS, USUAL)
    assert [i for i, word in enumerate(calls) if word == "faster"] == sorted(expected)
    # By itself each of the ten is a difference.
    assert all(call_all([one], [1.0], WORDS, USUAL) == ["faster"] for one in found[:10])


def test_rows_that_are_not_judged_are_no_part_of_the_family():
    one = estimate(0.03, 0.01)
    others = [estimate(0.0, 0.01, n=3)] * 50 + [Estimate(math.nan, math.nan, math.nan, 0)] * 50
    assert (
        call_all([one, *others], [1.0] * 101, WORDS, USUAL)[0]
        == call_all([one], [1.0], WORDS, USUAL)[0]
        == "faster"
    )


def test_detectable_is_called_in_nine_of_ten():
    error, n, floor = 0.01 / math.sqrt(8), 8, 1.001
    smallest = with_calls(
        pd.DataFrame([vars(estimate(0.0, 0.01, n)) | {"noise_floor": floor}]).rename(
            columns={"value": "ratio"}
        ),
        WORDS,
        USUAL,
    )["detectable"][0]
    assert math.log(smallest) == pytest.approx(
        (stats.t.ppf(0.995, n - 1) + stats.t.ppf(0.9, n - 1)) * error
    )


def test_ratios_without_any_spread():
    assert call(0.5, spread=0.0) == "faster"
    assert call(0.0, spread=0.0, floor=1.0) == "no difference shown"


def test_how_many_rounds_are_enough_is_a_limit():
    three = [estimate(0.2, n=3)]
    assert call_all(three, [1.01], WORDS, USUAL) == ["too noisy to say"]
    assert call_all(three, [1.01], WORDS, Limits(enough_rounds=3)) == ["faster"]
    assert call_all([estimate(0.2, n=5)], [1.01], WORDS, Limits(enough_rounds=6)) != ["faster"]


def test_the_words_are_the_metrics():
    higher = call_all([estimate(0.2), estimate(-0.2)], [1.01] * 2, ("lower", "higher"), USUAL)
    assert higher == ["lower", "higher"]
    assert all(map(is_difference, higher))
    assert not any(map(is_difference, ["", call(0.0), call(0.2, n=4)]))

"""Labels of axes and values, and texts of times and factors."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vcsbench.advice.labels import MOST_DIGITS, case_label, factor, seconds, seconds_of_both

TIMES = st.floats(min_value=0.002, max_value=900.0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # 1.64 / 0.45 is 3.6, and the factor is 3.7x.
        ([1.642, 0.4491], ["1.642 s", "0.449 s"]),
        ([0.4491, 1.642], ["0.449 s", "1.642 s"]),
        ([1.24, 0.62], ["1.24 s", "0.62 s"]),
        ([0.0931, 0.0878], ["0.0931 s", "0.0878 s"]),
        ([12.34, 3.0], ["12.3 s", "3.00 s"]),
        # An unknown time has no quotient.
        ([1.642, 0.0], ["1.64 s", "0.000 s"]),
    ],
)
def test_seconds_of_both_have_the_digits_that_their_factor_needs(values, expected):
    assert seconds_of_both(values) == expected


@given(TIMES, TIMES)
@example(1.642, 0.4491)
@example(0.0021, 0.0022)
@example(1.1, 1.0)
def test_quotient_of_both_printed_times_is_the_factor(one, other):
    texts = seconds_of_both([one, other])
    printed = [float(text.removesuffix(" s")) for text in texts]
    digits = [len(re.sub(r"\D", "", text).lstrip("0")) for text in texts]
    for text, value in zip(texts, (one, other), strict=True):
        # Each time is rounded, and is never printed with fewer digits than alone.
        _, _, decimals = text.removesuffix(" s").partition(".")
        assert abs(float(text.removesuffix(" s")) - value) <= 0.51 * 10 ** -len(decimals)
        assert len(text) >= len(seconds(value))
    exact = max(one, other) / min(one, other)
    shown = max(printed) / min(printed) if min(printed) else float("inf")
    if factor(shown) != factor(exact):
        # Only with all digits, the factor may still lie too near to a limit of its last digit.
        assert min(digits) >= MOST_DIGITS
        assert shown == pytest.approx(exact, rel=0.0011)


@pytest.mark.parametrize(
    ("where", "label"),
    [
        ({"access": "svn", "cache": "hot-server"}, "log over svn, server cache warm"),
        ({"access": "svn", "cache": "hot"}, "log over svn, server cache warm"),
        ({"access": "file", "cache": "hot-server"}, "log over file, OS cache warm"),
        # Without a server, only the system has a cache. An access that is open may have one.
        ({"access": "", "cache": "hot"}, "log, OS cache warm"),
        ({"cache": "hot"}, "log, server cache warm"),
        ({"access": "file", "cache": "cold"}, "cold log over file"),
    ],
)
def test_label_of_a_warm_case_names_the_cache_that_is_warm(where, label):
    assert case_label({"command": "log", **where}, ["access"]) == label

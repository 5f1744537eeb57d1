"""Which comparisons are settled: by the widths of their intervals, whichever side won."""

from __future__ import annotations

import math

import pytest

from vcsbench.statistics.budget import comparison_rounds
from vcsbench.statistics.contract import Limits
from vcsbench.statistics.intervals import t_quantile
from vcsbench.statistics.multiple_testing import ALPHA, EQUIVALENCE_ALPHA

LIMITS = Limits(min_effect_pct=10)
DEGREES = 60


def wanted(ratio: float, error: float, n: int = 5, twin_sd: float = 0.0) -> float:
    row = {"ratio": ratio, "error": error, "degrees": DEGREES, "n": n, "twin_sd": twin_sd}
    return comparison_rounds(row, ALPHA, LIMITS)


def test_it_does_not_matter_which_side_won() -> None:
    for size in (1.0, 1.02, 1.1, 1.3, 3.0):
        assert wanted(size, 0.05) == wanted(1 / size, 0.05)


def test_settled_is_what_would_be_answered_wherever_it_lay() -> None:
    both = t_quantile(DEGREES, 1 - ALPHA) + t_quantile(DEGREES, 1 - 2 * EQUIVALENCE_ALPHA)
    narrow = math.log1p(0.1) / both
    assert wanted(1.0, 0.999 * narrow) == 5
    assert wanted(1.0, 1.001 * narrow) == 6


def test_a_large_difference_is_settled_by_a_wide_interval_and_a_small_one_is_not() -> None:
    half = t_quantile(DEGREES, 1 - ALPHA)
    assert wanted(math.exp(2.01 * half * 0.1), 0.1) == 5
    assert wanted(1.05, 0.1) > 50


def test_four_times_the_rounds_halve_the_error() -> None:
    assert wanted(1.0, 0.04, n=10) == pytest.approx(4 * wanted(1.0, 0.02, n=10), abs=4)


def test_fewer_than_enough_rounds_settle_nothing_and_unknown_noise_never_does() -> None:
    assert wanted(3.0, 0.001, n=2) == LIMITS.min_rounds
    assert wanted(3.0, math.nan, n=1) == LIMITS.min_rounds
    assert wanted(3.0, 0.001, twin_sd=math.nan) == math.inf

"""Call differences: decide for each comparison of a table if it is faster, equal, bounded or undecided.

- *Faster* or *slower*: p < ALPHA for the comparison alone, and p < TABLE_ALPHA after Holm's correction (1979)
  over all comparisons of the table. Without a correction, a table of 100 equal pairs would call five of them
  different at 5 %. Holm's procedure is never worse than Bonferroni's, and needs no independence: comparisons
  share cells. It promises that fewer than 1 in 20 tables have a wrong call at all. A false discovery rate
  (Benjamini and Hochberg) would find more, but each call of vcsbench may become an advice of its own.
- *Equal*: two one-sided tests (TOST, Schuirmann 1987) at EQUIVALENCE_ALPHA show that the difference is
  below the margin, such as 10 %. A difference that is not significant is no proof of equality: few rounds
  show no difference at all.
- *Bounded*: the same two tests show less than 1.5 margins.
- *Undecided*: otherwise, and always after a single round or without duplicates.
- *Too small*: start-up alone can explain the difference (comparisons.can_be_start_up).

Example: the ratio 1.05 with the error 0.01 and 60 degrees of freedom has t = 4.9 and p = 0.00001, so it is
faster. With the error 0.02, t is 2.4 and p 0.018: no difference. At 4.5 % and one side, t may be 1.72. The
difference is below exp(0.049 + 1.72 x 0.02) = 1.087, which is below the margin 1.1: equal.

Two rounds can decide, because the variances of all cells are moderated: five cells with two rounds know
nearly as much about the scatter as one cell with ten. docs/statistics.md has the error rates.

Counts that are equal in every round have no noise: the ratio is its own interval from two rounds on. A
count that differs by 1 % or less is equal.
"""

import math
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd
from scipy import special

from vcsbench.codes import Call
from vcsbench.evidence import flags
from vcsbench.evidence.flags import DECIDING_SHARE, Flag
from vcsbench.metrics import Metric
from vcsbench.statistics import comparisons
from vcsbench.statistics.comparisons import Limits
from vcsbench.statistics.estimates import Estimate

# Below the promised 1 in 200 and 1 in 20, because errors are estimated, and rounds may be added.
ALPHA = 0.0035
TABLE_ALPHA = 0.05
EQUIVALENCE_ALPHA = 0.045
# Of the smallest detectable difference: 9 of 10 equal experiments call it.
POWER = 0.9

# One round may count differently by chance, as after a retried request. Two that agree hardly do.
MIN_COUNT_ROUNDS = 2
COUNT_TOLERANCE = 0.01
NOISE_FLAGS: set[str] = {Flag.LOW_N, Flag.NO_DUPLICATES}
# These flags are about times, and say nothing about counts.
TIME_FLAGS: set[str] = {
    Flag.OUTLIER_10,
    Flag.OUTLIER_20,
    Flag.TOO_SHORT,
    Flag.MOSTLY_FIXED_COST,
    Flag.SATURATED,
    Flag.MEAN_CPU,
    Flag.CPU_STEAL,
    Flag.CPU_BUSY,
    Flag.THROTTLED,
}


def call_table(
    table: pd.DataFrame, duplicate_sd: float | pd.Series, metric: Metric, limits: Limits
) -> pd.DataFrame:
    """Return a table with the columns call, result, duplicate_sd, detectable and within.

    Needs ratio, low, high, n, error, degrees, flags, withheld, and the shares of fixed cost of both sides,
    `share_baseline` and `share_candidate`. `duplicate_sd` is NaN without duplicates. A withheld row has no
    call, and the correction excludes it.
    """
    has_ratio = table["ratio"].notna()
    is_compared = has_ratio & (table["withheld"] == "")
    lacks_duplicates = has_ratio & np.isnan(duplicate_sd)
    row_flags = []
    for own_flags, is_missing in zip(table["flags"], lacks_duplicates, strict=True):
        row_flags.append(flags.add_flag(own_flags, Flag.NO_DUPLICATES, is_missing))
    # add_calls() tests no row without duplicate_sd. So Holm's correction counts the compared rows only.
    tested_sd = np.where(is_compared, duplicate_sd, np.nan)
    table = table.assign(duplicate_sd=tested_sd, flags=row_flags)
    table = add_calls(table, metric.calls, limits)
    table = call_exact_rows(table, metric) if metric.exact else call_start_up(table)
    table = table.assign(call=table["call"].where(is_compared, ""))
    results = []
    for call, ratio in zip(table["call"], table["ratio"], strict=True):
        result = comparisons.classify_call(call, ratio, limits, is_count=metric.exact)
        results.append("" if result is None else result)
    return table.assign(result=results)


def add_calls(table: pd.DataFrame, differences: tuple[Call, Call], limits: Limits) -> pd.DataFrame:
    """Return the table with the columns call, detectable and within.

    Needs ratio, n, error, degrees and duplicate_sd (NaN without duplicates). `differences` are the calls of
    the candidate for a ratio above 1 and below 1. A row without a ratio has the call "". `detectable` is
    the smallest ratio that 9 of 10 equal experiments would call, at the level of the row. A row that
    cannot be called has none. `within` is the largest ratio, in either direction, that the one-sided tests
    do not exclude.
    """
    ratio = table["ratio"].to_numpy(float)
    error = table["error"].to_numpy(float)
    degrees = table["degrees"].to_numpy(float)
    duplicate_sd = table["duplicate_sd"].to_numpy(float)
    above, below = differences
    mean = np.log(ratio)
    # A single round has no error, and a study without duplicates does not know its systematic noise.
    is_testable = np.isfinite(mean + error) & ~np.isnan(duplicate_sd)
    is_significant, level = _reject_by_holm(p_values(mean, error, degrees), is_testable)
    # The farther one of both one-sided bounds. If it is below the margin, the nearer one is, too.
    within = np.abs(mean) + _upper_quantile(degrees, EQUIVALENCE_ALPHA) * error
    # The first condition that holds decides.
    calls_by_condition = [
        (~np.isfinite(mean), ""),
        (~is_testable, Call.UNDECIDED),
        (is_significant & (mean > 0), above),
        (is_significant, below),
        (within <= math.log(limits.margin), Call.EQUAL),
        (within <= math.log(limits.bound), Call.BOUNDED),
    ]
    conditions = [condition for condition, _ in calls_by_condition]
    calls = np.select(conditions, [call for _, call in calls_by_condition], Call.UNDECIDED)
    # With one or two degrees of freedom, a quantile may be so large that exp() is infinite: none is
    # detectable.
    with np.errstate(over="ignore"):
        detectable = np.exp(detectable_effect(error, degrees, level))
        return table.assign(
            call=calls,
            detectable=np.where(is_testable, detectable, math.nan),
            within=np.exp(within),
        )


def call_ratios(
    estimates: Sequence[Estimate],
    has_duplicates: bool,
    differences: tuple[Call, Call],
    limits: Limits,
) -> list[Call | None]:
    """Return the calls of ratios, corrected together, by their errors (Noise.with_error)."""
    table = pd.DataFrame(estimates).rename(columns={"value": "ratio"})
    # Here, only its absence matters: the error contains the variance of duplicates.
    table = table.assign(duplicate_sd=0.0 if has_duplicates else math.nan)
    calls = add_calls(table, differences, limits)["call"]
    return [Call(call) if call else None for call in calls]


def p_values(mean: np.ndarray, error: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Return the two-sided p-values of Student's t test that the mean logarithm is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # Equal rounds have the error 0. Then any other mean has t = infinity and p = 0, and the mean 0 has
        # p = 1.
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    return np.asarray(2 * special.stdtr(degrees, -t))


def _reject_by_holm(p: np.ndarray, is_testable: np.ndarray) -> tuple[np.ndarray, float]:
    """Return which p-values are significant by Holm's step-down procedure (1979), and the level of the rest.

    The smallest of m p-values is compared with TABLE_ALPHA / m, the next with TABLE_ALPHA / (m - 1), and so
    on until the first failure. Example: 0.001, 0.02 and 0.4 are compared with 0.05 / 3, 0.05 / 2 and 0.05.
    The first two are significant by that. ALPHA, below which each must be as well, leaves the first.
    """
    is_significant = np.zeros(len(p), dtype=bool)
    order = [i for i in np.argsort(p, kind="stable") if is_testable[i]]
    for rejected, i in enumerate(order):
        level = holm_level(len(order) - rejected)
        # Written so that NaN, of which no comparison is true, is not significant.
        if not p[i] <= level:
            return is_significant, level
        is_significant[i] = True
    return is_significant, ALPHA


def holm_level(remaining: int) -> float:
    """Return the level of each comparison of a table while so many are not called a difference.

    With up to 14 comparisons, their own level ALPHA is the smaller one: 0.05 / 14 = 0.0036.
    """
    return min(ALPHA, TABLE_ALPHA / max(remaining, 1))


def detectable_effect(
    error: float | np.ndarray, degrees: float | np.ndarray, level: float = ALPHA
) -> np.ndarray:
    """Return the logarithm of the smallest ratio that is called in POWER of equal experiments.

    A difference is called if it is t(level / 2) errors from 0. It must be another t(1 - POWER) errors larger,
    so that chance makes it too small in 1 of 10 experiments only. Example: the error 0.02 with 60 degrees of
    freedom detects (3.05 + 1.30) x 0.02 = 0.087, or 9 %.
    """
    return (_upper_quantile(degrees, level / 2) + _upper_quantile(degrees, 1 - POWER)) * error


def _upper_quantile(degrees: float | np.ndarray, chance: float) -> np.ndarray:
    """Return the value that Student's t exceeds with this chance: 1.72 for 0.045 and 60 degrees."""
    return np.asarray(-special.stdtrit(degrees, chance))


def call_start_up(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose calls exclude differences that start-up can explain.

    If one side is mostly start-up and the difference is larger than that, the true factor is larger than
    the measured one, because start-up is part of both sides. Example: 1.1 s and 2.1 s, of which 0.9 s is
    start-up, are 1.9 times; without start-up, 0.2 s and 1.2 s are 6 times. Such a row has the flag
    `at-least`.
    """
    calls: list[str] = []
    row_flags: list[str] = []
    for row in table.to_dict("records"):
        if row["ratio"] >= 1:
            slow_share, fast_share = row["share_baseline"], row["share_candidate"]
            least_factor = row["low"]
        else:
            slow_share, fast_share = row["share_candidate"], row["share_baseline"]
            least_factor = 1 / row["high"]
        call, own_flags = row["call"], row["flags"]
        has_interval = call and not math.isnan(least_factor)
        if has_interval and comparisons.can_be_start_up(fast_share, slow_share, least_factor):
            call = Call.TOO_SMALL
        elif comparisons.is_difference(call) and fast_share > DECIDING_SHARE:
            own_flags = flags.add_flag(own_flags, Flag.AT_LEAST, True)
        calls.append(call)
        row_flags.append(own_flags)
    return table.assign(call=calls, flags=row_flags)


def constant_ratio(metric: Metric, pairs: pd.DataFrame) -> Estimate | None:
    """Return the ratio of counts that are equal in every round; None for other counts.

    `pairs` has a row per round, with the count of each side and their `quotient`. Student's t has no
    interval for values without scatter. Here there is none to estimate: svn makes 412 calls in each round.
    """
    sides = pairs[[f"{metric.name}_baseline", f"{metric.name}_candidate"]]
    first = sides.iloc[0]
    is_constant = (sides == first).to_numpy().all() and (first > 0).all()
    if len(pairs) < MIN_COUNT_ROUNDS or not is_constant:
        return None
    quotient = float(pairs["quotient"].iloc[0])
    return Estimate(quotient, quotient, quotient, len(pairs), 0.0, len(pairs) - 1)


def call_exact_rows(table: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Return a table of counts: a count that is equal in every round is called without any noise.

    Such a row has an interval without width (constant_ratio). It needs no duplicates, so their flag goes.
    """
    low, high = table["low"].astype(float), table["high"].astype(float)
    ratios = table["ratio"].astype(float)
    is_constant = np.isfinite(low) & (low == high)
    less, more = metric.calls
    calls = table["call"].mask(is_constant & (ratios > 1), less)
    calls = calls.mask(is_constant & (ratios < 1), more)
    # One call of 400 more is a difference without doubt, and without any use.
    is_near = np.abs(np.log(ratios)) <= math.log1p(COUNT_TOLERANCE)
    is_called = is_constant | calls.map(comparisons.is_difference)
    without_noise = [_without(row_flags, NOISE_FLAGS) for row_flags in table["flags"]]
    return table.assign(
        call=calls.mask(is_near & is_called, Call.EQUAL),
        detectable=table["detectable"].mask(is_constant, 1.0),
        flags=table["flags"].mask(is_constant, without_noise),
    )


def without_time_flags(table: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Return a table of counts without flags about times, and any other table as it is."""
    if not metric.exact:
        return table
    return table.assign(flags=[_without(row_flags, TIME_FLAGS) for row_flags in table["flags"]])


def _without(row_flags: str, excluded: Collection[str]) -> str:
    return flags.join_flags(flag for flag in row_flags.split() if flag not in excluded)

"""Call differences: decide for each comparison of a table if it is faster, equal, bounded or undecided.

docs/statistics.md has the rules and their error rates. The reasons for the methods:

- Holm's correction (1979), for *faster* and *slower*: without one, a table of 100 equal pairs would call five
  of them different at 5 %. Holm's procedure is never worse than Bonferroni's, and needs no independence:
  comparisons share cells. A false discovery rate (Benjamini and Hochberg) would find more, but each call may
  become an advice of its own.
- Two one-sided tests (TOST, Schuirmann 1987), for *equal* and *bounded*: a difference that is not significant
  is no proof of equality, because few rounds show no difference at all.

Example: the ratio 1.05 with the error 0.01 and 60 degrees of freedom has t = 4.9 and p = 0.00001, so it is
faster. With the error 0.02, t is 2.4 and p 0.018: no difference. At 4.5 % and one side, t may be 1.72. The
difference is below exp(0.049 + 1.72 x 0.02) = 1.087, which is below the margin 1.1: equal.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

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

# The chance of a wrong call is promised to be below 1 in 200 for a difference, and below 1 in 20 for
# equality. ALPHA and EQUIVALENCE_ALPHA are lower than that, because errors are only estimated, and because
# rounds may be added later.
ALPHA = 0.0035
TABLE_ALPHA = 0.05
EQUIVALENCE_ALPHA = 0.045
# 9 of 10 equal experiments call the smallest detectable difference.
POWER = 0.9

# One round may count differently by chance, as after a retried request. Two that agree almost never do.
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
    """Return a table of comparisons with a call in each row: the outcome, such as `faster`.

    `table` has the columns of tables.rows_frame(). `duplicate_sd` is the noise of duplicates, which are cells
    that are measured twice: the standard deviation of ln(duplicate / original), one number or one per row.
    NaN means that no duplicates were measured. A ratio then gets the flag NO_DUPLICATES and no test, and is
    undecided unless step 2 below changes its call.

    Added columns: `call`, `result` (the class of the call, such as `different`), `duplicate_sd`, `detectable`
    and `within` (add_calls). A row without a ratio or with a code in `withheld` (why its cells must not be
    compared) is not compared: call and result are "", and `duplicate_sd` is NaN.
    """
    has_ratio = table["ratio"].notna()
    is_compared = has_ratio & (table["withheld"] == "")
    lacks_duplicates = has_ratio & np.isnan(duplicate_sd)
    row_flags = []
    for own_flags, is_missing in zip(table["flags"], lacks_duplicates, strict=True):
        row_flags.append(flags.add_flag(own_flags, Flag.NO_DUPLICATES, is_missing))
    # 1. Test the ratios. Each test makes Holm's correction stricter for the other tests, so rows that are not
    # compared must not be tested: add_calls() tests no row whose duplicate_sd is NaN.
    tested_sd = np.where(is_compared, duplicate_sd, np.nan)
    flagged = table.assign(duplicate_sd=tested_sd, flags=row_flags)
    tested = add_calls(flagged, metric.calls, limits)
    # 2. Correct the calls by other facts: constant counts need no test, and times contain start-up.
    if metric.exact:
        corrected = call_exact_rows(tested, metric)
    else:
        corrected = call_start_up(tested)
        if metric.is_duration:
            corrected = _call_short_times(corrected, limits)
    undisturbed = withdraw_disturbed(corrected)
    # 3. Remove the calls of rows that are not compared, and add the results. A withheld row with a ratio was
    # called, too: it is undecided so far.
    final_calls = undisturbed["call"].where(is_compared, "")
    results = []
    for call, ratio in zip(final_calls, undisturbed["ratio"], strict=True):
        result = comparisons.classify_call(call, ratio, limits, is_count=metric.exact)
        results.append("" if result is None else result)
    return undisturbed.assign(call=final_calls, result=results)


def _call_short_times(table: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    """Return a table in which rows are too small if both sides take less than the key `decides_from_s`."""
    slower_side = table[["baseline_mean", "candidate_mean"]].max(axis=1)
    is_short = (slower_side < limits.decides_from_s) & (table["call"] != "")
    return table.assign(call=table["call"].mask(is_short, Call.TOO_SMALL))


def add_calls(table: pd.DataFrame, differences: tuple[Call, Call], limits: Limits) -> pd.DataFrame:
    """Return a table with the columns call, detectable and within, from two tests of each of its ratios.

    A row is `{"ratio": 1.05, "error": 0.02, "degrees": 60.0, "duplicate_sd": 0.01}`. `error` is the standard
    error of ln(ratio), with `degrees` degrees of freedom. `duplicate_sd` only shows if there are duplicates,
    cells that are measured twice: if it is NaN, the row is not tested. The noise of duplicates is a part of
    `error` already. The row gets `{"call": "equal", "detectable": 1.09, "within": 1.087}`:

    - `call`: "" without a ratio, otherwise a difference, equal (`within` the margin), bounded (`within` 1.5
      margins) or undecided. `differences` are the calls of a ratio above and below 1: (faster, slower).
    - `detectable`: a true ratio of this size is called different in 9 of 10 repetitions. NaN in a row that is
      not tested.
    - `within`: the true ratio is between 1 / `within` and `within`, by a test that errs in 4.5 % of cases.
    """
    log_ratio = np.log(table["ratio"].to_numpy(float))
    error = table["error"].to_numpy(float)
    degrees = table["degrees"].to_numpy(float)
    duplicate_sd = table["duplicate_sd"].to_numpy(float)
    # After a single round, the error is NaN.
    is_testable = np.isfinite(log_ratio + error) & ~np.isnan(duplicate_sd)
    # The test of a difference. `level` is the p-value that the next difference must not exceed: the more rows
    # are tested, the smaller it is.
    p = p_values(log_ratio, error, degrees)
    is_different, level = _reject_by_holm(p, is_testable)
    # The test of equality: the true ratio is certainly below the margin, and above 1 / margin. In logarithms,
    # both limits are equally far from 0. So the end of the interval that is farther from 0 decides.
    half_width = _upper_quantile(degrees, EQUIVALENCE_ALPHA) * error
    log_within = np.abs(log_ratio) + half_width
    call_above_1, call_below_1 = differences
    # For each row, the first condition that holds decides.
    calls_by_condition = [
        (~np.isfinite(log_ratio), ""),
        (~is_testable, Call.UNDECIDED),
        (is_different & (log_ratio > 0), call_above_1),
        (is_different, call_below_1),
        (log_within <= math.log(limits.margin), Call.EQUAL),
        (log_within <= math.log(limits.bound), Call.BOUNDED),
    ]
    conditions = [condition for condition, _ in calls_by_condition]
    calls_of_conditions = [call for _, call in calls_by_condition]
    calls = np.select(conditions, calls_of_conditions, Call.UNDECIDED)
    # With one or two degrees of freedom, a quantile may be so large that exp() overflows to infinity. That
    # is the right number: no difference is detectable, and any is possible.
    with np.errstate(over="ignore"):
        detectable = np.exp(detectable_effect(error, degrees, level))
        within = np.exp(log_within)
    return table.assign(
        call=calls,
        detectable=np.where(is_testable, detectable, math.nan),
        within=within,
    )


def call_ratios(
    estimates: Sequence[Estimate],
    has_duplicates: bool,
    differences: tuple[Call, Call],
    limits: Limits,
) -> list[Call | None]:
    """Return the call of each of one or more ratios: its outcome, such as `faster`; None for NaN.

    `differences` are the calls of a ratio above and below 1. Example: 1.30 +- 0.02 and 1.01 +- 0.02 with the
    differences (faster, slower) give [faster, equal]. Holm's correction is over all ratios.

    Duplicates (cells that are measured twice) show the systematic noise. Without them, it is unknown, so each
    ratio is undecided.
    """
    table = pd.DataFrame(estimates).rename(columns={"value": "ratio"})
    # NaN means that there are no duplicates, and any number that there are: the errors of the estimates
    # contain the noise of duplicates already (Noise.with_error).
    table = table.assign(duplicate_sd=0.0 if has_duplicates else math.nan)
    calls = add_calls(table, differences, limits)["call"]
    return [Call(call) if call else None for call in calls]


def p_values(mean: np.ndarray, error: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Return the two-sided p-values of Student's t test that the mean logarithm is 0.

    `error` is the standard error of the mean, with `degrees` degrees of freedom.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        # If all rounds have the same ratio, the error is 0. A mean of 0 would have t = 0 / 0, and gets p = 1.
        # Any other mean has t = infinity and p = 0.
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    return np.asarray(2 * special.stdtr(degrees, -t))


def _reject_by_holm(p: np.ndarray, is_testable: np.ndarray) -> tuple[np.ndarray, float]:
    """Return which p-values are significant by Holm's step-down procedure (1979), and the last level.

    The procedure compares the smallest p-value with the strictest level, the next one with the next level,
    and stops at the first p-value above its level. This level is the last one; without a stop, it is ALPHA.
    Rows that are not testable are not significant, and make no level stricter.

    Example: Holm's levels of 0.001, 0.02 and 0.4 are 0.05 / 3, 0.05 / 2 and 0.05. But no level is above ALPHA
    (0.0035), because a single comparison must err in less than 1 of 200 cases. So 0.02 is not significant,
    and the result is ([True, False, False], 0.0035).
    """
    is_significant = np.zeros(len(p), dtype=bool)
    rows_by_p = [row for row in np.argsort(p, kind="stable") if is_testable[row]]
    for number_significant, row in enumerate(rows_by_p):
        # Each difference leaves fewer tests that could be wrong, so the next level is less strict.
        level = holm_level(len(rows_by_p) - number_significant)
        # A p-value of NaN is not significant.
        has_passed = p[row] <= level
        if not has_passed:
            return is_significant, level
        is_significant[row] = True
    return is_significant, ALPHA


def holm_level(remaining: int) -> float:
    """Return the p-value that the next comparison must not exceed to be called a difference.

    `remaining` comparisons of the table are not called a difference yet. With 14 or fewer, the result is
    ALPHA, because 0.05 / 14 = 0.0036 is larger. With 100, it is 0.05 / 100 = 0.0005.
    """
    return min(ALPHA, TABLE_ALPHA / max(remaining, 1))


def detectable_effect(
    error: float | np.ndarray, degrees: float | np.ndarray, level: float = ALPHA
) -> np.ndarray:
    """Return the logarithm of the smallest ratio that is called in POWER of equal experiments.

    Example: the error 0.02 with 60 degrees of freedom detects (3.05 + 1.30) x 0.02 = 0.087, or 9 %.
    """
    # A difference is called if it is t(level / 2) errors from 0. It must be another t(1 - POWER) errors
    # larger, so that chance makes it too small in 1 of 10 experiments only.
    return (_upper_quantile(degrees, level / 2) + _upper_quantile(degrees, 1 - POWER)) * error


def _upper_quantile(degrees: float | np.ndarray, chance: float) -> np.ndarray:
    """Return the value that Student's t exceeds with a chance: 1.72 for 0.045 with 60 degrees of freedom."""
    return np.asarray(-special.stdtrit(degrees, chance))


def call_start_up(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of times whose calls (outcomes such as `faster`) are corrected for start-up.

    Start-up is the time of process start and connection. `table` has calls, ratios with their intervals, and
    the share of start-up in the time of each side: `share_baseline` and `share_candidate`. Two things change:

    - The call becomes TOO_SMALL if start-up alone can explain the difference of the row.
    - Otherwise, a difference gets the flag `at-least` if more than half of the faster side's time is
      start-up. Example: 0.9 s of 1.1 s and of 2.1 s (a factor of 1.9) are start-up. Without it, 0.2 s and 1.2
      s differ by a factor of 6.
    """
    calls: list[str] = []
    all_flags: list[str] = []
    for row in table.to_dict("records"):
        call, row_flags = _correct_for_start_up(row)
        calls.append(call)
        all_flags.append(row_flags)
    return table.assign(call=calls, flags=all_flags)


def _correct_for_start_up(row: Mapping[Any, Any]) -> tuple[str, str]:
    """Return the call and the flags of a row of a table, corrected for start-up (call_start_up)."""
    call, row_flags = row["call"], row["flags"]
    # A row without a ratio has no call.
    if not call:
        return call, row_flags
    shares = comparisons.start_up_shares(
        row["ratio"],
        low=row["low"],
        high=row["high"],
        baseline=row["share_baseline"],
        candidate=row["share_candidate"],
    )
    is_difference = comparisons.is_difference(call)
    # By the interval of the ratio, the slower side takes at least `least_factor` times as long. Without an
    # interval (NaN), start_up_explains() would be True for each side that is mostly start-up.
    has_interval = not math.isnan(shares.least_factor)
    if has_interval and comparisons.start_up_explains(shares, is_difference):
        return Call.TOO_SMALL, row_flags
    if is_difference and shares.fast > DECIDING_SHARE:
        return call, flags.add_flag(row_flags, Flag.AT_LEAST, True)
    return call, row_flags


def withdraw_disturbed(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which a difference is undecided if undisturbed runs show the opposite.

    The flag `disturbed` of a row means: without the runs that other programs disturbed, the other side is
    faster. Only the differences that become undecided keep the flag. A row that was undecided before has a
    wide interval, and the disturbance is not the reason.
    """
    calls = []
    all_flags = []
    for call, row_flags in zip(table["call"], table["flags"], strict=True):
        is_doubtful = comparisons.is_difference(call) and Flag.DISTURBED in row_flags.split()
        calls.append(Call.UNDECIDED if is_doubtful else call)
        all_flags.append(row_flags if is_doubtful else _without(row_flags, {Flag.DISTURBED}))
    return table.assign(call=calls, flags=all_flags)


def constant_ratio(metric: Metric, pairs: pd.DataFrame) -> Estimate | None:
    """Return the ratio of counts that are the same in every round, with an interval of no width.

    A row of `pairs` is a round: `{"reads_baseline": 412, "reads_candidate": 206, "quotient": 2.0}`. Return
    None if a count differs between rounds, is 0 or is missing, or if there is only one round.
    """
    sides = pairs[[f"{metric.name}_baseline", f"{metric.name}_candidate"]]
    first = sides.iloc[0]
    is_constant = (sides == first).to_numpy().all() and (first > 0).all()
    if len(pairs) < MIN_COUNT_ROUNDS or not is_constant:
        return None
    quotient = float(pairs["quotient"].iloc[0])
    n = len(pairs)
    return Estimate(value=quotient, low=quotient, high=quotient, n=n, error=0.0, degrees=n - 1)


def call_exact_rows(table: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Return a table of counts in which rows with constant counts are called without a test.

    Constant counts are the same in every round, so constant_ratio() has made `low` and `high` equal. They
    have no noise: the row loses the flags about noise, and `detectable` becomes 1. A certain difference of
    1 % or less, such as 401 reads instead of 400, is of no use. So it becomes `equal`, also if it was found
    by a test.
    """
    low, high = table["low"].astype(float), table["high"].astype(float)
    ratios = table["ratio"].astype(float)
    is_constant = np.isfinite(low) & (low == high)
    # A ratio is baseline / candidate, so above 1, the candidate has less.
    call_above_1, call_below_1 = metric.calls
    calls = table["call"]
    calls = calls.mask(is_constant & (ratios > 1), call_above_1)
    calls = calls.mask(is_constant & (ratios < 1), call_below_1)
    # Any other row keeps its call, even with a ratio near 1: its true ratio may be farther from 1.
    is_certain = is_constant | calls.map(comparisons.is_difference)
    is_near_1 = np.abs(np.log(ratios)) <= math.log1p(COUNT_TOLERANCE)
    calls = calls.mask(is_near_1 & is_certain, Call.EQUAL)
    without_noise = [_without(row_flags, NOISE_FLAGS) for row_flags in table["flags"]]
    return table.assign(
        call=calls,
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

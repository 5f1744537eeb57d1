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
    """Return a table of comparisons with the decision on each of its rows.

    `table` has the columns of tables.rows_frame(). A row gets the columns `call` (the outcome, such as
    `faster`), `result` (its class, such as `different`), `detectable` and `within` (add_calls). Call and
    result are "" without a ratio, and in a withheld row.

    `duplicate_sd` is the standard deviation of ln(duplicate / original), one number or one per row. It
    becomes a column, NaN in rows that are not compared. The argument NaN means that no duplicates were
    measured. A row with a ratio then gets the flag NO_DUPLICATES, and no test. It is undecided, or too small
    by its start-up. Only constant counts get another call, because they need no test.
    """
    has_ratio = table["ratio"].notna()
    is_compared = has_ratio & (table["withheld"] == "")
    lacks_duplicates = has_ratio & np.isnan(duplicate_sd)
    row_flags = []
    for own_flags, is_missing in zip(table["flags"], lacks_duplicates, strict=True):
        row_flags.append(flags.add_flag(own_flags, Flag.NO_DUPLICATES, is_missing))
    # Each test makes Holm's correction stricter for the other tests. So rows that are not compared must not
    # be tested: add_calls() tests no row whose duplicate_sd is NaN.
    tested_sd = np.where(is_compared, duplicate_sd, np.nan)
    flagged = table.assign(duplicate_sd=tested_sd, flags=row_flags)
    tested = add_calls(flagged, metric.calls, limits)
    # add_calls() uses only ratios and their errors. Further facts can change a call.
    if metric.exact:
        corrected = call_exact_rows(tested, metric)
    else:
        corrected = call_start_up(tested)
        if metric.is_duration:
            slower_side = corrected[["baseline_mean", "candidate_mean"]].max(axis=1)
            is_short = (slower_side < limits.decides_from_s) & (corrected["call"] != "")
            corrected = corrected.assign(call=corrected["call"].mask(is_short, Call.TOO_SMALL))
    undisturbed = withdraw_disturbed(corrected)
    # A withheld row may have a ratio, and so a call.
    final_calls = undisturbed["call"].where(is_compared, "")
    results = []
    for call, ratio in zip(final_calls, undisturbed["ratio"], strict=True):
        result = comparisons.classify_call(call, ratio, limits, is_count=metric.exact)
        results.append("" if result is None else result)
    return undisturbed.assign(call=final_calls, result=results)


def add_calls(table: pd.DataFrame, differences: tuple[Call, Call], limits: Limits) -> pd.DataFrame:
    """Return a table with the columns call, detectable and within, from a test of each of its ratios.

    A row is `{"ratio": 1.05, "error": 0.02, "degrees": 60.0, "duplicate_sd": 0.01}`. `error` is the standard
    error of ln(ratio), with `degrees` degrees of freedom. It includes the noise `duplicate_sd` already. The
    row gets `{"call": "equal", "detectable": 1.09, "within": 1.087}`:

    - `call`: "" without a ratio, otherwise a difference, equal (`within` the margin), bounded (`within` 1.5
      margins) or undecided. `differences` are the calls of a ratio above and below 1: (faster, slower).
    - `detectable`: if the true ratio is this large, 9 of 10 repetitions call it different. NaN in a row that
      cannot be tested, because its ratio, error or duplicate_sd is NaN.
    - `within`: the true ratio is between 1 / `within` and `within`, by a test that errs in 4.5 % of cases.
    """
    # ln(2) and ln(1/2) are equally far from 0, the logarithm of no difference.
    log_ratio = np.log(table["ratio"].to_numpy(float))
    error = table["error"].to_numpy(float)
    degrees = table["degrees"].to_numpy(float)
    duplicate_sd = table["duplicate_sd"].to_numpy(float)
    above, below = differences
    # A single round has no error (NaN). Without duplicates, the systematic noise is unknown.
    is_testable = np.isfinite(log_ratio + error) & ~np.isnan(duplicate_sd)
    is_significant, level = _reject_by_holm(p_values(log_ratio, error, degrees), is_testable)
    # Equality means that the ratio is certainly below the margin, and certainly above 1 / margin: two
    # one-sided tests. The bound that is farther from 0 decides both.
    log_within = np.abs(log_ratio) + _upper_quantile(degrees, EQUIVALENCE_ALPHA) * error
    # For each row, the first condition that holds decides.
    calls_by_condition = [
        (~np.isfinite(log_ratio), ""),
        (~is_testable, Call.UNDECIDED),
        (is_significant & (log_ratio > 0), above),
        (is_significant, below),
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
    """Return the call of each of one or more ratios, with Holm's correction over all of them; None for NaN.

    `differences` are the calls of a ratio above and below 1. Example: 1.30 +- 0.02 and 1.01 +- 0.02 with the
    differences (faster, slower) give [faster, equal]. Without duplicates, each ratio is undecided.
    """
    table = pd.DataFrame(estimates).rename(columns={"value": "ratio"})
    # The errors contain the variance of duplicates already (Noise.with_error). add_calls() only looks if
    # `duplicate_sd` is NaN: no duplicates.
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

    Rows that are not testable are never significant, and do not count. The last level is the one that the
    first p-value without significance exceeds, or ALPHA. Example: the levels of 0.001, 0.02 and 0.4 would be
    0.05 / 3, 0.05 / 2 and 0.05, but holm_level() returns at most ALPHA = 0.0035. So the result is ([True,
    False, False], 0.0035).
    """
    is_significant = np.zeros(len(p), dtype=bool)
    rows_by_p = [row for row in np.argsort(p, kind="stable") if is_testable[row]]
    # The procedure stops at the first p-value that is too large for its level. Levels become less strict with
    # each difference, because fewer tests remain that could be wrong.
    for number_significant, row in enumerate(rows_by_p):
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
    """Return a table of times with calls corrected for start-up, the time of process start and connection.

    The columns `share_baseline` and `share_candidate` have the share of start-up in the time of a side. The
    call becomes TOO_SMALL if start-up alone can explain the difference of the row. Otherwise, a difference
    whose faster side is start-up for more than half of its time (DECIDING_SHARE) gets the flag `at-least`:
    without start-up, the factor would be larger.
    """
    calls: list[str] = []
    row_flags: list[str] = []
    for row in table.to_dict("records"):
        call, own_flags = row["call"], row["flags"]
        shares = comparisons.start_up_shares(
            row["ratio"],
            low=row["low"],
            high=row["high"],
            baseline=row["share_baseline"],
            candidate=row["share_candidate"],
        )
        is_difference = comparisons.is_difference(call)
        # Without an interval, start_up_explains() would be True if the time of one side is mostly start-up.
        has_interval = not math.isnan(shares.least_factor)
        is_explained = has_interval and comparisons.start_up_explains(shares, is_difference)
        # A row without a ratio keeps the call "".
        if call and is_explained:
            call = Call.TOO_SMALL
        elif is_difference and shares.fast > DECIDING_SHARE:
            # Start-up is part of both sides. If 0.9 s of 1.1 s and of 2.1 s (1.9 times) are start-up, the
            # work of 0.2 s and 1.2 s differs by 6 times.
            own_flags = flags.add_flag(own_flags, Flag.AT_LEAST, True)
        calls.append(call)
        row_flags.append(own_flags)
    return table.assign(call=calls, flags=row_flags)


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
    have no noise: the row loses the flags about noise, and `detectable` becomes 1. A row that is constant, or
    that a test called different, becomes `equal` if its counts differ by 1 % or less.
    """
    low, high = table["low"].astype(float), table["high"].astype(float)
    ratios = table["ratio"].astype(float)
    is_constant = np.isfinite(low) & (low == high)
    less, more = metric.calls
    calls = table["call"]
    calls = calls.mask(is_constant & (ratios > 1), less)
    calls = calls.mask(is_constant & (ratios < 1), more)
    # EQUAL replaces the two calls above: 401 reads instead of 400 are a certain difference, but of no use.
    is_near = np.abs(np.log(ratios)) <= math.log1p(COUNT_TOLERANCE)
    is_difference = calls.map(comparisons.is_difference)
    calls = calls.mask(is_near & (is_constant | is_difference), Call.EQUAL)
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

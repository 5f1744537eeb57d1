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
- *Undecided*: otherwise, and always after a single round or without duplicates. Also a difference whose
  direction changes without the runs that other programs disturbed.
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
    """Decide each comparison of a table, and return the table with the decisions.

    A call is the outcome of one comparison, such as `faster` or `equal` (codes.Call). `result` is the class
    in which the call is counted, such as `different`. Other added columns are duplicate_sd, detectable and
    within (add_calls). Example: the row with the ratio 1.30 (1.25 to 1.35) gets `faster` and `different`.

    A row of `table` is a comparison of two cells. The function needs the columns ratio, low, high, n, error,
    degrees, flags (text, separated by blanks) and withheld. It also needs the shares of start-up in the time
    of both sides, `share_baseline` and `share_candidate`.

    A withheld row is one whose cells may not be compared, for example because they did different work. Its
    column `withheld` says why, and is "" in all other rows. Withheld rows, and rows without a ratio, get the
    call and the result "". Holm's correction does not count them.

    `duplicate_sd` is the standard deviation of ln(duplicate / original): one number, or one per row. It is
    NaN without duplicates (cells that are measured twice). Then every row is undecided or too small, except
    counts that are the same in every round.
    """
    has_ratio = table["ratio"].notna()
    is_compared = has_ratio & (table["withheld"] == "")
    lacks_duplicates = has_ratio & np.isnan(duplicate_sd)
    row_flags = []
    for own_flags, is_missing in zip(table["flags"], lacks_duplicates, strict=True):
        row_flags.append(flags.add_flag(own_flags, Flag.NO_DUPLICATES, is_missing))
    # Each further test makes Holm's correction stricter, so rows that are not compared must not be tested.
    # add_calls() tests no row whose duplicate_sd is NaN.
    tested_sd = np.where(is_compared, duplicate_sd, np.nan)
    table = table.assign(duplicate_sd=tested_sd, flags=row_flags)
    table = add_calls(table, metric.calls, limits)
    table = call_exact_rows(table, metric) if metric.exact else call_start_up(table)
    table = withdraw_disturbed(table)
    table = table.assign(call=table["call"].where(is_compared, ""))
    results = []
    for call, ratio in zip(table["call"], table["ratio"], strict=True):
        result = comparisons.classify_call(call, ratio, limits, is_count=metric.exact)
        results.append("" if result is None else result)
    return table.assign(result=results)


def add_calls(table: pd.DataFrame, differences: tuple[Call, Call], limits: Limits) -> pd.DataFrame:
    """Test each ratio of a table, and return the table with the columns call, detectable and within.

    Needs the columns ratio, error (standard error of ln(ratio)), degrees and duplicate_sd (NaN without
    duplicates). `differences` are the calls of the candidate for a ratio above 1 and for one below 1, such as
    (faster, slower).

    - `call`: "" without a ratio, undecided without an error or duplicates; otherwise the first that holds of
      different, equal, bounded and undecided (see the top of this file).
    - `detectable`: the smallest ratio that 9 of 10 equal experiments would call different, such as 1.09; NaN
      in a row that cannot be tested.
    - `within`: the largest ratio, in either direction, that the one-sided tests do not exclude. 1.087 means
      that the true ratio lies between 1 / 1.087 and 1.087.
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
    # Equality needs two one-sided tests: the ratio is below the margin, and above 1 / margin. The bound that
    # is farther from 0 decides both. If it is below the margin, the bound on the other side is, too.
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
    # With one or two degrees of freedom, a quantile may be so large that exp() overflows to infinity. That
    # is the right number: no difference is detectable.
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
    """Return the call of each ratio, with Holm's correction over all of them; None for a ratio of NaN.

    `estimates` have the errors of Noise.with_error, which contain the variance of duplicates. `differences`
    are the calls for a ratio above 1 and below 1. Example: 1.30 +- 0.02 and 1.01 +- 0.02 with (faster,
    slower) give [faster, equal].
    """
    table = pd.DataFrame(estimates).rename(columns={"value": "ratio"})
    # add_calls() asks only if duplicate_sd is NaN. Its size is in the errors already, so 0 will do.
    table = table.assign(duplicate_sd=0.0 if has_duplicates else math.nan)
    calls = add_calls(table, differences, limits)["call"]
    return [Call(call) if call else None for call in calls]


def p_values(mean: np.ndarray, error: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Return the two-sided p-values of Student's t test that the mean logarithm is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # If all rounds have the same ratio, the error is 0. A mean logarithm other than 0 then has t =
        # infinity and p = 0. A mean of 0 would have t = 0 / 0, and gets t = 0 and p = 1.
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    return np.asarray(2 * special.stdtr(degrees, -t))


def _reject_by_holm(p: np.ndarray, is_testable: np.ndarray) -> tuple[np.ndarray, float]:
    """Return which p-values are significant by Holm's step-down procedure (1979), and the level of the rest.

    `p`, `is_testable` and the first result have an entry per row of a table. Rows that are not testable are
    never significant, and do not count. The second result is the level that the first p-value without
    significance missed, or ALPHA if all are significant.

    The smallest of m p-values is compared with TABLE_ALPHA / m, the next with TABLE_ALPHA / (m - 1), and so
    on until the first failure. Example: 0.001, 0.02 and 0.4 are compared with 0.05 / 3, 0.05 / 2 and 0.05.
    The first two pass. But each must also be below ALPHA = 0.0035, and only 0.001 is. So the result is
    ([True, False, False], 0.0035).
    """
    is_significant = np.zeros(len(p), dtype=bool)
    order = [i for i in np.argsort(p, kind="stable") if is_testable[i]]
    for rejected, i in enumerate(order):
        level = holm_level(len(order) - rejected)
        # A p-value may be NaN, and any comparison with NaN is False. So `not p <= level` makes NaN
        # insignificant, and `p > level` would not.
        if not p[i] <= level:
            return is_significant, level
        is_significant[i] = True
    return is_significant, ALPHA


def holm_level(remaining: int) -> float:
    """Return the p-value that the next comparison must not exceed to be called a difference.

    `remaining` is the number of comparisons of the table that are not called a difference yet. With 14 or
    fewer, the limit is ALPHA, because 0.05 / 14 = 0.0036 is larger. With 100, it is 0.05 / 100 = 0.0005.
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
    """Return a table of times whose calls take start-up into account.

    Start-up is the time of process start and connection, which is the same whatever the command does. Its
    share in the time is in the columns `share_baseline` and `share_candidate` (0 to 1, NaN if unknown). Each
    row with a call and an interval is one of three cases:

    1. Start-up alone can explain that one side is slower (comparisons.can_be_start_up): the call becomes
       TOO_SMALL, whatever it was.
    2. The call is a difference, and more than half of the faster side's time is start-up: the call stays, and
       the row gets the flag `at-least`. Start-up is part of both sides, so the work itself differs by more
       than the measured factor. Example: of 1.1 s and 2.1 s, 0.9 s are start-up. The measured factor is 1.9.
       Without start-up, 0.2 s and 1.2 s differ by the factor 6.
    3. In any other case, the row stays as it is.
    """
    calls: list[str] = []
    row_flags: list[str] = []
    for row in table.to_dict("records"):
        # The ratio is baseline / candidate: above 1, the candidate is the faster side. `least_factor` is the
        # smallest factor between both sides, which is the end of the interval that is nearer to 1.
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


def withdraw_disturbed(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which a difference is undecided if undisturbed runs show the opposite."""
    calls = []
    for call, row_flags in zip(table["call"], table["flags"], strict=True):
        is_doubtful = comparisons.is_difference(call) and Flag.DISTURBED in row_flags.split()
        calls.append(Call.UNDECIDED if is_doubtful else call)
    return table.assign(call=calls)


def constant_ratio(metric: Metric, pairs: pd.DataFrame) -> Estimate | None:
    """Return the ratio of counts that are the same in every round, with an interval of no width.

    `pairs` has a row per host and round of two cells. Its columns are the count of each side, such as
    `reads_baseline` and `reads_candidate`, and their `quotient`. Example: 412 and 206 reads in each of 5
    rounds give the ratio 2.0 (2.0 to 2.0), with the error 0 and 4 degrees of freedom. Student's t needs a
    scatter for its interval, and such counts have none.

    Return None if a count differs between rounds or is 0, and if there is only one round.
    """
    sides = pairs[[f"{metric.name}_baseline", f"{metric.name}_candidate"]]
    first = sides.iloc[0]
    is_constant = (sides == first).to_numpy().all() and (first > 0).all()
    if len(pairs) < MIN_COUNT_ROUNDS or not is_constant:
        return None
    quotient = float(pairs["quotient"].iloc[0])
    return Estimate(quotient, quotient, quotient, len(pairs), 0.0, len(pairs) - 1)


def call_exact_rows(table: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Return a table of counts in which rows with constant counts are called without a test.

    Counts that are the same in every round have an interval without width: low = high (constant_ratio).
    Such a row is `less` if the ratio baseline / candidate is above 1, and `more` if it is below 1. It loses
    the flags about few rounds and missing duplicates, because such counts have no noise that these could
    show. Its smallest detectable ratio is 1. A row that is constant, or that a test called different, becomes
    `equal` if its counts differ by 1 % or less.
    """
    low, high = table["low"].astype(float), table["high"].astype(float)
    ratios = table["ratio"].astype(float)
    is_constant = np.isfinite(low) & (low == high)
    less, more = metric.calls
    calls = table["call"].mask(is_constant & (ratios > 1), less)
    calls = calls.mask(is_constant & (ratios < 1), more)
    # 401 calls instead of 400 are a certain difference, but one that is of no use to anybody.
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

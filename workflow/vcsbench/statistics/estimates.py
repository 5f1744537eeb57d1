"""Means, ratios and variances with 95 % intervals by Student's t, and the calls of differences.

Moderation of variances is empirical Bayes after Smyth (2004), like squeezeVar of limma. True variances are
taken to scatter about a prior with d0 degrees of freedom; each moderated variance is the average of its own
and the prior, weighted by degrees of freedom. Three cautions keep errors right if variances are very unequal:

- d0 is the least that the scatter of the variances allows (SCATTER_LIMIT), not the likeliest;
- an outlier (OUTLIER_P) stands alone;
- fewer than MIN_VARIANCES, or d0 below MIN_PRIOR_DEGREES, are not moderated.

Duplicates have a variance that no round reduces. Two estimates of it are combined: the moment estimate of
DerSimonian and Laird (1986), and the posterior mean with a half Student's t as prior of the standard
deviation. A significant excess (P_SIGNIFICANT) takes the first, an uncertain one (P_UNCERTAIN) the second.
Both have degrees of freedom from the prior, therefore one or two pairs suffice.

A difference is called with Holm's correction over all comparisons of a table:

- It is significant alone at ALPHA, and by Holm's procedure in its table at TABLE_ALPHA.
- *Equal*: two one-sided tests at EQUIVALENCE_ALPHA show less than the margin.
- *Bounded*: they show less than 1.5 margins.
- *Undecided*: otherwise, and always after a single round or without duplicates.
- *Too small*: start-up alone can explain the difference (comparisons.can_be_start_up).

Two rounds can decide, because the variances of all cells are moderated: five cells with two rounds know
nearly as much about the scatter as one cell with ten.

Counts that are equal in every round have no noise: the ratio is its own interval from two rounds on. A
count that differs by 1 % or less is equal. docs/statistics.md has the error rates.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from vcsbench.codes import Call
from vcsbench.evidence import flags
from vcsbench.evidence.flags import DECIDING_SHARE, Flag
from vcsbench.metrics import Metric
from vcsbench.statistics.comparisons import (
    Limits,
    can_be_start_up,
    is_difference,
    result_of,
)

CONFIDENCE = 0.95
POWER = 0.9
# As a logarithm: exp() of more overflows soon.
MAX_HALF_WIDTH = 100.0

SCATTER_LIMIT = 0.1
OUTLIER_P = 0.01
MIN_VARIANCES = 8
MIN_PRIOR_DEGREES = 2.0
EXACT = 1e-18
MAX_STEPS, SMALL_STEP = 100, 1e-6

P_SIGNIFICANT, P_UNCERTAIN = 0.01, 0.1
# For ln(duplicate / original). Pairs of real runs differ by 0.6 % in the median.
PRIOR_SCALE, PRIOR_DEGREES = 0.010, 3.0
ADDED_DEGREES = 2.0
MAX_DEGREES = 1e6
_POINTS = 300

# Below the promised 1 in 200 and 1 in 20, because errors are estimated, and rounds may be added.
ALPHA = 0.0035
TABLE_ALPHA = 0.05
EQUIVALENCE_ALPHA = 0.045

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


@dataclass(frozen=True)
class Estimate:
    """A mean with the bounds of its interval (NaN without one) over `n` rounds.

    `error` is the standard error (of the logarithm if the mean is a ratio) with `degrees` of freedom.
    `averaged` is the number of cells or pairs that are averaged within a round.
    """

    value: float
    low: float
    high: float
    n: int
    error: float = math.nan
    degrees: float = math.nan
    averaged: float = 1.0
    is_ratio: bool = True

    def with_error(self, error: float, degrees: float, level: float = CONFIDENCE) -> "Estimate":
        """Return the estimate with another error, and its interval."""
        centre = math.log(self.value) if self.is_ratio else self.value
        return interval(centre, error, degrees, self.n, self.averaged, level, self.is_ratio)


NO_ESTIMATE = Estimate(math.nan, math.nan, math.nan, 0)


def interval(
    centre: float,
    error: float,
    degrees: float,
    n: int,
    averaged: float = 1.0,
    level: float = CONFIDENCE,
    is_ratio: bool = True,
) -> Estimate:
    """Return a mean, or a ratio from its logarithm and the error of this, with its interval."""
    half = t_quantile(degrees, level) * error
    value, low, high = centre, centre - half, centre + half
    if is_ratio:
        half = min(half, MAX_HALF_WIDTH)
        value, low, high = (math.exp(log) for log in (centre, centre - half, centre + half))
    return Estimate(value, low, high, n, error, degrees, averaged, is_ratio)


def mean_interval(
    values: Iterable[float], averaged: float = 1.0, is_ratio: bool = False
) -> Estimate:
    centre, square, n = _mean_and_square(values)
    degrees = n - 1 if n > 1 else math.nan
    return interval(centre, math.sqrt(square), degrees, n, averaged, is_ratio=is_ratio)


def ratio_interval(log_ratios: Iterable[float], averaged: float = 1.0) -> Estimate:
    """Return the geometric mean of paired ratios, given as one ln(baseline / candidate) per round."""
    return mean_interval(log_ratios, averaged, is_ratio=True)


def _mean_and_square(values: Iterable[float]) -> tuple[float, float, int]:
    numbers = [value for value in values if math.isfinite(value)]
    n = len(numbers)
    centre = math.fsum(numbers) / n if n else math.nan
    squares = math.fsum((number - centre) ** 2 for number in numbers)
    return centre, squares / (n - 1) / n if n > 1 else math.nan, n


def unpaired_ratio(baseline_logs: Sequence[float], candidate_logs: Sequence[float]) -> Estimate:
    """Return baseline / candidate of geometric means with Welch's interval.

    Use it for rounds that did not run next to each other. `n` is the smaller number of rounds.
    """
    baseline, first, m = _mean_and_square(baseline_logs)
    candidate, second, n = _mean_and_square(candidate_logs)
    fewer, square = min(m, n), math.fsum([first, second])
    degrees = fewer - 1 if fewer > 1 else math.nan
    if square > 0:
        degrees = square**2 / math.fsum([first**2 / (m - 1), second**2 / (n - 1)])
    return interval(baseline - candidate, math.sqrt(square), degrees, fewer)


def t_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    return float(special.stdtrit(degrees, (1 + confidence) / 2))


class Variance(NamedTuple):
    """A variance with its degrees of freedom."""

    variance: float
    degrees: float = math.inf

    def scaled(self, factor: float) -> "Variance":
        return Variance(self.variance * factor, self.degrees)


def sum_variances(variances: Iterable[Variance]) -> Variance:
    """Return the variance of a sum of independent terms, with degrees of freedom by Satterthwaite."""
    known = [term for term in variances if term.variance]
    total = math.fsum(term.variance for term in known)
    doubt = math.fsum(term.variance**2 / term.degrees for term in known)
    return Variance(total, total**2 / doubt if doubt else math.inf)


def residual_squares(logs: np.ndarray, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each cell's sum of squared residuals over rounds, and its degrees of freedom.

    Rows are cells, columns rounds (NaN if missing). Residuals exclude the drift that the cells of a
    block share in a round. `blocks` has the number of each cell's block.
    """
    squares, degrees = np.zeros(len(logs)), np.zeros(len(logs))
    for block in np.unique(blocks):
        rows = np.flatnonzero(blocks == block)
        measured = np.isfinite(logs[rows])
        cells, rounds = (measured.sum(axis=axis) for axis in (0, 1))
        rest = np.where(measured, logs[rows], 0.0)
        # Cells that miss rounds need several steps, because their means contain other drift.
        for _ in range(MAX_STEPS):
            rest = np.where(measured, rest - rest.sum(axis=0) / np.maximum(cells, 1), 0.0)
            levels = rest.sum(axis=1, keepdims=True) / np.maximum(rounds, 1)[:, None]
            rest = np.where(measured, rest - levels, 0.0)
            if np.abs(levels).max(initial=0.0) < SMALL_STEP:
                break
        squares[rows] = (rest**2).sum(axis=1)
        # A round of a single cell shows only drift.
        shared = measured & (cells > 1)
        free = np.where(shared, 1 - 1 / np.maximum(cells, 1), 0.0).sum(axis=1)
        degrees[rows] = free * (1 - 1 / np.maximum(shared.sum(axis=1), 1))
    return squares, degrees


def moderated(variances: np.ndarray, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    prior, members = prior_of(variances, degrees)
    if not prior:
        return variances, degrees
    member_degrees = degrees[members]
    share = 1.0 if math.isinf(prior.degrees) else prior.degrees / (prior.degrees + member_degrees)
    values, more = variances.copy(), degrees.astype(float)
    values[members] = share * prior.variance + (1 - share) * variances[members]
    more[members] = np.minimum(prior.degrees + member_degrees, member_degrees.sum())
    return values, more


def prior_of(variances: np.ndarray, degrees: np.ndarray) -> tuple[Variance | None, np.ndarray]:
    members = np.isfinite(variances) & (degrees > 0) & (variances > EXACT)
    if members.sum() < MIN_VARIANCES:
        return None, members
    first = _fit_prior(variances[members], degrees[members])
    with np.errstate(invalid="ignore"):
        p_values = p_value_of_quotient(variances / first.variance, degrees, first.degrees)
    members &= ~(p_values < OUTLIER_P)
    if members.sum() < MIN_VARIANCES:
        return None, members
    prior = _fit_prior(variances[members], degrees[members])
    return (prior if prior.degrees >= MIN_PRIOR_DEGREES else None), members


def _fit_prior(variances: np.ndarray, degrees: np.ndarray) -> Variance:
    logs = np.log(variances) - special.digamma(degrees / 2) + np.log(degrees / 2)
    by_chance, others = special.polygamma(1, degrees / 2).mean(), len(logs) - 1
    scatter = logs.var(ddof=1)
    largest = scatter * others / (2 * special.gammaincinv(others / 2, SCATTER_LIMIT))
    likeliest, least = (
        2 * trigamma_inverse(excess - by_chance) if excess > by_chance else math.inf
        for excess in (scatter, largest)
    )
    if math.isinf(likeliest):
        return Variance(float(np.average(variances, weights=degrees)), least)
    centre = logs.mean() + special.digamma(likeliest / 2) - math.log(likeliest / 2)
    return Variance(math.exp(centre), least)


def trigamma_inverse(value: float) -> float:
    """Return x with trigamma(x) = value, by Newton's method on 1 / trigamma (Smyth 2004, appendix)."""
    if value < 1e-6:
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = special.polygamma(1, x)
        step = float(trigamma * (1 - trigamma / value) / special.polygamma(2, x))
        x += step
        if abs(step) < 1e-8 * x:
            break
    return x


def p_value_of_quotient(
    quotient: float | np.ndarray, degrees: float | np.ndarray, prior_degrees: float
) -> np.ndarray:
    """Return the probability of a larger quotient of a variance and its prior (F test)."""
    if math.isinf(prior_degrees):
        return np.asarray(special.chdtrc(degrees, degrees * quotient))
    return np.asarray(special.fdtrc(degrees, prior_degrees, quotient))


def duplicate_variance(squares: np.ndarray, by_rounds: np.ndarray, degrees: np.ndarray) -> Variance:
    """Return the variance of ln(duplicate / original) beyond the scatter of rounds.

    Each pair has the square of its mean log difference, the variance of that mean by its rounds, and
    the degrees of freedom of this variance.
    """
    by_rounds = np.maximum(by_rounds, EXACT)
    degrees = np.minimum(degrees, MAX_DEGREES)
    weights = 1 / by_rounds
    excess = (squares * weights).mean()
    posterior = _posterior(squares, by_rounds, degrees)
    variance = float((excess - 1) / weights.mean())
    if variance <= EXACT:
        return posterior
    doubt = ((weights * (variance + by_rounds)) ** 2 + 1 / degrees).sum() / weights.sum() ** 2
    moments = Variance(variance, float(variance**2 / doubt) + ADDED_DEGREES)
    p = float(p_value_of_quotient(excess, len(squares), float(degrees.mean())))
    p = min(max(p, P_SIGNIFICANT), P_UNCERTAIN)
    share = math.log(P_UNCERTAIN / p) / math.log(P_UNCERTAIN / P_SIGNIFICANT)
    if share == 1:
        return moments
    weighted = ((share, moments), (1 - share, posterior))
    return Variance(
        math.fsum(weight * of.variance for weight, of in weighted),
        math.fsum(weight * of.degrees for weight, of in weighted),
    )


def _posterior(squares: np.ndarray, by_rounds: np.ndarray, degrees: np.ndarray) -> Variance:
    widest = max(30 * PRIOR_SCALE, 5 * math.sqrt(squares.max()))
    deviations = np.concatenate([[0.0], np.geomspace(PRIOR_SCALE / 20, widest, _POINTS)])
    variances = deviations**2
    total = variances[:, None] + by_rounds
    freedom = degrees * (total / by_rounds) ** 2
    spread = (freedom + 1) / 2 * np.log1p(squares / freedom / total) + np.log(total) / 2
    prior = (PRIOR_DEGREES + 1) / 2 * np.log1p((deviations / PRIOR_SCALE) ** 2 / PRIOR_DEGREES)
    logs = -prior - spread.sum(axis=1)
    weights = np.exp(logs - logs.max()) * np.gradient(deviations)
    weights /= weights.sum()
    mean = float((weights * variances).sum())
    around = float((weights * (variances - mean) ** 2).sum())
    if not around:
        return Variance(mean, MAX_DEGREES)
    freedom_of_mean = 4 + 2 * mean**2 / around
    return Variance(mean * (freedom_of_mean - 2) / freedom_of_mean, freedom_of_mean)


def call_table(
    table: pd.DataFrame, duplicate_sd: float | pd.Series, metric: Metric, limits: Limits
) -> pd.DataFrame:
    """Return a table with the columns of comparisons.CALL.

    Needs ratio, low, high, n, error, degrees, flags, withheld, and the shares of fixed cost of both sides,
    `share_baseline` and `share_candidate`. A withheld row has no call, and the correction excludes it.
    """
    is_known = table["ratio"].notna()
    is_compared = is_known & (table["withheld"] == "")
    lacks_duplicates = is_known & np.isnan(duplicate_sd)
    flagged = [
        flags.add_flag(own, Flag.NO_DUPLICATES, is_missing)
        for own, is_missing in zip(table["flags"], lacks_duplicates, strict=True)
    ]
    sd = np.where(is_compared, duplicate_sd, np.nan)
    table = add_calls(table.assign(duplicate_sd=sd, flags=flagged), metric.calls, limits)
    table = call_exact_rows(table, metric) if metric.exact else call_start_up(table)
    table = table.assign(call=table["call"].where(is_compared, ""))
    results = [
        result_of(call, ratio, limits, is_count=metric.exact) or ""
        for call, ratio in zip(table["call"], table["ratio"], strict=True)
    ]
    return table.assign(result=results)


def call_start_up(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose calls exclude differences that start-up can explain.

    If one side is mostly start-up and the difference is larger than that, the true factor is larger than
    the measured one, because start-up is part of both sides. Such a row has the flag `at-least`.
    """
    calls: list[str] = []
    row_flags: list[str] = []
    for row in table.to_dict("records"):
        call, own_flags = row["call"], row["flags"]
        shares = row["share_baseline"], row["share_candidate"]
        is_faster = row["ratio"] >= 1
        slow_share, fast_share = shares if is_faster else reversed(shares)
        least_factor = row["low"] if is_faster else 1 / row["high"]
        is_known = call and not math.isnan(least_factor)
        if is_known and can_be_start_up(fast_share, slow_share, least_factor):
            call = Call.TOO_SMALL
        elif is_difference(call) and fast_share > DECIDING_SHARE:
            own_flags = flags.add_flag(own_flags, Flag.AT_LEAST, True)
        calls.append(call)
        row_flags.append(own_flags)
    return table.assign(call=calls, flags=row_flags)


def add_calls(table: pd.DataFrame, differences: tuple[Call, Call], limits: Limits) -> pd.DataFrame:
    """Return the table with the columns call, detectable and within.

    Needs ratio, n, error, degrees and duplicate_sd (NaN without duplicates). `differences` are the calls of
    the candidate for a ratio above 1 and below 1. A row without a ratio has the call "". `detectable` is
    the smallest ratio that 9 of 10 equal experiments would call, at the level of the row. A row that
    cannot be called has none.
    """
    ratio, error, degrees, duplicate_sd = (
        table[name].to_numpy(float) for name in ("ratio", "error", "degrees", "duplicate_sd")
    )
    mean = np.log(ratio)
    # A single round has no error, and a study without duplicates does not know its systematic noise.
    is_testable = np.isfinite(mean + error) & ~np.isnan(duplicate_sd)
    significant, level = _holm(p_values(mean, error, degrees), is_testable)
    within = np.abs(mean) + _one_sided(degrees, EQUIVALENCE_ALPHA) * error
    calls = np.select(
        [
            ~np.isfinite(mean),
            ~is_testable,
            significant & (mean > 0),
            significant,
            within <= math.log(limits.margin),
            within <= math.log(limits.bound),
        ],
        ["", Call.UNDECIDED, *differences, Call.EQUAL, Call.BOUNDED],
        Call.UNDECIDED,
    )
    with np.errstate(over="ignore"):
        detectable = np.exp(detectable_effect(error, degrees, level))
        return table.assign(
            call=calls,
            detectable=np.where(is_testable, detectable, math.nan),
            within=np.exp(within),
        )


def calls_of(
    estimates: Sequence[Estimate],
    has_duplicates: bool,
    differences: tuple[Call, Call],
    limits: Limits,
) -> list[Call | None]:
    """Return the calls of ratios, corrected together, by their errors (Noise.with_error)."""
    table = pd.DataFrame(estimates).rename(columns={"value": "ratio"})
    table = table.assign(duplicate_sd=0.0 if has_duplicates else math.nan)
    calls = add_calls(table, differences, limits)["call"]
    return [Call(call) if call else None for call in calls]


def detectable_effect(
    error: float | np.ndarray, degrees: float | np.ndarray, level: float = ALPHA
) -> np.ndarray:
    return (_one_sided(degrees, level / 2) + _one_sided(degrees, 1 - POWER)) * error


def holm_level(remaining: int) -> float:
    """Return the level of each comparison of a table while so many are not called a difference."""
    return min(ALPHA, TABLE_ALPHA / max(remaining, 1))


def _one_sided(degrees: float | np.ndarray, chance: float) -> np.ndarray:
    return np.asarray(-special.stdtrit(degrees, chance))


def p_values(mean: np.ndarray, error: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    return np.asarray(2 * special.stdtr(degrees, -t))


def _holm(p: np.ndarray, is_testable: np.ndarray) -> tuple[np.ndarray, float]:
    significant = np.zeros(len(p), dtype=bool)
    order = [i for i in np.argsort(p, kind="stable") if is_testable[i]]
    for rejected, i in enumerate(order):
        level = holm_level(len(order) - rejected)
        if not p[i] <= level:
            return significant, level
        significant[i] = True
    return significant, ALPHA


def constant_ratio(metric: Metric, pairs: pd.DataFrame) -> Estimate | None:
    sides = pairs[[f"{metric.name}_baseline", f"{metric.name}_candidate"]]
    is_constant = (sides == sides.iloc[0]).to_numpy().all() and (sides.iloc[0] > 0).all()
    if len(pairs) < MIN_COUNT_ROUNDS or not is_constant:
        return None
    quotient = float(pairs["quotient"].iloc[0])
    return Estimate(quotient, quotient, quotient, len(pairs), 0.0, len(pairs) - 1)


def call_exact_rows(table: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Return a table of counts: a count that is equal in every round is called without any noise."""
    low, high, ratios = (table[name].astype(float) for name in ("low", "high", "ratio"))
    is_constant = np.isfinite(low) & (low == high)
    less, more = metric.calls
    calls = table["call"].mask(is_constant & (ratios > 1), less)
    calls = calls.mask(is_constant & (ratios < 1), more)
    is_near = np.abs(np.log(ratios)) <= math.log1p(COUNT_TOLERANCE)
    is_called = is_constant | calls.map(is_difference)
    without_noise = [_without(own, NOISE_FLAGS) for own in table["flags"]]
    return table.assign(
        call=calls.mask(is_near & is_called, Call.EQUAL),
        detectable=table["detectable"].mask(is_constant, 1.0),
        flags=table["flags"].mask(is_constant, without_noise),
    )


def without_time_flags(table: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    if not metric.exact:
        return table
    return table.assign(flags=[_without(own, TIME_FLAGS) for own in table["flags"]])


def _without(own: str, excluded: set[str]) -> str:
    return flags.join_flags(flag for flag in own.split() if flag not in excluded)

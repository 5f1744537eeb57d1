"""Call differences, with Holm's correction over all comparisons of a table, and equivalence tests.

- A difference is significant alone at ALPHA, and by Holm's procedure in its table at TABLE_ALPHA.
- *Equal* (NOT_SHOWN): two one-sided tests at EQUIVALENCE_ALPHA show less than the smallest notable effect.
- Otherwise *undecided* (TOO_NOISY); always with too few rounds, or without duplicates.

Counts that are equal in every round have no noise: the ratio is its own interval from two rounds on. A
count that differs by 1 % or less is equal. docs/statistics.md has the error rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from vcsbench.evidence import flags
from vcsbench.metrics import Metric
from vcsbench.statistics.contract import NOT_SHOWN, TOO_NOISY, Limits, is_difference
from vcsbench.statistics.estimates import POWER, Estimate

# Below the promised 1 in 200 and 1 in 20, because errors are estimated, and rounds may be added.
ALPHA = 0.0035
TABLE_ALPHA = 0.05
EQUIVALENCE_ALPHA = 0.045

MIN_COUNT_ROUNDS = 2
COUNT_TOLERANCE = 0.01
NOISE_FLAGS = {"low-n", "no-duplicates"}
TIME_FLAGS = {"outlier-10", "outlier-20", "too-short", "mostly-fixed-cost", "saturated"}
TIME_FLAGS |= {"mean-cpu", "cpu-steal", "cpu-busy", "throttled"}


def call_table(
    table: pd.DataFrame, duplicate_sd: float | pd.Series, metric: Metric, limits: Limits
) -> pd.DataFrame:
    is_known = table["ratio"].notna()
    sd = np.where(is_known, duplicate_sd, np.nan)
    unknown = zip(table["flags"], is_known & np.isnan(sd), strict=True)
    words = [flags.also(own, "no-duplicates", missing) for own, missing in unknown]
    return add_calls(table.assign(twin_sd=sd, flags=words), metric.calls, limits)


def add_calls(table: pd.DataFrame, words: tuple[str, str], limits: Limits) -> pd.DataFrame:
    """Return the table with the columns call, detectable and within.

    Needs ratio, n, error, degrees and twin_sd (NaN without duplicates). `words` are the calls of the
    candidate for a ratio above 1 and below 1. A row without a ratio has the call "". `detectable` is
    the smallest ratio that 9 of 10 equal experiments would call, at the level of the row.
    """
    ratio, n, error, degrees, duplicate_sd = (
        table[name].to_numpy(float) for name in ("ratio", "n", "error", "degrees", "twin_sd")
    )
    mean = np.log(ratio)
    is_short = (n < limits.min_rounds) | np.isnan(duplicate_sd)
    is_testable = np.isfinite(mean + error) & ~is_short
    significant, level = _holm(p_values(mean, error, degrees), is_testable)
    within = np.abs(mean) + _one_sided(degrees, EQUIVALENCE_ALPHA) * error
    calls = np.select(
        [
            ~np.isfinite(mean),
            is_short,
            significant & (mean > 0),
            significant,
            within <= math.log1p(limits.min_effect_pct / 100),
        ],
        ["", TOO_NOISY, *words, NOT_SHOWN],
        TOO_NOISY,
    )
    with np.errstate(over="ignore"):
        return table.assign(
            call=calls,
            detectable=np.exp(detectable_effect(error, degrees, level)),
            within=np.exp(within),
        )


def calls_of(
    estimates: Sequence[Estimate], has_duplicates: bool, words: tuple[str, str], limits: Limits
) -> list[str]:
    """Correct ratios together, by their errors (Noise.with_error)."""
    duplicate_sd = 0.0 if has_duplicates else math.nan
    rows = [(e.value, e.n, e.error, e.degrees, duplicate_sd) for e in estimates]
    table = pd.DataFrame(rows, columns=["ratio", "n", "error", "degrees", "twin_sd"])
    return [str(call) for call in add_calls(table, words, limits)["call"]]


def detectable_effect(
    error: float | np.ndarray, degrees: float | np.ndarray, level: float = ALPHA
) -> np.ndarray:
    return (_one_sided(degrees, level / 2) + _one_sided(degrees, 1 - POWER)) * error


def holm_level(remaining: int) -> float:
    """Return the level of each comparison of a table while so many are not called a difference."""
    return min(ALPHA, TABLE_ALPHA / max(remaining, 1))


def _one_sided(degrees: float | np.ndarray, chance: float) -> np.ndarray:
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(degrees, chance))


def p_values(mean: np.ndarray, error: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    return np.asarray(2 * stdtr(degrees, -t))


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
    if len(pairs) < MIN_COUNT_ROUNDS or (sides != sides.iloc[0]).to_numpy().any():
        return None
    quotient = float(pairs["quotient"].iloc[0])
    return Estimate(quotient, quotient, quotient, len(pairs), 0.0, len(pairs) - 1)


def call_exact_rows(table: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    low, high, ratios = (table[name].astype(float) for name in ("low", "high", "ratio"))
    constant = np.isfinite(low) & (low == high)
    calls = table["call"].mask(constant & (ratios > 1), metric.calls[0])
    calls = calls.mask(constant & (ratios < 1), metric.calls[1])
    near = np.abs(np.log(ratios)) <= math.log1p(COUNT_TOLERANCE)
    without_noise = [_without(words, NOISE_FLAGS) for words in table["flags"]]
    return table.assign(
        call=calls.mask(near & (constant | calls.map(is_difference)), NOT_SHOWN),
        detectable=table["detectable"].mask(constant, 1.0),
        flags=table["flags"].mask(constant, without_noise),
    )


def without_time_flags(table: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    if not metric.exact:
        return table
    return table.assign(flags=[_without(words, TIME_FLAGS) for words in table["flags"]])


def _without(words: str, excluded: set[str]) -> str:
    return flags.joined(word for word in words.split() if word not in excluded)

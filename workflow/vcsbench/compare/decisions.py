"""Which differences are called one: faster, slower, or why neither is said.

The rule, for all comparisons of one table together. A comparison is called where

1. its 95 % interval (paired t on log ratios over rounds) excludes 1, for it is significant on its own
   at EACH and among all of the table, by Holm's procedure, at TABLE; and
2. its ratio exceeds the noise floor of the cells it compares, either way.

docs/statistics.md shows what comes of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from vcsbench.compare.intervals import ENOUGH_ROUNDS, Estimate, detectable, t_quantile
from vcsbench.evidence import flags

# The chance of a false call that is allowed of a single comparison, and of any in a whole table.
EACH = 0.01
TABLE = 0.05
# What difference is worth noting, in per cent, where the configuration does not say (`notable_pct`).
NOTABLE_PCT = 10.0

FASTER = "faster"
SLOWER = "slower"
NOT_SHOWN = "no difference shown"
TOO_NOISY = "too noisy to say"

MEANINGS = {
    FASTER: "the candidate took less time: the interval excludes 1 after Holm's correction for all "
    "comparisons of the table, and the ratio exceeds the noise floor",
    SLOWER: "the candidate took more time, in the same sense",
    NOT_SHOWN: "a difference worth noting (`notable_pct`) would have been seen, and was not",
    TOO_NOISY: "even a difference worth noting might not have been seen: measure more rounds; so under "
    f"{ENOUGH_ROUNDS} rounds, and where the noise floor is not known",
}


def is_difference(call: str) -> bool:
    """Whether a call says that the two differ."""
    return call in (FASTER, SLOWER)


def with_calls(table: pd.DataFrame, notable_pct: float) -> pd.DataFrame:
    """The table with the columns call and detectable; all of its rows are one family.

    It has ratio, low, high, n and noise_floor (a ratio >= 1, NaN where it is not known). `call` is of
    the candidate; "" where there is no ratio. `detectable` is the smallest ratio that would have been
    called in 9 of 10 such experiments, at the level that the row was held to.
    """
    mean, n = np.log(table["ratio"].to_numpy(float)), table["n"].to_numpy(float)
    floor = np.log(table["noise_floor"].to_numpy(float))
    error = _errors(table["low"].to_numpy(float), table["high"].to_numpy(float), n)
    judged = np.isfinite(mean) & np.isfinite(error) & (n >= ENOUGH_ROUNDS)
    significant, level = _holm(_p_values(mean, error, n), judged)
    called = significant & (np.abs(mean) > floor)
    # Rows of the same number of rounds and level share the two quantiles that take time.
    smallest = np.array(
        [
            detectable(e, int(k) - 1, f, level) if math.isfinite(e) and k > 1 else math.nan
            for e, k, f in zip(error, n, floor, strict=True)
        ]
    )
    calls = np.select(
        [
            ~np.isfinite(mean),
            (n < ENOUGH_ROUNDS) | np.isnan(floor),
            called & (mean > 0),
            called,
            smallest <= math.log1p(notable_pct / 100),
        ],
        ["", TOO_NOISY, FASTER, SLOWER, NOT_SHOWN],
        TOO_NOISY,
    )
    return table.assign(call=calls, detectable=np.exp(smallest))


def with_unknown_noise(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the flag `noise-unknown` where a ratio has no noise floor."""
    unknown = table["noise_floor"].isna() & table["ratio"].notna()
    words = [
        flags.joined([*own.split(), "noise-unknown"]) if without else own
        for own, without in zip(table["flags"], unknown, strict=True)
    ]
    return table.assign(flags=words)


def call_all(
    estimates: Sequence[Estimate], floors: Sequence[float], notable_pct: float
) -> list[str]:
    """The calls of ratios that make up one family, with the noise floor of each."""
    columns = ["ratio", "low", "high", "n"]
    rows = [(e.value, e.low, e.high, e.n) for e in estimates]
    table = pd.DataFrame(rows, columns=columns).assign(noise_floor=list(floors))
    return [str(call) for call in with_calls(table, notable_pct)["call"]]


def _errors(low: np.ndarray, high: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The standard errors that the intervals were made of; NaN without an interval."""
    quantiles = np.array([t_quantile(int(k) - 1) if k > 1 else math.nan for k in n])
    return np.asarray((np.log(high) - np.log(low)) / 2 / quantiles)


def _p_values(mean: np.ndarray, error: np.ndarray, n: np.ndarray) -> np.ndarray:
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    return np.asarray(2 * stdtr(n - 1, -t))


def _holm(p: np.ndarray, judged: np.ndarray) -> tuple[np.ndarray, float]:
    """Which are significant, and the level that those which are not were held to."""
    significant = np.zeros(len(p), dtype=bool)
    order = [i for i in np.argsort(p, kind="stable") if judged[i]]
    for done, i in enumerate(order):
        level = min(EACH, TABLE / (len(order) - done))
        if not p[i] <= level:
            return significant, level
        significant[i] = True
    return significant, EACH

"""Which differences are called one: better, worse, or why neither is said.

The rule, for all comparisons of one table together, its family. A comparison is called where

1. its 95 % interval (paired t on log ratios over rounds) excludes 1, for it is significant on its own
   at EACH and among all of the table, by Holm's procedure, at TABLE; and
2. its ratio exceeds the noise floor of the cells it compares, either way.

Neither, there is `no difference shown` where a difference worth noting would have been seen, and else it
is `too noisy to say`; so too with too few rounds, and where the noise floor is not known.
docs/statistics.md shows what comes of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from vcsbench.compare.decisions import NOT_SHOWN, TOO_NOISY, Limits
from vcsbench.compare.intervals import Estimate, detectable, t_quantile
from vcsbench.evidence import flags

# The chance of a false call that is allowed of a single comparison, and of any in a whole table.
EACH = 0.01
TABLE = 0.05


def with_calls(table: pd.DataFrame, words: tuple[str, str], limits: Limits) -> pd.DataFrame:
    """The table with the columns call and detectable; all of its rows are one family.

    It has ratio, low, high, n and noise_floor (a ratio >= 1, NaN where it is not known). `call` is of
    the candidate, `words` what it is called with a ratio above 1 and with one below; "" where there is no
    ratio. `detectable` is the smallest ratio that would have been called in 9 of 10 such experiments, at
    the level that the row was held to.
    """
    mean, n = np.log(table["ratio"].to_numpy(float)), table["n"].to_numpy(float)
    floor = np.log(table["noise_floor"].to_numpy(float))
    error = _errors(table["low"].to_numpy(float), table["high"].to_numpy(float), n)
    few = n < limits.enough_rounds
    significant, level = _holm(_p_values(mean, error, n), _known(mean) & _known(error) & ~few)
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
            ~_known(mean),
            few | np.isnan(floor),
            called & (mean > 0),
            called,
            smallest <= math.log1p(limits.notable_pct / 100),
        ],
        ["", TOO_NOISY, *words, NOT_SHOWN],
        TOO_NOISY,
    )
    return table.assign(call=calls, detectable=np.exp(smallest))


def with_unknown_noise(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the flag `noise-unknown` where a ratio has no noise floor."""
    unknown = table["noise_floor"].isna() & table["ratio"].notna()
    pairs = zip(table["flags"], unknown, strict=True)
    return table.assign(flags=[flags.also(own, "noise-unknown", without) for own, without in pairs])


def call_all(
    estimates: Sequence[Estimate], floors: Sequence[float], words: tuple[str, str], limits: Limits
) -> list[str]:
    """The calls of ratios that make up one family, with the noise floor of each."""
    columns = ["ratio", "low", "high", "n"]
    rows = [(e.value, e.low, e.high, e.n) for e in estimates]
    table = pd.DataFrame(rows, columns=columns).assign(noise_floor=list(floors))
    return [str(call) for call in with_calls(table, words, limits)["call"]]


def _known(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.isfinite(values))


def _errors(low: np.ndarray, high: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The standard errors that the intervals were made of; NaN without an interval."""
    quantiles = np.array([t_quantile(int(k) - 1) if k > 1 else math.nan for k in n])
    return np.asarray((np.log(high) - np.log(low)) / 2 / quantiles)


def _p_values(mean: np.ndarray, error: np.ndarray, n: np.ndarray) -> np.ndarray:
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    return np.asarray(2 * stdtr(n - 1, -t))


def _holm(p: np.ndarray, counted: np.ndarray) -> tuple[np.ndarray, float]:
    """Which are significant, and the level that those which are not were held to."""
    significant = np.zeros(len(p), dtype=bool)
    order = [i for i in np.argsort(p, kind="stable") if counted[i]]
    for done, i in enumerate(order):
        level = min(EACH, TABLE / (len(order) - done))
        if not p[i] <= level:
            return significant, level
        significant[i] = True
    return significant, EACH

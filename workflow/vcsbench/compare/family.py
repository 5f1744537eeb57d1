"""Which differences are called one: better, worse, the same, or why neither is said.

The rule, for all comparisons of one table together, its family, by the errors that noise gives them:

- *faster* or *slower* (or what the metric says) where a comparison is significant on its own at EACH, and
  among all of the family, by Holm's procedure, at TABLE;
- else *no difference shown* where it is shown to be smaller than what is worth noting, either way: two
  one-sided tests at ALIKE;
- else *too noisy to say*; so too with too few rounds, and where the noise of twins is not known.

docs/statistics.md shows what comes of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare.decisions import NOT_SHOWN, TOO_NOISY, Limits
from vcsbench.compare.intervals import POWER, Estimate
from vcsbench.evidence import flags

# The chance of a false call that is allowed of a single comparison, and of any in a whole table: no more than
# the 1 in 200 and the 1 in 20 that are promised, and less of a single one, for errors are learned, and rounds
# may be added until intervals are narrow.
EACH = 0.0035
TABLE = 0.05
# The chance that what differs by as much as is worth noting is said not to: less than 1 in 20, too.
ALIKE = 0.045


def with_calls(table: pd.DataFrame, words: tuple[str, str], limits: Limits) -> pd.DataFrame:
    """The table with the columns call, detectable and within; all of its rows are one family.

    It has ratio, n, and error and degrees (of the ratio's logarithm) and twin_sd (NaN where the noise of
    twins is not known). `call` is of the candidate, `words` what it is called with a ratio above 1 and with
    one below; "" where there is no ratio. `detectable` is the smallest ratio that would have been called in 9
    of 10 such experiments, at the level that the row was held to; `within` what the two differ by at
    most (ratios of at least 1, either way).
    """
    ratio, n, error, degrees, twin_sd = (
        table[name].to_numpy(float) for name in ("ratio", "n", "error", "degrees", "twin_sd")
    )
    mean = np.log(ratio)
    few = (n < limits.min_rounds) | np.isnan(twin_sd)
    significant, level = _holm(p_values(mean, error, degrees), np.isfinite(mean + error) & ~few)
    within = np.abs(mean) + _one_sided(degrees, ALIKE) * error
    calls = np.select(
        [
            ~np.isfinite(mean),
            few,
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
            detectable=np.exp(detectable(error, degrees, level)),
            within=np.exp(within),
        )


def with_unknown_noise(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the flag `noise-unknown` where what twins make of a ratio is not known."""
    unknown = table["twin_sd"].isna() & table["ratio"].notna()
    pairs = zip(table["flags"], unknown, strict=True)
    return table.assign(flags=[flags.also(own, "noise-unknown", without) for own, without in pairs])


def call_all(
    estimates: Sequence[Estimate], twins_known: bool, words: tuple[str, str], limits: Limits
) -> list[str]:
    """The calls of ratios that make up one family, by their errors (Noise.judged)."""
    columns = ["ratio", "n", "error", "degrees"]
    rows = [(e.value, e.n, e.error, e.degrees) for e in estimates]
    table = pd.DataFrame(rows, columns=columns).assign(twin_sd=0.0 if twins_known else math.nan)
    return [str(call) for call in with_calls(table, words, limits)["call"]]


def detectable(error: Any, degrees: Any, level: float = EACH) -> Any:
    """The smallest difference, as a logarithm, that is called one in 9 of 10 experiments with such errors,
    where it is held to a level. Numbers, or arrays."""
    return (_one_sided(degrees, level / 2) + _one_sided(degrees, 1 - POWER)) * error


def level_among(left: int) -> float:
    """What each of so many comparisons of a table that are not called yet is held to, by Holm's procedure."""
    return min(EACH, TABLE / max(left, 1))


def _one_sided(degrees: Any, chance: float) -> np.ndarray:
    """What Student's t exceeds with this chance."""
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(degrees, chance))


def p_values(mean: np.ndarray, error: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """The chance of means as large, either way, where there is no difference."""
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    return np.asarray(2 * stdtr(degrees, -t))


def _holm(p: np.ndarray, counted: np.ndarray) -> tuple[np.ndarray, float]:
    """Which are significant, and the level that those which are not were held to."""
    significant = np.zeros(len(p), dtype=bool)
    order = [i for i in np.argsort(p, kind="stable") if counted[i]]
    for done, i in enumerate(order):
        level = level_among(len(order) - done)
        if not p[i] <= level:
            return significant, level
        significant[i] = True
    return significant, EACH

"""What exact metrics need of comparisons: counts that are the same in every round have no noise.

Such a ratio is its own interval, from ENOUGH rounds on, and takes no twins to be told from noise. Where
counts vary, as httpd's do, they are numbers with noise like any other. Either way what differs by no more
than SAME_WITHIN is called no difference: who reads a hundredth less does the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare.columns import is_exact
from vcsbench.compare.decisions import NOT_SHOWN, is_difference
from vcsbench.compare.intervals import Estimate
from vcsbench.evidence import flags
from vcsbench.metrics import Metric

ENOUGH = 2
SAME_WITHIN = 0.01
# Flags of what counts do not depend on: how a number scatters where it does not, and a run's time.
OF_NOISE = frozenset(["low-n", "noise-unknown"])
OF_TIMES = frozenset(
    [
        "off-10",
        "off-20",
        "short",
        "mostly-fixed-cost",
        "saturated",
        "mean-cpu",
        "disturbed",
        "cpu-busy",
        "throttled",
    ]
)


def ratio(metric: Metric, pairs: pd.DataFrame) -> Estimate | None:
    """The ratio of two cells' counts from their paired rounds (reduction.paired, with the `quotient`); None
    where they vary."""
    sides = pairs[[f"{metric.name}_baseline", f"{metric.name}_candidate"]]
    if len(pairs) < ENOUGH or (sides != sides.iloc[0]).to_numpy().any():
        return None
    quotient = float(pairs["quotient"].iloc[0])
    return Estimate(quotient, quotient, quotient, len(pairs), 0.0, len(pairs) - 1)


def called(
    table: pd.DataFrame, metric: Metric, call: Callable[[pd.DataFrame], pd.DataFrame]
) -> pd.DataFrame:
    """A table of ratios with its calls: as `call` makes them, but for those of counts that do not vary, which
    need no more than their ratio."""
    made = call(table)
    if not metric.exact:
        return made
    rows: list[dict[Any, Any]] = made.to_dict("records")
    same = pd.Series([is_exact(row) for row in rows], index=made.index, dtype=bool)
    ratios = made["ratio"].astype(float)
    calls = made["call"].mask(same & (ratios > 1), metric.calls[0])
    calls = calls.mask(same & (ratios < 1), metric.calls[1])
    near = np.abs(np.log(ratios)) <= math.log1p(SAME_WITHIN)
    return made.assign(
        call=calls.mask(near & (same | calls.map(is_difference)), NOT_SHOWN),
        detectable=made["detectable"].mask(same, 1.0),
        flags=made["flags"].mask(same, made["flags"].map(_without_noise)),
    )


def without_times(table: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """The table without those flags that say something of a run's time only, where the metric is none of
    times."""
    if not metric.exact:
        return table
    return table.assign(flags=[_without(words, OF_TIMES) for words in table["flags"]])


def _without_noise(words: str) -> str:
    return _without(words, OF_NOISE)


def _without(words: str, left_out: frozenset[str]) -> str:
    return flags.joined(word for word in words.split() if word not in left_out)

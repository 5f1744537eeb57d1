"""Compute how much less time a revision takes than when the study was published, cold and warm.

A disk serves only cold runs. If cold results shrank more than warm ones, the storage explains a difference
first. In the study of 2014, a cold log took 9.2 ms for each revision, and takes 0.28 ms on a solid-state
disk: 33 times less. The warm log takes 4.6 times less, which processors and newer versions explain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import CACHE_AXIS
from vcsbench.metrics import DEFAULT_METRIC


@dataclass(frozen=True)
class Shrinkage:
    """Published time / measured time for the same amount of work, as geometric means over equal cells.

    `cold` is over the cells with cold caches, `warm` over all others; NaN without such a cell.
    """

    cold: float = math.nan
    warm: float = math.nan

    @property
    def is_known(self) -> bool:
        return math.isfinite(self.cold) and math.isfinite(self.warm)

    def is_of_storage(self, margin: float) -> bool:
        """Return True if cold results shrank more than warm ones, by the margin (such as 1.1)."""
        # A comparison with NaN is False: without both numbers, nothing is known.
        return self.cold > self.warm * margin


NO_SHRINKAGE = Shrinkage()


def shrinkage_of(
    published: pd.DataFrame,
    measured: pd.DataFrame,
    axes: Sequence[str],
    subject_axis: str,
    shares: Mapping[str, float],
) -> Shrinkage:
    """Return how many times less time cells take than published, for the same amount of work.

    Only cells count that are in both frames. The frames have a row per cell and round with the columns `axes`
    and elapsed_s; a cell's time is the mean of its rows. `subject_axis` is the axis of repositories, ""
    without one. `shares` has the measured share of each published repository: with `{"ruby": 0.12}`, only 12
    % of its revisions were measured, which should take 12 % of the published time. Other repositories have
    the share 1.

    Example: 10 s were published and 0.4 s measured, at the share 0.12. The time is 10 x 0.12 / 0.4 = 3 times
    less. Without an axis of caches, both numbers are NaN, because cold and warm cells cannot be separated.
    """
    if CACHE_AXIS not in axes:
        return Shrinkage()
    keys = list(axes)
    before = published.groupby(keys)[DEFAULT_METRIC].mean().rename("published").reset_index()
    now = measured.groupby(keys)[DEFAULT_METRIC].mean().rename("measured").reset_index()
    cells = before.merge(now, on=keys)
    if subject_axis:
        share = cells[subject_axis].map(shares).astype(float).fillna(1.0)
    else:
        share = pd.Series(1.0, index=cells.index)
    # The published time is for all revisions, the measured one for a share of them.
    factor = cells["published"] * share / cells["measured"]
    # A time of 0 is a short one that was rounded. It has no quotient, and its cell does not count.
    is_number = np.isfinite(factor) & (factor > 0)
    cells = cells.assign(log=np.log(factor.where(is_number)))
    is_cold = cells[CACHE_AXIS].map(lambda name: cache_state(name).is_cold).astype(bool)
    return Shrinkage(
        cold=_geometric_mean(cells["log"][is_cold]), warm=_geometric_mean(cells["log"][~is_cold])
    )


def _geometric_mean(logs: pd.Series) -> float:
    """Return exp(mean), NaN without any number."""
    return float(np.exp(logs.mean()))

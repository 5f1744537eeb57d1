"""Columns of tables, the calls and results of comparisons, and the limits of a conclusion.

This module imports neither numpy nor pandas, because rules and pages import it first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from vcsbench import words
from vcsbench.evidence.flags import DECIDING_SHARE

if TYPE_CHECKING:
    from vcsbench.config.configuration import Config

Value = TypeVar("Value")

SIDES = ("baseline", "candidate")
STATISTIC, MEDIAN = "statistic", "median"
# `withheld` has the reason if measured cells are not compared. `fixed_share` is the larger of both sides.
STATISTICS = ("ratio", "low", "high", "n", "flags", "withheld", "fixed_share")
# Standard error and degrees of freedom of ln ratio, and standard deviation between duplicates.
ERROR = ("error", "degrees", "twin_sd")
# `detectable` is the smallest ratio that would have been called, `within` the largest that is possible.
CALL = ("call", *ERROR, "detectable", "within")
NUMBERS = ("value", "ratio", "low", "high", "n", "fixed_share", *ERROR, "detectable", "within")
_FACTS = {"table", "baseline", "value", *STATISTICS, *CALL}

# Calls of a comparison that is no difference, as CSV files have them, and their labels.
# The calls of differences are of their metric.
NOT_SHOWN = "no difference shown"
TOO_NOISY = "too noisy to say"
CALL_LABELS = {NOT_SHOWN: "equal", TOO_NOISY: "undecided"}

TOO_SMALL = "too small to compare"
# The results of a comparison, as all counts have them. The first two are answers.
DIFFERENT, EQUAL, UNDECIDED = "different", "equal", "undecided"
RESULTS = (DIFFERENT, EQUAL, TOO_SMALL, UNDECIDED)

ALL_DECIDED, TIME_IS_UP, UNREACHABLE = "answered", "time is up", "more rounds tell nothing"

# In per cent. From here on, more than the 13 rounds of a default run are needed to show that a difference of
# 5 % is below 10 %.
NOISY_PCT = 6.0


@dataclass(frozen=True)
class Limits:
    """Limits from which a conclusion is drawn.

    A difference below `min_effect_pct` is not worth noting; on a noisy machine the limit is at least
    `min_effect_pct_if_noisy`. Comparisons with fewer than `min_rounds` have the flag `low-n` and no call.
    """

    min_effect_pct: float = 10.0
    min_effect_pct_if_noisy: float = 15.0
    min_rounds: int = 5

    @classmethod
    def of(cls, config: Config) -> Limits:
        settings = config.settings
        return cls(settings.min_effect_pct, settings.min_effect_pct_if_noisy, config.least_rounds)

    def on_machine(self, scatter: float) -> Limits:
        if not scatter_pct(scatter) > NOISY_PCT:
            return self
        return replace(self, min_effect_pct=max(self.min_effect_pct, self.min_effect_pct_if_noisy))


DEFAULT_LIMITS = Limits()


def scatter_pct(scatter: float) -> float:
    return 0.0 if math.isnan(scatter) else 100 * math.expm1(scatter)


def is_difference(call: str) -> bool:
    return call not in ("", NOT_SHOWN, TOO_NOISY)


def result_of(row: Mapping[Any, Any]) -> str:
    """Return the result of a comparison. It is too small to compare if it is mostly fixed cost."""
    share, call = row.get("fixed_share"), row.get("call") or ""
    if words.is_number(share) and share > DECIDING_SHARE:
        return TOO_SMALL
    return DIFFERENT if is_difference(call) else EQUAL if call == NOT_SHOWN else UNDECIDED


def columns(keys: Sequence[str]) -> list[str]:
    return ["table", *keys, "baseline", "candidate", "value", *STATISTICS, *CALL]


def is_exact(row: Mapping[str, object]) -> bool:
    """Return True if the ratio is of counts that were equal in every round."""
    return words.is_number(row["low"]) and row["low"] == row["high"]


def keys_of(row: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in row.items() if name not in _FACTS}

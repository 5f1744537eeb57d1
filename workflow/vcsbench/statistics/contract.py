"""Columns, calls, verdicts and limits that other folders read.

This module imports neither numpy nor pandas, because rules and pages import it first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from vcsbench.words import is_number

if TYPE_CHECKING:
    from vcsbench.config.configuration import Config

Value = TypeVar("Value")

# Column of published numbers that names the statistic of their runs. It is no axis.
STATISTIC = "statistic"
# `withheld` has the reason if measured cells are not compared. `fixed_share` is the share of fixed cost in
# the time, the larger of both sides. Published numbers have a value alone, because their rounds are
# unknown.
STATISTICS = ("ratio", "low", "high", "n", "flags", "withheld", "fixed_share")
# Standard error and degrees of freedom of ln ratio, and standard deviation between duplicates.
ERROR = ("error", "degrees", "twin_sd")
# `detectable` is the smallest ratio that would have been called, `within` the largest that is possible.
CALL = ("call", *ERROR, "detectable", "within")
NUMBERS = ("value", "ratio", "low", "high", "n", "fixed_share", *ERROR, "detectable", "within")
# `over` is the reduction of the measured value: `median of 8 cells`. `why` has the reasons of the verdict.
OF_FINDINGS = [
    *["id", "statement", "published", "measured", "low", "high", "unit", "over"],
    *["expected", "verdict", "why"],
]
OF_EXPECTATIONS = [*OF_FINDINGS, "passes"]
_FACTS = {"table", "baseline", "value", *STATISTICS, *CALL}

# Calls of a comparison that is no difference; differences have the words of their metric.
NOT_SHOWN = "no difference shown"
TOO_NOISY = "too noisy to say"

REPRODUCED, DIFFERS = "reproduced", "differs"
INCONCLUSIVE, NOT_MEASURED = "inconclusive", "not measured"
TOO_SMALL = "too small to compare"

# Reasons to stop a run with minutes.
ALL_DECIDED, TIME_IS_UP, UNREACHABLE = "answered", "time is up", "more rounds tell nothing"

# A machine is noisy if single runs of a cell scatter by more, in per cent. From here on, more rounds
# than the 13 of a default run are needed to show that a difference of 5 % is below 10 %.
NOISY_PCT = 6.0


@dataclass(frozen=True)
class Limits:
    """Limits of the configuration from which a conclusion is drawn.

    A difference below `min_effect_pct` is not worth noting; on a noisy machine the limit is at least
    `min_effect_pct_if_noisy`. Comparisons with fewer than `min_rounds` have the flag `low-n` and no call.
    """

    min_effect_pct: float = 10.0
    min_effect_pct_if_noisy: float = 15.0
    min_rounds: int = 5

    @classmethod
    def of(cls, config: Config) -> Limits:
        """Return the limits of a configuration."""
        settings = config.settings
        return cls(settings.min_effect_pct, settings.min_effect_pct_if_noisy, config.least_rounds)

    def on_machine(self, scatter: float) -> Limits:
        """Return the limits on a machine whose runs scatter by this much (NaN if unknown)."""
        if not scatter_pct(scatter) > NOISY_PCT:
            return self
        return replace(self, min_effect_pct=max(self.min_effect_pct, self.min_effect_pct_if_noisy))


DEFAULT_LIMITS = Limits()


def scatter_pct(scatter: float) -> float:
    """Return the standard deviation of a logarithm in per cent; 0 if unknown."""
    return 0.0 if math.isnan(scatter) else 100 * math.expm1(scatter)


def is_difference(call: str) -> bool:
    """Return True if a call is a difference, in the words of any metric."""
    return call not in ("", NOT_SHOWN, TOO_NOISY)


def columns(keys: Sequence[str]) -> list[str]:
    """Return all columns of a table in order; `keys` identify its rows."""
    return ["table", *keys, "baseline", "candidate", "value", *STATISTICS, *CALL]


def is_exact(row: Mapping[str, object]) -> bool:
    """Return True if the ratio is of counts that were equal in every round."""
    return is_number(row["low"]) and row["low"] == row["high"]


def keys_of(row: Mapping[str, Value]) -> dict[str, Value]:
    """Return the axes and other keys of a row, its candidate among them."""
    return {name: value for name, value in row.items() if name not in _FACTS}


def values_of(selected: object) -> list[str]:
    """Return the values of an axis in a definition: a single value, or a list."""
    return [str(value) for value in (selected if isinstance(selected, list) else [selected])]


def matches_cell(cell: Mapping[str, str], where: Mapping[str, object]) -> bool:
    """Return True if a cell is selected by `where`; axes that the cell lacks are ignored."""
    return all(cell[a] in values_of(selected) for a, selected in where.items() if a in cell)

"""The columns of a table, which measured and published ones have alike, and of verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vcsbench.words import is_number

# What a row says beside its axes. Empty for published numbers but for the value: their rounds are
# not known. A table that compares nothing has no ratio and so no interval: its runs are in the
# measurements. `withheld` says why cells that were measured are not compared, "" where they are.
# `fixed_share` is the share of fixed cost in the cell's time, the larger of both sides.
STATISTICS = ("ratio", "low", "high", "n", "flags", "withheld", "fixed_share")
# Whether it is a difference (family), what that rests on (noise; of ln ratio), how small a one could have
# been told from noise, and how large a one there is at most.
ERROR = ("error", "degrees", "twin_sd")
CALL = ("call", *ERROR, "detectable", "within")
# All that are numbers.
NUMBERS = ("value", "ratio", "low", "high", "n", "fixed_share", *ERROR, "detectable", "within")
# Of a finding `why` says in words what made its verdict inconclusive, and what else it stands on; `unit` is
# that of all its numbers, `over` of how many cells the measured one is the median, the least or the greatest.
OF_FINDINGS = [
    *["id", "statement", "published", "measured", "low", "high", "unit", "over"],
    *["expected", "verdict", "why"],
]
# `passes` is `yes` or `no`: what `check` makes of the verdict.
OF_EXPECTATIONS = [*OF_FINDINGS, "passes"]
_FACTS = {"table", "baseline", "value", *STATISTICS, *CALL}


def columns(keys: Sequence[str]) -> list[str]:
    """All columns of a table whose rows `keys` tell apart, in order."""
    return ["table", *keys, "baseline", "candidate", "value", *STATISTICS, *CALL]


def is_exact(row: Mapping[Any, Any]) -> bool:
    """Whether the ratio of a row is of counts that were the same in every round (compare.exact)."""
    return is_number(row["low"]) and row["low"] == row["high"]


def keys_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What tells a row from the others: its axes, what stands beside them, and its candidate."""
    return {name: value for name, value in row.items() if name not in _FACTS}

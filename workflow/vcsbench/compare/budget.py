"""What a run's minutes are given to: the decision after each pass, and what became of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from vcsbench.compare import answers
from vcsbench.compare.allotment import allot, outlook
from vcsbench.compare.answers import Comparison, Terms
from vcsbench.compare.decisions import (
    ANSWERED,
    NEVER,
    NOT_SHOWN,
    TIME_IS_UP,
    Limits,
    is_difference,
    scatter_pct,
)
from vcsbench.evidence.spent import Spent

# A pass takes half of what is left, for the next one knows more; but no less than this, for each decision
# takes seconds.
SHORTEST_PASS_S = 60.0
# What comes after the last cell-round, and before the first thing that is recorded: Snakemake's start, tables
# and report.
AROUND_S = 25.0
AROUND_PER_CELL_ROUND_S = 0.01


def left_s(seconds: float, spent: Spent, cell_rounds: int, set_up_s: float = 0.0) -> float:
    """What is left of a budget for measuring; `set_up_s` is what the set-up took before this run."""
    return seconds - set_up_s - spent.total_s - AROUND_S - AROUND_PER_CELL_ROUND_S * cell_rounds


def decided(
    tables: Sequence[pd.DataFrame],
    terms: Terms,
    spent: Spent,
    left: float,
    steering: Sequence[Comparison] = (),
) -> tuple[Counter[str], str]:
    """The same as given(), from the tables themselves. What is `steering` (asked.asked) has a say in where
    rounds go, as long as tables want any."""
    found = answers.comparisons(tables, terms)
    return given(found if over(found) else [*found, *steering], spent, left)


def over(comparisons: Sequence[Comparison]) -> str:
    """Why no more rounds are wanted, however much time there is; "" where some are."""
    unsettled = [one for one in comparisons if not one.settled]
    if not unsettled:
        return ANSWERED
    return "" if any(one.wanted < math.inf for one in unsettled) else NEVER


def given(comparisons: Sequence[Comparison], spent: Spent, left: float) -> tuple[Counter[str], str]:
    """The rounds that each block is given in the next pass of so many seconds that are left; or none, and
    why."""
    for seconds in (min(left, max(left / 2, SHORTEST_PASS_S)), left):
        if rounds := allot(comparisons, spent.round_s, seconds):
            return rounds, ""
    return Counter(), over(comparisons) or TIME_IS_UP


def account(
    comparisons: Sequence[Comparison],
    spent: Spent,
    cell_rounds: int,
    limits: Limits,
    scatter: float,
) -> dict[str, Any]:
    """What the minutes went to, what they have answered, and what more of them would. `limits` are those of
    the configuration, `scatter` what runs scatter by here (scatter.of_runs)."""
    return {
        "spent_s": {
            "preparation": round(spent.preparation_s, 1),
            "measuring": round(spent.measuring_s, 1),
            "waiting": round(spent.waiting_s, 1),
        },
        "timed_s": round(spent.timed_s, 1),
        "around_s": AROUND_S + AROUND_PER_CELL_ROUND_S * cell_rounds,
        "min_effect_pct": limits.on_machine(scatter).min_effect_pct,
        "noisy": _noisy(comparisons, limits, scatter),
        "blocks": [_of_block(name, comparisons, spent) for name in spent.blocks],
        "tables": {
            name: _counts([one for one in comparisons if one.table == name])
            for name in dict.fromkeys(one.table for one in comparisons)
        },
        "outlook": [
            {"seconds": round(seconds, 1), "left": left}
            for seconds, left in outlook(comparisons, spent.round_s)
        ],
    }


def _noisy(
    comparisons: Sequence[Comparison], limits: Limits, scatter: float
) -> dict[str, float] | None:
    """What the machine's noise makes of what is worth noting, and how many comparisons show no difference of
    what is worth noting elsewhere; None where it makes nothing of it."""
    if limits.on_machine(scatter) == limits:
        return None
    closely = sum(
        one.call == NOT_SHOWN and one.within <= 1 + limits.min_effect_pct / 100
        for one in comparisons
    )
    return {
        "scatter_pct": scatter_pct(scatter),
        "elsewhere_pct": limits.min_effect_pct,
        "alike": closely,
    }


def _of_block(name: str, comparisons: Sequence[Comparison], spent: Spent) -> dict[str, Any]:
    block = spent.blocks[name]
    return {
        "block": name,
        "rounds": block.rounds,
        "seconds": round(block.seconds, 1),
        **_counts([one for one in comparisons if name in one.blocks]),
    }


def _counts(comparisons: Sequence[Comparison]) -> Mapping[str, int]:
    return {
        "comparisons": len(comparisons),
        "different": sum(one.answered and is_difference(one.call) for one in comparisons),
        "alike": sum(one.answered and not is_difference(one.call) for one in comparisons),
        "settled": sum(one.settled for one in comparisons),
    }

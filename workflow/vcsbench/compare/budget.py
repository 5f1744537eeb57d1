"""What a run's minutes are given to: the decision after each pass, and what became of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from vcsbench.compare import answers
from vcsbench.compare.allotment import allot, outlook
from vcsbench.compare.answers import Comparison, Terms
from vcsbench.compare.decisions import ANSWERED, NEVER, TIME_IS_UP, is_difference
from vcsbench.evidence.spent import Spent

# A pass takes half of what is left, for the next one knows more; but no less than this, for each decision
# takes seconds.
SHORTEST_PASS_S = 60.0
# What comes after the last cell-round, and before the first thing that is recorded: Snakemake's start, tables
# and report.
AROUND_S = 25.0
AROUND_PER_CELL_ROUND_S = 0.01

# Where single runs of a cell scatter by more than that, rounds go first where they answer most with a wider
# margin, and it is said as well what is answered with it. In per cent.
NOISY_PCT, WIDE_PCT = 8.0, 15.0


def left_s(seconds: float, spent: Spent, cell_rounds: int, set_up_s: float = 0.0) -> float:
    """What is left of a budget for measuring; `set_up_s` is what the set-up took before this run."""
    return seconds - set_up_s - spent.total_s - AROUND_S - AROUND_PER_CELL_ROUND_S * cell_rounds


def decided(
    tables: Sequence[pd.DataFrame],
    terms: Terms,
    spent: Spent,
    left: float,
    steering: Sequence[Comparison] = (),
    scatter: float = math.nan,
) -> tuple[Counter[str], str]:
    """The same as given(), from the tables themselves: where runs scatter much (`scatter`, as scatter.of_runs
    has it), to what only a wide margin answers first. What is `steering` (asked.asked) has a say in where
    they go, as long as tables want any."""
    found = answers.comparisons(tables, terms)
    if _pct(scatter) > NOISY_PCT and terms.limits.notable_pct < WIDE_PCT:
        wide = replace(terms, limits=replace(terms.limits, notable_pct=WIDE_PCT))
        widely = answers.comparisons(tables, wide)
        found = found if over(widely) == ANSWERED else widely
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
    comparisons: Sequence[Comparison], spent: Spent, cell_rounds: int, scatter: float = math.nan
) -> dict[str, Any]:
    """What the minutes went to, what they have answered, and what more of them would; `scatter` as decided()
    has it."""
    return {
        "spent_s": {
            "preparation": round(spent.preparation_s, 1),
            "measuring": round(spent.measuring_s, 1),
            "waiting": round(spent.waiting_s, 1),
        },
        "around_s": AROUND_S + AROUND_PER_CELL_ROUND_S * cell_rounds,
        "wide": _wide(comparisons, _pct(scatter)),
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


def _pct(scatter: float) -> float:
    return 0.0 if math.isnan(scatter) else 100 * math.expm1(scatter)


def _wide(comparisons: Sequence[Comparison], scatter_pct: float) -> dict[str, float] | None:
    """How many comparisons are answered where only WIDE_PCT is worth noting; None where runs scatter
    little."""
    if scatter_pct <= NOISY_PCT:
        return None
    answered = sum(one.answered or one.within <= 1 + WIDE_PCT / 100 for one in comparisons)
    return {"scatter_pct": scatter_pct, "pct": WIDE_PCT, "answered": answered}


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

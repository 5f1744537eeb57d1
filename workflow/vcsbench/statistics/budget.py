"""Give the rounds of a run with minutes to the comparisons that they can still decide.

A comparison is precise enough if its interval decides it on either side:

    t_difference + t_equivalence <= ln(1 + smallest effect),  or  t_difference <= half of |ln ratio|

(half widths at the level of the call). That depends on widths and magnitudes, never on the winner: a run
that stops by it makes no more false calls (benchmarks/simulation.py, `by minutes`).

Blocks whose cells are compared get rounds together. The next rounds go to the blocks where they make the most
comparisons per second precise enough.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from vcsbench.evidence.measurements import TimeBreakdown
from vcsbench.plan.result_state import block_name
from vcsbench.statistics.contract import (
    ALL_DECIDED,
    DIFFERENT,
    RESULTS,
    TIME_IS_UP,
    TOO_SMALL,
    UNDECIDED,
    UNREACHABLE,
    Limits,
    result_of,
    scatter_pct,
)
from vcsbench.statistics.estimates import t_quantile
from vcsbench.statistics.multiple_testing import EQUIVALENCE_ALPHA, holm_level
from vcsbench.statistics.tables import SIDES

if TYPE_CHECKING:
    from vcsbench.config.study import TableDefinition

# A batch takes half of the remaining time, because the next decision has more data.
MIN_BATCH_S = 60.0
AROUND_S = 25.0
AROUND_PER_CELL_ROUND_S = 0.01
FORECAST_S = 365 * 24 * 3600.0


@dataclass(frozen=True)
class Comparison:
    """A row of a table: its blocks, result, rounds, and rounds needed (infinite if unreachable)."""

    table: str
    blocks: frozenset[str]
    result: str
    rounds: int
    needed: float

    @property
    def is_precise_enough(self) -> bool:
        return self.rounds >= self.needed


@dataclass(frozen=True)
class ComparisonSettings:
    """Definitions of a study's noisy comparison tables, its axes with values in order, and its limits."""

    tables: Mapping[str, TableDefinition]
    order: Mapping[str, list[str]]
    block: Sequence[str]
    limits: Limits

    @classmethod
    def on_machine(cls, params: Mapping[str, Any], scatter: float) -> ComparisonSettings:
        return cls(**{**params, "limits": Limits(**params["limits"]).on_machine(scatter)})


def comparisons_of(
    tables: Iterable[pd.DataFrame], settings: ComparisonSettings
) -> list[Comparison]:
    comparisons = []
    for (name, definition), table in zip(settings.tables.items(), tables, strict=True):
        rows = table[table["ratio"].notna()].to_dict("records")
        level = holm_level(sum(result_of(row) != DIFFERENT for row in rows))
        axis = definition["compare"]["axis"]
        for row in rows:
            where = {key: row.get(key) for key in settings.block}
            blocks = frozenset(block_name(settings.block, {**where, axis: row[s]}) for s in SIDES)
            needed = comparison_rounds(row, level, settings.limits)
            comparisons.append(Comparison(name, blocks, result_of(row), int(row["n"]), needed))
    return comparisons


def comparison_rounds(row: Mapping[Any, Any], level: float, limits: Limits) -> float:
    """Return the rounds after which a table's row is precise enough, with today's mean and scatter.

    All of its error is taken to shrink, because after few rounds the part of duplicates is mostly
    chance. More rounds do not help a row that is mostly fixed cost.
    """
    if result_of(row) == TOO_SMALL:
        return limits.min_rounds
    if math.isnan(row["twin_sd"]):
        return math.inf
    if math.isnan(row["error"]):
        return limits.min_rounds
    difference = t_quantile(row["degrees"], 1 - level)
    equivalence = t_quantile(row["degrees"], 1 - 2 * EQUIVALENCE_ALPHA)
    smallest = math.log1p(limits.min_effect_pct / 100) / (difference + equivalence)
    narrow = max(smallest, abs(math.log(row["ratio"])) / 2 / difference)
    return max(limits.min_rounds, math.ceil(row["n"] * (row["error"] / narrow) ** 2))


@dataclass
class BlockGroup:
    """Blocks that get rounds together, and the time of a round.

    `open` has the comparisons with the rounds that each still needs.
    """

    blocks: frozenset[str]
    round_s: float
    open: list[tuple[int, Comparison]]

    @property
    def precise_per_second(self) -> float:
        needed = sorted(rounds for rounds, _ in self.open)
        return max(n / rounds for n, rounds in enumerate(needed, 1)) / self.round_s

    def assign(self, rounds: int) -> list[Comparison]:
        precise = [c for needed, c in self.open if needed <= rounds]
        self.open = [(needed - rounds, c) for needed, c in self.open if needed > rounds]
        return precise


def allocate(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float], seconds: float
) -> Counter[str]:
    allocated: Counter[str] = Counter()
    for blocks, rounds, _, _ in _assignments(comparisons, round_s, seconds):
        allocated.update(dict.fromkeys(blocks, rounds))
    return allocated


def undecided_over_time(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float]
) -> list[tuple[float, dict[str, int]]]:
    """Return seconds from now and the comparisons of each table that are then still undecided.

    If the last entry has any, no number of rounds decides them.
    """
    undecided = Counter(c.table for c in comparisons if c.result == UNDECIDED)
    forecast = [(0.0, dict(undecided))]
    for _, _, seconds, precise in _assignments(comparisons, round_s, FORECAST_S):
        decided = Counter(c.table for c in precise if c.result == UNDECIDED)
        if decided:
            undecided -= decided
            forecast.append((seconds, dict(undecided)))
    return forecast


def _assignments(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float], seconds: float
) -> Iterator[tuple[frozenset[str], int, float, list[Comparison]]]:
    """Yield blocks with their next rounds, the seconds taken so far, and what becomes precise enough.

    A group that is the best stays the best until its next comparison is precise enough.
    """
    groups, taken = _groups(comparisons, round_s), 0.0
    while fitting := [g for g in groups if g.open and taken + g.round_s <= seconds]:
        best = max(fitting, key=lambda group: group.precise_per_second)
        next_needed = min(rounds for rounds, _ in best.open)
        rounds = min(next_needed, max(1, int((seconds - taken) / best.round_s)))
        taken += rounds * best.round_s
        yield best.blocks, rounds, taken, best.assign(rounds)


def _groups(comparisons: Iterable[Comparison], round_s: Mapping[str, float]) -> list[BlockGroup]:
    groups: list[BlockGroup] = []
    for comparison in comparisons:
        touched = [group for group in groups if group.blocks & comparison.blocks]
        blocks = comparison.blocks.union(*(group.blocks for group in touched))
        still_open = [needed for group in touched for needed in group.open]
        if not comparison.is_precise_enough and math.isfinite(comparison.needed):
            still_open.append((int(comparison.needed) - comparison.rounds, comparison))
        groups = [group for group in groups if group not in touched]
        seconds = sum(round_s.get(block, math.inf) for block in blocks)
        groups.append(BlockGroup(blocks, seconds, still_open))
    return groups


def taken_s(spent: TimeBreakdown, cell_rounds: int) -> float:
    """Return the seconds of a run from its preparation to its report."""
    return spent.total_s + AROUND_S + AROUND_PER_CELL_ROUND_S * cell_rounds


def allocate_rounds(
    comparisons: Sequence[Comparison], spent: TimeBreakdown, seconds: float
) -> tuple[Counter[str], str]:
    for part in (min(seconds, max(seconds / 2, MIN_BATCH_S)), seconds):
        if rounds := allocate(comparisons, spent.round_s, part):
            return rounds, ""
    needed = [c.needed for c in comparisons if not c.is_precise_enough]
    if any(rounds < math.inf for rounds in needed):
        return Counter(), TIME_IS_UP
    return Counter(), UNREACHABLE if needed else ALL_DECIDED


def budget_report(
    comparisons: Sequence[Comparison],
    spent: TimeBreakdown,
    cell_rounds: int,
    limits: Limits,
    scatter: float,
) -> dict[str, object]:
    here, by_table = limits.on_machine(scatter), dict[str, Counter[str]]()
    for comparison in comparisons:
        by_table.setdefault(comparison.table, Counter())[comparison.result] += 1
    return {
        "taken_s": round(taken_s(spent, cell_rounds), 1),
        "spent_s": {
            "preparation": round(spent.preparation_s, 1),
            "measuring": round(spent.measuring_s, 1),
            "waiting": round(spent.waiting_s, 1),
        },
        "timed_s": round(spent.timed_s, 1),
        "min_effect_pct": here.min_effect_pct,
        "noisy": None if here == limits else {"scatter_pct": scatter_pct(scatter)},
        "blocks": [
            {"block": name, "rounds": block.rounds, "seconds": round(block.seconds, 1)}
            for name, block in spent.blocks.items()
        ],
        "tables": {
            name: {result: results[result] for result in RESULTS}
            for name, results in by_table.items()
        },
        "outlook": [
            {"seconds": round(seconds, 1), "left": undecided}
            for seconds, undecided in undecided_over_time(comparisons, spent.round_s)
        ],
    }

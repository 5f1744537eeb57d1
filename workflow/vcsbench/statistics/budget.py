"""Give the rounds of a run with minutes to the comparisons that they can still decide.

A comparison is precise enough if its interval decides it on either side:

    t_difference + t_equivalence <= ln(1 + smallest effect),  or  t_difference <= half of |ln ratio|

(half widths at the level of the call). That depends on widths and magnitudes, never on the winner: a run
that stops by it makes no more false calls (benchmarks/simulation.py, `by minutes`).

Blocks whose cells are compared get rounds together. The next rounds go to the blocks where they make the most
comparisons per second precise enough.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from vcsbench.config.study import TableDefinition
from vcsbench.evidence.measurements import TimeBreakdown
from vcsbench.metrics import metric_in
from vcsbench.plan.result_state import block_name
from vcsbench.statistics.comparisons import (
    ALL_DECIDED,
    DIFFERENT,
    RESULTS,
    SIDES,
    TIME_IS_UP,
    TOO_SMALL,
    UNDECIDED,
    UNREACHABLE,
    Limits,
    is_difference,
    result_of,
    scatter_pct,
)
from vcsbench.statistics.estimates import EQUIVALENCE_ALPHA, add_calls, holm_level, t_quantile

# A batch takes half of the remaining time, because the next decision has more data.
MIN_BATCH_S = 60.0
AROUND_S = 25.0
AROUND_PER_CELL_ROUND_S = 0.01
FORECAST_S = 365 * 24 * 3600.0


@dataclass(frozen=True)
class Comparison:
    """A row of a table: its blocks, its result, and the further rounds that it needs (infinite if
    unreachable)."""

    table: str
    blocks: frozenset[str]
    result: str
    more: float

    @property
    def is_reachable(self) -> bool:
        """Return True if more rounds make it precise enough."""
        return 0 < self.more < math.inf


def comparisons_of(
    tables: Mapping[str, pd.DataFrame],
    definitions: Mapping[str, TableDefinition],
    block: Sequence[str],
    limits: Limits,
) -> list[Comparison]:
    comparisons = []
    for name, table in tables.items():
        table = table[table["ratio"].notna() & (table["withheld"] == "")]
        rows, definition = table.to_dict("records"), definitions[name]
        # A row that is mostly fixed cost has no call, but Holm's correction may have rejected it.
        calls = add_calls(table, metric_in(definition).calls, limits)["call"]
        level = holm_level(
            sum(
                result_of(row) != DIFFERENT and not is_difference(call)
                for row, call in zip(rows, calls, strict=True)
            )
        )
        axis = definition["compare"]["axis"]
        for row in rows:
            where = {key: row.get(key) for key in block}
            blocks = frozenset(block_name(block, {**where, axis: row[side]}) for side in SIDES)
            more = max(0, comparison_rounds(row, level, limits) - int(row["n"]))
            comparisons.append(Comparison(name, blocks, result_of(row), more))
    return comparisons


def comparison_rounds(row: Mapping[Any, Any], level: float, limits: Limits) -> float:
    """Return the rounds after which a table's row is precise enough, with today's mean and scatter.

    All of its error is taken to shrink, because after few rounds the error of duplicates is mostly
    chance. More rounds do not help a row that is mostly fixed cost.
    """
    if result_of(row) == TOO_SMALL:
        return limits.min_rounds
    # One round has neither an error nor a difference of duplicates.
    if math.isnan(row["error"]):
        return limits.min_rounds
    if math.isnan(row["twin_sd"]):
        return math.inf
    difference = t_quantile(row["degrees"], 1 - level)
    equivalence = t_quantile(row["degrees"], 1 - 2 * EQUIVALENCE_ALPHA)
    smallest = math.log1p(limits.min_effect_pct / 100) / (difference + equivalence)
    narrow = max(smallest, abs(math.log(row["ratio"])) / 2 / difference)
    return max(limits.min_rounds, math.ceil(row["n"] * (row["error"] / narrow) ** 2))


@dataclass
class BlockGroup:
    """Blocks that get rounds together, the seconds of a round, and the rounds that they get."""

    blocks: frozenset[str]
    round_s: float
    comparisons: list[Comparison]
    rounds: int = 0

    @property
    def needed(self) -> list[int]:
        """Return the further rounds of each comparison that is not precise enough, the fewest first."""
        needed = (int(c.more) - self.rounds for c in self.comparisons if c.is_reachable)
        return sorted(rounds for rounds in needed if rounds > 0)

    @property
    def precise_per_second(self) -> float:
        return max(n / rounds for n, rounds in enumerate(self.needed, 1)) / self.round_s


def undecided_over_time(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float]
) -> list[tuple[float, Counter[str]]]:
    """Return seconds from now and the comparisons of each table that are then still undecided.

    If the last entry has any, no number of rounds decides them.
    """
    undecided = [c for c in comparisons if c.result == UNDECIDED]
    forecast = [(0.0, Counter(c.table for c in undecided))]
    groups = _groups(comparisons, round_s)
    for seconds in _assignments(groups, FORECAST_S):
        precise = {c for group in groups for c in group.comparisons if 0 < c.more <= group.rounds}
        left = Counter(c.table for c in undecided if c not in precise)
        if left != forecast[-1][1]:
            forecast.append((seconds, left))
    return forecast


def allocate(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float], seconds: float
) -> Counter[str]:
    groups = _groups(comparisons, round_s)
    for _ in _assignments(groups, seconds):
        pass
    return Counter({block: g.rounds for g in groups if g.rounds for block in g.blocks})


def _assignments(groups: Sequence[BlockGroup], seconds: float) -> Iterator[float]:
    """Give rounds to the groups, and yield the seconds taken so far each time.

    A group that is the best stays the best until its next comparison is precise enough.
    """
    taken = 0.0
    while fitting := [g for g in groups if g.needed and taken + g.round_s <= seconds]:
        best = max(fitting, key=lambda group: group.precise_per_second)
        rounds = min(best.needed[0], max(1, int((seconds - taken) / best.round_s)))
        taken += rounds * best.round_s
        best.rounds += rounds
        yield taken


def _groups(comparisons: Iterable[Comparison], round_s: Mapping[str, float]) -> list[BlockGroup]:
    groups: list[BlockGroup] = []
    for comparison in comparisons:
        touched = [group for group in groups if group.blocks & comparison.blocks]
        blocks = comparison.blocks.union(*(group.blocks for group in touched))
        members = [*(c for group in touched for c in group.comparisons), comparison]
        seconds = sum(round_s.get(block, math.inf) for block in blocks)
        groups = [group for group in groups if group not in touched]
        groups.append(BlockGroup(blocks, seconds, members))
    return groups


def taken_s(spent: TimeBreakdown, cell_rounds: int) -> float:
    """Return the seconds of a run from its preparation to its report."""
    return spent.total_s + AROUND_S + AROUND_PER_CELL_ROUND_S * cell_rounds


def allocate_rounds(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float], seconds: float
) -> tuple[Counter[str], str]:
    for batch_s in (min(seconds, max(seconds / 2, MIN_BATCH_S)), seconds):
        if rounds := allocate(comparisons, round_s, batch_s):
            return rounds, ""
    if any(c.is_reachable for c in comparisons):
        return Counter(), TIME_IS_UP
    is_open = any(c.result == UNDECIDED for c in comparisons)
    return Counter(), UNREACHABLE if is_open else ALL_DECIDED


def budget_report(
    comparisons: Sequence[Comparison],
    spent: TimeBreakdown,
    cell_rounds: int,
    limits: Limits,
    scatter: float,
) -> dict[str, object]:
    here, percent = limits.on_machine(scatter), scatter_pct(scatter)
    tables = dict.fromkeys(comparison.table for comparison in comparisons)
    counts = Counter((comparison.table, comparison.result) for comparison in comparisons)
    return {
        "taken_s": round(taken_s(spent, cell_rounds), 1),
        "spent_s": {
            "preparation": round(spent.preparation_s, 1),
            "measuring": round(spent.measuring_s, 1),
            "waiting": round(spent.waiting_s, 1),
        },
        "timed_s": round(spent.timed_s, 1),
        "min_effect_pct": here.min_effect_pct,
        "scatter_pct": round(percent, 1),
        "noisy": None
        if here == limits
        else {"scatter_pct": percent, "usual_pct": limits.min_effect_pct},
        "blocks": [
            {"block": name, "rounds": block.rounds, "seconds": round(block.seconds, 1)}
            for name, block in spent.blocks.items()
        ],
        "tables": {name: {result: counts[name, result] for result in RESULTS} for name in tables},
        # The further rounds of all cells that decide each undecided comparison.
        "more_rounds": sorted(
            int(c.more) for c in comparisons if c.result == UNDECIDED and c.is_reachable
        ),
        "outlook": [
            {"seconds": round(seconds, 1), "left": undecided}
            for seconds, undecided in undecided_over_time(comparisons, spent.round_s)
        ],
    }

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

import pandas as pd

from vcsbench.codes import Result
from vcsbench.config.study import TableDefinition
from vcsbench.evidence.time_breakdown import TimeBreakdown
from vcsbench.metrics import metric_in
from vcsbench.plan.result_state import block_name
from vcsbench.statistics.comparisons import (
    ALL_DECIDED,
    SIDES,
    TIME_IS_UP,
    UNREACHABLE,
    ComparisonRow,
    Limits,
    comparison_rows,
    is_difference,
    scatter_pct,
)
from vcsbench.statistics.estimates import EQUIVALENCE_ALPHA, add_calls, holm_level, t_quantile

# Comparisons that get more rounds.
OPEN = (Result.BOUNDED, Result.UNDECIDED)
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
    result: Result
    more: float

    @property
    def is_reachable(self) -> bool:
        """Return True if more rounds make it precise enough."""
        return 0 < self.more < math.inf

    @property
    def is_open(self) -> bool:
        return self.result in OPEN


def comparisons_of(
    tables: Mapping[str, pd.DataFrame],
    definitions: Mapping[str, TableDefinition],
    block: Sequence[str],
    limits: Limits,
) -> list[Comparison]:
    """Return the comparisons of all tables that have a result, with the rounds that they need."""
    comparisons = []
    for name, table in tables.items():
        table = table[table["ratio"].notna() & (table["withheld"] == "")]
        rows, definition = comparison_rows(table.to_dict("records")), definitions[name]
        # A row that start-up can explain has no difference, but Holm's correction may have rejected it.
        calls = add_calls(table, metric_in(definition).calls, limits)["call"]
        not_rejected = [call for call in calls if not is_difference(call)]
        level = holm_level(len(not_rejected))
        axis = definition["compare"]["axis"]
        for row in rows:
            values = {"baseline": row.baseline, "candidate": row.candidate}
            places = [{**row.where, axis: values[side]} for side in SIDES]
            blocks = frozenset(block_name(block, place) for place in places)
            more = max(0, comparison_rounds(row, level, limits) - row.n)
            result = row.result or Result.UNDECIDED
            comparisons.append(Comparison(name, blocks, result, more))
    return comparisons


def comparison_rounds(row: ComparisonRow, level: float, limits: Limits) -> float:
    """Return the rounds after which a row is precise enough, with today's mean and scatter.

    All of its error is taken to shrink, because after few rounds the error of duplicates is mostly
    chance. More rounds do not help a row that is mostly fixed cost.
    """
    if row.result == Result.TOO_SMALL:
        return limits.min_rounds
    # One round has neither an error nor a difference of duplicates.
    if math.isnan(row.error):
        return limits.min_rounds
    if math.isnan(row.duplicate_sd):
        return math.inf
    difference = t_quantile(row.degrees, 1 - level)
    equivalence = t_quantile(row.degrees, 1 - 2 * EQUIVALENCE_ALPHA)
    smallest = math.log(limits.margin) / (difference + equivalence)
    narrow = max(smallest, abs(math.log(row.ratio)) / 2 / difference)
    return max(limits.min_rounds, math.ceil(row.n * (row.error / narrow) ** 2))


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
    undecided = [comparison for comparison in comparisons if comparison.is_open]
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
    is_open = any(comparison.is_open for comparison in comparisons)
    return Counter(), UNREACHABLE if is_open else ALL_DECIDED


def budget_report(
    comparisons: Sequence[Comparison],
    spent: TimeBreakdown,
    cell_rounds: int,
    limits: Limits,
    scatter: float,
) -> dict[str, object]:
    """Return the account of a study: its time, the results of its comparisons, and what more time gives.

    `scatter` is of run_scatter.
    """
    tables = dict.fromkeys(comparison.table for comparison in comparisons)
    counts = Counter((comparison.table, comparison.result) for comparison in comparisons)
    more_rounds = [
        int(comparison.more)
        for comparison in comparisons
        if comparison.is_open and comparison.is_reachable
    ]
    return {
        "taken_s": round(taken_s(spent, cell_rounds), 1),
        "spent_s": {
            "preparation": round(spent.preparation_s, 1),
            "measuring": round(spent.measuring_s, 1),
            "waiting": round(spent.waiting_s, 1),
        },
        "timed_s": round(spent.timed_s, 1),
        "min_effect_pct": limits.min_effect_pct,
        "scatter_pct": round(scatter_pct(scatter), 1),
        "blocks": [
            {"block": name, "rounds": block.rounds, "seconds": round(block.seconds, 1)}
            for name, block in spent.blocks.items()
        ],
        "tables": {name: {result: counts[name, result] for result in Result} for name in tables},
        # The further rounds of all cells that decide each open comparison.
        "more_rounds": sorted(more_rounds),
        "outlook": [
            {"seconds": round(seconds, 1), "left": undecided}
            for seconds, undecided in undecided_over_time(comparisons, spent.round_s)
        ],
    }

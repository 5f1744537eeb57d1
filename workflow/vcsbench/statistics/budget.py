"""Give the rounds of a run with minutes to the comparisons that they can still decide.

A comparison is precise enough if its interval decides it on either side:

    t_difference + t_equivalence <= ln(1 + smallest effect),  or  t_difference <= half of |ln ratio|

(half widths at the level of the call). The first: an interval of this width cannot contain both 0 and the
margin. The second: the interval is far from 0. Both depend on widths and magnitudes, never on the winner: a
run that stops by them makes no more false calls (benchmarks/simulation.py, `by minutes`). To stop at the
first call would make more, because each look at the data is another chance to err.

Blocks whose cells are compared get rounds together. Published findings without a verdict come first
(finding_rounds.py). The next rounds go to the blocks where they make the most comparisons per second precise
enough.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from vcsbench.codes import Result, StopReason
from vcsbench.config.study import TableDefinition
from vcsbench.evidence.time_breakdown import TimeBreakdown
from vcsbench.metrics import metric_in
from vcsbench.plan.result_state import block_name
from vcsbench.statistics.calls import EQUIVALENCE_ALPHA, add_calls, holm_level
from vcsbench.statistics.comparisons import (
    ComparisonRow,
    Limits,
    comparison_rows,
    is_difference,
    scatter_pct,
)
from vcsbench.statistics.estimates import t_quantile
from vcsbench.statistics.finding_rounds import OpenFinding, allocate_to_findings

# Results of comparisons that get more rounds.
OPEN_RESULTS = (Result.BOUNDED, Result.UNDECIDED)
MIN_BATCH_S = 60.0
# The work of a run before the first and after the last cell-round: start of Snakemake, tables and report.
AROUND_S = 25.0
AROUND_PER_CELL_ROUND_S = 0.01
# Comparisons that need more than a year are not forecast.
FORECAST_S = 365 * 24 * 3600.0

# The metric, the statistic, and the two cells of a comparison, each with its values of axes.
_ComparisonKey = tuple[str, str, frozenset[frozenset[tuple[str, str]]]]


@dataclass(frozen=True)
class Comparison:
    """A row of a table: its blocks, its result, and the further rounds that make it precise enough.

    `further_rounds` is 0 if it is precise enough, and infinite if no number of rounds helps.
    """

    table: str
    blocks: frozenset[str]
    result: Result
    further_rounds: float

    @property
    def is_reachable(self) -> bool:
        """Return True if more rounds make it precise enough."""
        return 0 < self.further_rounds < math.inf

    @property
    def is_open(self) -> bool:
        return self.result in OPEN_RESULTS


def list_comparisons(
    tables: Mapping[str, pd.DataFrame],
    definitions: Mapping[str, TableDefinition],
    block: Sequence[str],
    limits: Limits,
) -> list[Comparison]:
    """Return a comparison for each pair of compared cells in the tables, with the further rounds it needs.

    `tables` are the comparing ones of make_tables(), with a row for each pair of cells. Rows without a ratio,
    and withheld rows, whose cells must not be compared, are left out. If several tables compare the same two
    cells by the same metric, only the first of these rows is listed. `block` are the axes whose values name
    a block (cells that are measured next to each other).
    """
    comparisons = []
    listed: set[_ComparisonKey] = set()
    for name, table in tables.items():
        definition = definitions[name]
        axis = definition["compare"]["axis"]
        compared = table[table["ratio"].notna() & (table["withheld"] == "")]
        level = _level_of_next_difference(compared, definition, limits)
        for row in comparison_rows(compared.to_dict("records")):
            baseline_cell = {**row.where, axis: row.baseline}
            candidate_cell = {**row.where, axis: row.candidate}
            key = _comparison_key(definition, baseline_cell, candidate_cell)
            if key in listed:
                continue
            listed.add(key)
            # The names are different if the compared axis is one of the axes `block`.
            block_names = [block_name(block, baseline_cell), block_name(block, candidate_cell)]
            total_rounds = rounds_to_decide(row, level, limits)
            comparison = Comparison(
                table=name,
                blocks=frozenset(block_names),
                # A row that has no result yet is undecided.
                result=Result.UNDECIDED if row.result is None else row.result,
                further_rounds=max(0, total_rounds - row.n),
            )
            comparisons.append(comparison)
    return comparisons


def _comparison_key(
    definition: TableDefinition,
    baseline_cell: Mapping[str, str],
    candidate_cell: Mapping[str, str],
) -> _ComparisonKey:
    """Return what identifies a comparison: its metric, its statistic, and its two cells in either order.

    A cell is given by its values of axes: {"command": "log", "format": "f6"}.
    """
    cells = frozenset([frozenset(baseline_cell.items()), frozenset(candidate_cell.items())])
    return (metric_in(definition).name, definition.get("reduce", ""), cells)


def _level_of_next_difference(
    table: pd.DataFrame, definition: TableDefinition, limits: Limits
) -> float:
    """Return the p-value that a row must not exceed to become the next called difference of its table.

    Of many equal pairs, a few look different by chance. So Holm's correction (holm_level) makes this limit
    stricter, the more rows are not called different yet: 0.0005 with 100 such rows.
    """
    # The column `call` has `too small` in place of some differences, such as those that start-up (the time of
    # process start and connection) can explain. These count here, so the ratios are tested again.
    calls = add_calls(table, metric_in(definition).calls, limits)["call"]
    rows_without_difference = sum(not is_difference(call) for call in calls)
    return holm_level(rows_without_difference)


def rounds_to_decide(row: ComparisonRow, level: float, limits: Limits) -> float:
    """Return the total number of rounds after which a row is precise enough, if mean and scatter stay.

    A test of a difference and a test of equality decide a row. Each has a half width: the error of ln(ratio)
    times a quantile of Student's t. A row is precise enough if one of two conditions holds:

    - Both half widths together are at most ln(margin). The margin is the smallest ratio that matters (1.1).
      Then a ratio that is not called different is equal.
    - ln(ratio) is at least two half widths of the first test away from 0. Then a difference is certain.

    Example of the first: after 5 rounds, the error is 0.03 with 60 degrees of freedom. The half widths are
    3.05 (at the level 0.0035) and 1.72 errors, so the margin ln(1.1) = 0.095 needs an error of 0.095 / 4.77 =
    0.020. An error shrinks with the root of the rounds: 5 x (0.03 / 0.020)^2 = 11.25, or 12 rounds.

    The result is at least Limits.min_rounds, and infinite if no number of rounds helps. `level` is the
    largest p-value of a difference (_level_of_next_difference).
    """
    # More rounds do not change that start-up alone can explain a difference.
    if row.result == Result.TOO_SMALL:
        return limits.min_rounds
    # After one round, there is no error yet, from which the number of rounds could be forecast.
    if math.isnan(row.error):
        return limits.min_rounds
    # Without duplicates (cells that are measured twice), add_calls() calls each ratio undecided.
    if math.isnan(row.duplicate_sd):
        return math.inf
    # The half width of each test, in errors.
    t_difference = t_quantile(row.degrees, 1 - level)
    # The test of equality has one side, and t_quantile() is for two sides. So the chance of error is doubled.
    t_equivalence = t_quantile(row.degrees, 1 - 2 * EQUIVALENCE_ALPHA)
    # The largest error that meets each condition. One is enough, so the larger of the two errors is allowed.
    error_for_margin = math.log(limits.margin) / (t_difference + t_equivalence)
    error_for_ratio = abs(math.log(row.ratio)) / 2 / t_difference
    largest_error = max(error_for_margin, error_for_ratio)
    # The part of the error from duplicates does not shrink with more rounds. But after few rounds, that part
    # is mostly chance, and would make most comparisons unreachable. So all of the error is taken to shrink.
    needed = math.ceil(row.n * (row.error / largest_error) ** 2)
    return max(limits.min_rounds, needed)


@dataclass
class BlockGroup:
    """Blocks that get rounds together, with the seconds that a round of all of them takes.

    `comparisons` are those between cells of these blocks. `rounds` is how many further rounds the blocks get.
    """

    blocks: frozenset[str]
    round_s: float
    comparisons: list[Comparison]
    rounds: int = 0

    @property
    def needed(self) -> list[int]:
        """Return the further rounds of each comparison that is not precise enough, the fewest first.

        Rounds that the group gets already are subtracted: of 4 and 9 with `rounds` 4, [5] remains.
        Comparisons that no number of rounds helps are left out.
        """
        reachable = [each for each in self.comparisons if each.is_reachable]
        needed = [int(each.further_rounds) - self.rounds for each in reachable]
        return sorted(rounds for rounds in needed if rounds > 0)

    @property
    def precise_per_second(self) -> float:
        """Return how many comparisons a second of measuring makes precise enough.

        The best number of rounds counts. Example: a round takes 10 s, and the comparisons need 4, 5 and 40
        rounds. 4 rounds make one of them precise (0.25 per round), 5 make two (0.4), and 40 make three
        (0.075). The result is 0.4 / 10 s = 0.04. Raise ValueError if the group needs no rounds.
        """
        per_round = [number / rounds for number, rounds in enumerate(self.needed, start=1)]
        return max(per_round) / self.round_s


def undecided_over_time(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float]
) -> list[tuple[float, Counter[str]]]:
    """Return the forecast number of open comparisons of each table, by the seconds from now.

    The result has an entry for now, and one for each change of the numbers within a year (FORECAST_S). With
    `[(0.0, {"formats": 5}), (600.0, {"formats": 2})]`, ten minutes more decide three of five comparisons, and
    a year decides no more. `round_s` has the seconds of a round of each block.
    """
    open_comparisons = [comparison for comparison in comparisons if comparison.is_open]
    forecast = [(0.0, Counter(comparison.table for comparison in open_comparisons))]
    for seconds, rounds in _assign_rounds(comparisons, round_s, FORECAST_S):
        still_open: Counter[str] = Counter()
        for comparison in open_comparisons:
            # Both blocks of a comparison are in one group (_group_blocks), which gets the same rounds.
            any_block = next(iter(comparison.blocks))
            added_rounds = rounds[any_block]
            # A comparison that needs 0 further rounds is open for another reason, such as disturbed runs.
            becomes_precise = 0 < comparison.further_rounds <= added_rounds
            if not becomes_precise:
                still_open[comparison.table] += 1
        if still_open != forecast[-1][1]:
            forecast.append((seconds, still_open))
    return forecast


def allocate(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float], seconds: float
) -> Counter[str]:
    """Return the further rounds that each block gets in a time of `seconds`: `{"log/ruby/cold": 4}`.

    Blocks that get no rounds are left out.
    """
    rounds: Counter[str] = Counter()
    # The last step has the rounds of all steps.
    for _, rounds_so_far in _assign_rounds(comparisons, round_s, seconds):
        rounds = rounds_so_far
    return rounds


def _assign_rounds(
    comparisons: Iterable[Comparison], round_s: Mapping[str, float], seconds: float
) -> Iterator[tuple[float, Counter[str]]]:
    """Give rounds to blocks, in steps, until no further round fits into `seconds` or helps a comparison.

    After each step, yield the seconds that all rounds so far take, and the rounds of each block. Blocks whose
    cells are compared with each other are a group, and get the same rounds. A step chooses the group that
    makes the most comparisons precise enough per second. This group gets as many rounds as its next
    comparison needs, or as many as fit.
    """
    groups = _group_blocks(comparisons, round_s)
    rounds: Counter[str] = Counter()
    used_s = 0.0
    while True:
        fitting = [group for group in groups if group.needed and used_s + group.round_s <= seconds]
        if not fitting:
            return
        best = max(fitting, key=lambda group: group.precise_per_second)
        # At least one round fits, as checked above. But the quotient of floats may be a little below 1.
        fitting_rounds = max(1, int((seconds - used_s) / best.round_s))
        next_needed = best.needed[0]
        added_rounds = min(next_needed, fitting_rounds)
        used_s += added_rounds * best.round_s
        # This also changes the properties `needed` and `precise_per_second` of the group.
        best.rounds += added_rounds
        for block in best.blocks:
            rounds[block] = best.rounds
        yield used_s, rounds.copy()


def _group_blocks(
    comparisons: Iterable[Comparison], round_s: Mapping[str, float]
) -> list[BlockGroup]:
    """Return groups of blocks that comparisons connect: a comparison needs rounds of both of its blocks.

    Example: comparisons of A with B, of B with C, and within D give the groups {A, B, C} and {D}. A block
    that `round_s` lacks takes infinitely long, so its group gets no round.
    """
    groups: list[BlockGroup] = []
    for comparison in comparisons:
        # All groups so far that share a block with the comparison become one group.
        blocks = comparison.blocks
        members = []
        separate_groups = []
        for group in groups:
            if group.blocks.isdisjoint(comparison.blocks):
                separate_groups.append(group)
            else:
                blocks |= group.blocks
                members += group.comparisons
        members.append(comparison)
        seconds = sum(round_s.get(block, math.inf) for block in blocks)
        groups = [*separate_groups, BlockGroup(blocks, seconds, members)]
    return groups


def taken_s(spent: TimeBreakdown, cell_rounds: int) -> float:
    """Return the seconds of a run from its preparation to its report."""
    return spent.total_s + AROUND_S + AROUND_PER_CELL_ROUND_S * cell_rounds


def remaining_seconds(
    minutes: float, set_up_s: float, studies: int, spent: TimeBreakdown, cell_rounds: int
) -> float:
    """Return the seconds that are left of the `minutes` of a study; negative if it took longer.

    Set-up takes `set_up_s` seconds once for all `studies` of a run, so each of them has an equal share.
    """
    return 60 * minutes - set_up_s / studies - taken_s(spent, cell_rounds)


class Allocation(NamedTuple):
    """The rounds of the next batch by block, or the reason for none."""

    rounds: Counter[str]
    why_none: StopReason | None = None


def allocate_rounds(
    comparisons: Sequence[Comparison],
    round_s: Mapping[str, float],
    seconds: float,
    findings: Sequence[OpenFinding] = (),
) -> Allocation:
    """Return the rounds of the next batch of each block, for a run that has `seconds` left, or why none.

    A batch is the rounds that the run measures before it decides again. As long as the time can decide one of
    the `findings`, the batch is for findings only. An empty batch has a reason: TIME_IS_UP if rounds would
    help a comparison but do not fit, UNREACHABLE if comparisons are open but no number of rounds helps,
    otherwise ALL_DECIDED.
    """
    # A batch takes half of the time that is left, because the next decision has more data. But it takes at
    # least a minute, if so much time is left: 300 s of 600 s, 60 s of 90 s, 40 s of 40 s.
    batch_s = min(seconds, max(seconds / 2, MIN_BATCH_S))
    rounds = allocate_to_findings(findings, round_s, batch_s=batch_s, seconds=seconds)
    if not rounds:
        rounds = allocate(comparisons, round_s, batch_s)
    if not rounds:
        # A round that helps may take longer than the batch.
        rounds = allocate(comparisons, round_s, seconds)
    if rounds:
        return Allocation(rounds)
    if any(comparison.is_reachable for comparison in comparisons):
        return Allocation(rounds, StopReason.TIME_IS_UP)
    if any(comparison.is_open for comparison in comparisons):
        return Allocation(rounds, StopReason.UNREACHABLE)
    return Allocation(rounds, StopReason.ALL_DECIDED)


def budget_report(
    comparisons: Sequence[Comparison],
    spent: TimeBreakdown,
    cell_rounds: int,
    limits: Limits,
    scatter: float,
) -> dict[str, object]:
    """Return the account of a study: its time, the results of its comparisons, and what more time gives.

    `spent` is the time so far, `cell_rounds` the number of measured rounds of cells, and `scatter` that of
    run_scatter(). Some keys of the result:

    - `taken_s`: the seconds from the preparation to the report.
    - `timed_s`: the seconds of the timed commands themselves.
    - `tables`: the number of comparisons with each result: `{"formats": {"different": 3, ...}}`.
    - `more_rounds`: the further rounds of each open comparison that rounds can decide.
    - `outlook`: the forecast of undecided_over_time(). `{"seconds": 1200.0, "left": {"formats": 3}}` means
      that three comparisons are still open after 1200 more seconds.
    """
    counts = Counter((comparison.table, comparison.result) for comparison in comparisons)
    results_by_table = {}
    for table in dict.fromkeys(comparison.table for comparison in comparisons):
        results_by_table[table] = {result: counts[table, result] for result in Result}
    more_rounds = []
    for comparison in comparisons:
        if comparison.is_open and comparison.is_reachable:
            more_rounds.append(int(comparison.further_rounds))
    blocks = []
    for name, block in spent.blocks.items():
        seconds = round(block.seconds, 1)
        blocks.append({"block": name, "rounds": block.rounds, "seconds": seconds})
    outlook = []
    for seconds_from_now, still_open in undecided_over_time(comparisons, spent.round_s):
        outlook.append({"seconds": round(seconds_from_now, 1), "left": still_open})
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
        "blocks": blocks,
        "tables": results_by_table,
        "more_rounds": sorted(more_rounds),
        "outlook": outlook,
    }

"""The best combination of values in each situation, such as the cold log of one repository."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from vcsbench.advice.cards import Choice, Situation
from vcsbench.advice.decision import Where
from vcsbench.codes import Call, WhyNoBest
from vcsbench.evidence import same_work
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT_METRIC
from vcsbench.statistics.aggregation import FIXED_SHARE
from vcsbench.statistics.calls import call_ratios
from vcsbench.statistics.comparisons import CALLED_ROUNDS, Limits, can_be_start_up
from vcsbench.statistics.estimates import ratio_interval
from vcsbench.statistics.noise import Noise

Cell = tuple[str, ...]


def compare_choices(
    where: Where, rows: pd.DataFrame, axes: Sequence[str], noise: Noise, limits: Limits
) -> Situation:
    """Return the choices in a situation, the fastest one first, or the reason why none is best.

    `where` has the values that a reader cannot choose: `{"command": "log", "cache": "cold"}`. `rows` has a
    row for each cell, host and round in this situation (by_round). The values of `axes` identify a cell.

    Each choice is compared with the fastest one. More comparisons find more differences by chance. Therefore
    their significance is corrected for all of them together (Holm).
    """
    # A command with `work: unchecked` does other work by design. Its time shows nothing about a choice.
    rows = rows[~rows["work"].map(same_work.is_unchecked).astype(bool)]
    cells = {tuple(map(str, key)): rounds for key, rounds in group_rows(rows, axes)}
    # All rows of a cell have the same text in `work`: the different works of all its rounds.
    works = {cell: rounds["work"].iloc[0] for cell, rounds in cells.items()}
    # Only cells with the most frequent work are compared: one that exported less was faster for that reason.
    alike = same_work.majority(works)
    other_work = []
    for cell in cells:
        if cell not in alike:
            values = _values_of_choice(cell, axes, where)
            other_work.append((values, _difference(cell, works, alike)))
    logs = _logs_by_round({cell: cells[cell] for cell in cells if cell in alike})

    # The order matters, because one reason can cause a later one. After cells with other work are left out,
    # for example, there may be only one choice.
    why = None
    if rows["host"].nunique() > 1:
        why = WhyNoBest.SEVERAL_HOSTS
    elif len(cells) > 1 and not alike:
        why = WhyNoBest.OTHER_WORK
    elif alike and not logs:
        # Some cell can be compared, but none has two rounds.
        why = WhyNoBest.FEW_ROUNDS
    elif len(logs) < 2:
        # If another choice did other work, that is the reason for only one.
        why = WhyNoBest.OTHER_WORK if other_work else WhyNoBest.ONE_CHOICE
    if why:
        return Situation(where, why=why, other_work=other_work)

    # The share of a cell's time that is start-up, NaN if it is unknown.
    shares = {cell: cells[cell][FIXED_SHARE].iloc[-1] for cell in logs}
    ranked_cells = _rank_cells(logs, shares, noise, limits)
    if all(ranked.call == Call.TOO_SMALL for ranked in ranked_cells[1:]):
        return Situation(where, why=WhyNoBest.TOO_SMALL, other_work=other_work)
    choices = [
        Choice(
            _values_of_choice(ranked.cell, axes, where), ranked.seconds, ranked.ratio, ranked.call
        )
        for ranked in ranked_cells
    ]
    return Situation(where, choices, other_work=other_work)


def _values_of_choice(cell: Cell, axes: Sequence[str], where: Where) -> dict[str, str]:
    """Return the values that a reader chooses with a cell, without the situation's values."""
    values = zip(axes, cell, strict=True)
    return {axis: value for axis, value in values if value and axis not in where}


@dataclass(frozen=True)
class RankedCell:
    """A cell with its mean time, its ratio to the best cell's time, and the call against that cell."""

    cell: Cell
    seconds: float
    ratio: float = 1.0
    call: Call = Call.EQUAL


def _rank_cells(
    logs: Mapping[Cell, Mapping[float, float]],
    shares: Mapping[Cell, float],
    noise: Noise,
    limits: Limits,
) -> list[RankedCell]:
    """Return the cells, the fastest one first, with their calls (outcomes) against it.

    Each ratio is other / best, the reverse of baseline / candidate elsewhere: above 1, the other cell is
    slower.

    `logs` has the logarithms of their times in seconds by number of the round. `shares` has the share of
    start-up in the time of each cell, NaN if it is unknown.
    """
    means = _common_means(logs)
    # Cells with equal means are sorted by their values, so that the order is always the same.
    best, *others = sorted(means, key=lambda cell: (means[cell], cell))
    times_best = []
    for cell in others:
        log_ratios = [logs[cell][n] - log for n, log in logs[best].items() if n in logs[cell]]
        times_best.append(noise.with_error(ratio_interval(log_ratios), [(best, cell)]))
    # The calls of a significant ratio above 1, and of one below 1. Below 1 is possible, because `best` is the
    # fastest over the common rounds of all cells, and the pair may have more rounds.
    calls_of_ratio = (Call.SLOWER, Call.FASTER)
    calls = call_ratios(times_best, noise.has_duplicates, calls_of_ratio, limits)
    ranked = [RankedCell(best, math.exp(means[best]))]
    for cell, ratio, call in zip(others, times_best, calls, strict=True):
        # `ratio.low` is the end of the interval that is nearer to 1. It is below 1 without a difference.
        if can_be_start_up(shares[best], shares[cell], max(ratio.low, 1.0)):
            call = Call.TOO_SMALL
        seconds = math.exp(means[cell])
        ranked.append(RankedCell(cell, seconds, ratio.value, call or Call.UNDECIDED))
    return ranked


def _logs_by_round(cells: Mapping[Cell, pd.DataFrame]) -> dict[Cell, dict[float, float]]:
    """Return the logarithms of the times by number of the round, of the cells with at least two rounds.

    One round has no scatter, so that nothing can be called.
    """
    logs = {}
    for cell, rounds in cells.items():
        if len(rounds) >= CALLED_ROUNDS:
            times = zip(rounds["round"], rounds[DEFAULT_METRIC], strict=True)
            logs[cell] = {number: math.log(time) for number, time in times}
    return logs


def _common_means(logs: Mapping[Cell, Mapping[float, float]]) -> dict[Cell, float]:
    """Return the mean logarithm of each cell's time over the rounds that all cells have.

    The machine may become slower from round to round. So means over different rounds are not comparable. If
    fewer than two rounds are common to all cells, each cell has the mean of all its own rounds.
    """
    rounds = [set(by_round) for by_round in logs.values()]
    common = set.intersection(*rounds)
    means = {}
    for cell, by_round in logs.items():
        used = [log for number, log in by_round.items() if number in common]
        if len(used) < CALLED_ROUNDS:
            used = list(by_round.values())
        means[cell] = math.fsum(used) / len(used)
    return means


def _difference(cell: Cell, works: Mapping[Cell, str], alike: set[Cell]) -> str:
    """Return in which figures the work of a cell differs from the others: `9 files against 10`.

    `works` has the work of each cell, `alike` the cells with the most frequent work, which may be none.
    """
    # The work of this cell is unknown, or its rounds did different work.
    refusal = same_work.refusal("", {"": works[cell]})
    if refusal:
        return refusal.reason
    # Without a majority, the cell is compared with the first cell whose work is known and different.
    compared = alike if alike else set(works)
    others = [works[other] for other in works if other in compared and works[other] != works[cell]]
    known = [work for work in others if not same_work.refusal("", {"": work})]
    return same_work.difference(works[cell], known[0])

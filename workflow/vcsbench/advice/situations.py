"""The best combination of values in each situation, such as the cold log of one repository."""

import math
from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from vcsbench.advice.cards import Choice, OtherWork, Situation
from vcsbench.codes import Call, WhyNoBest
from vcsbench.evidence import same_work
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT_METRIC
from vcsbench.plan.grid import AxisValues
from vcsbench.statistics.aggregation import FIXED_SHARE
from vcsbench.statistics.calls import call_ratios
from vcsbench.statistics.comparisons import CALLED_ROUNDS, Limits, StartUpShares, start_up_explains
from vcsbench.statistics.estimates import Estimate, ratio_interval
from vcsbench.statistics.noise import Noise

# The values of a cell on all axes.
Cell = tuple[str, ...]
# The logarithm of the seconds of each round, by its number.
Logs = Mapping[float, float]


def compare_choices(
    where: AxisValues, rows: pd.DataFrame, axes: Sequence[str], noise: Noise, limits: Limits
) -> Situation:
    """Return the choices in a situation, the fastest one first, or the reason why none is best.

    A situation has the values that a reader cannot choose. It is `where`: `{"command": "log", "cache":
    "cold"}`. Each cell with these values is one choice, such as f7 and packed. `rows` has a row for each
    cell, host and round of the situation (by_round). Only cells that did the same work, such as 6,000
    revisions, are compared.
    """
    # A command with `work: unchecked` does different work than others by design, so its time shows nothing
    # about a choice.
    rows = rows[~rows["work"].map(same_work.is_unchecked).astype(bool)]
    cells = {tuple(map(str, key)): rounds for key, rounds in group_rows(rows, axes)}
    # All rows of a cell have the same text. It has a line for each different work of the cell's rounds.
    works = {cell: rounds["work"].iloc[0] for cell, rounds in cells.items()}
    # A cell that exported less was faster for that reason. So only the cells with the most frequent work,
    # `alike`, are compared. There are none if two works are equally frequent, or if no work is known.
    alike = same_work.majority(works)
    values_by_cell = {cell: _values_to_choose(cell, axes, where) for cell in cells}
    other_work = []
    log_times: dict[Cell, Logs] = {}
    for cell, rounds in cells.items():
        if cell not in alike:
            other_work.append(_other_work(values_by_cell[cell], cell, works, alike))
        # One round has no scatter, so it is not compared.
        elif len(rounds) >= CALLED_ROUNDS:
            log_times[cell] = _log_time_by_round(rounds)

    why = _why_no_best(rows, cells, alike, log_times)
    if why:
        return Situation(where, why=why, other_work=other_work)
    # The share of start-up is nearly always the same in all rounds of a cell, so the last one will do.
    shares = {cell: cells[cell][FIXED_SHARE].iloc[-1] for cell in log_times}
    choices = _rank_choices(log_times, shares, values_by_cell, noise, limits)
    # choices[0] is the fastest. None is best if all others are too small to compare.
    if all(choice.call == Call.TOO_SMALL for choice in choices[1:]):
        return Situation(where, why=WhyNoBest.TOO_SMALL, other_work=other_work)
    return Situation(where, choices, other_work=other_work)


def _values_to_choose(cell: Cell, axes: Sequence[str], where: AxisValues) -> AxisValues:
    """Return the values of a cell on the axes that `where` lacks: {"format": "f7", "packing": "pack"}."""
    items = zip(axes, cell, strict=True)
    # An axis that does not apply to the cell has the value "".
    return {axis: value for axis, value in items if value and axis not in where}


def _log_time_by_round(rounds: pd.DataFrame) -> Logs:
    times = zip(rounds["round"], rounds[DEFAULT_METRIC], strict=True)
    return {number: math.log(time) for number, time in times}


def _why_no_best(
    rows: pd.DataFrame,
    cells: Collection[Cell],
    alike: Collection[Cell],
    compared: Collection[Cell],
) -> WhyNoBest | None:
    """Return why none of the cells is best, None if two or more can be compared.

    `rows` has the rounds of all `cells`. `alike` are the cells with the most frequent work: none if two works
    are equally frequent, or if no work is known. `compared` are the cells of `alike` with two or more rounds.
    """
    # Hosts differ in speed, so times of several hosts are never compared.
    if rows["host"].nunique() > 1:
        return WhyNoBest.SEVERAL_HOSTS
    if len(compared) >= 2:
        return None
    if alike and not compared:
        return WhyNoBest.FEW_ROUNDS
    # There are further cells, but their work is different or unknown.
    if len(alike) < len(cells):
        return WhyNoBest.OTHER_WORK
    return WhyNoBest.ONE_CHOICE


def _rank_choices(
    log_times: Mapping[Cell, Logs],
    shares: Mapping[Cell, float],
    values_by_cell: Mapping[Cell, AxisValues],
    noise: Noise,
    limits: Limits,
) -> list[Choice]:
    """Return the choices, the fastest one first, each with its factor and outcome against the fastest one.

    Each cell is a choice. `log_times` has two cells or more. `shares` has the share of start-up (process
    start and connection) in the time of each cell, 0 to 1, NaN if it is unknown. `values_by_cell` has the
    values that a reader chooses with each cell.
    """
    means = _common_means(log_times)
    # Cells with equal means are sorted by their values, so that the order is always the same.
    best, *other_cells = sorted(means, key=lambda cell: (means[cell], cell))
    ratios = []
    for cell in other_cells:
        by_rounds = _paired_ratio(log_times[cell], log_times[best])
        # A few rounds give an uncertain error. with_error() includes the noise of the study.
        ratios.append(noise.with_error(by_rounds, [(best, cell)]))
    # SLOWER is the call of a ratio above 1. FASTER is possible, because a ratio may be over other rounds than
    # `means`. Many comparisons find some differences by chance, so call_ratios() corrects for their number.
    calls = call_ratios(ratios, noise.has_duplicates, (Call.SLOWER, Call.FASTER), limits)
    choices = [Choice(values_by_cell[best], seconds=math.exp(means[best]), call=Call.EQUAL)]
    for cell, ratio, call in zip(other_cells, ratios, calls, strict=True):
        seconds = math.exp(means[cell])
        # If the interval reaches below 1, the cell may take as long as the best one.
        least_factor = max(ratio.low, 1.0)
        start_up = StartUpShares(fast=shares[best], slow=shares[cell], least_factor=least_factor)
        outcome = _outcome_of_choice(call, start_up, seconds, limits)
        # The file of the advice cannot store NaN, so the quotient of the means replaces an unknown ratio.
        has_ratio = math.isfinite(ratio.value)
        factor = ratio.value if has_ratio else math.exp(means[cell] - means[best])
        choices.append(Choice(values_by_cell[cell], seconds, factor, outcome))
    return choices


def _paired_ratio(logs: Logs, logs_of_best: Logs) -> Estimate:
    """Return the time of a cell divided by the time of the best one, over the rounds that both have.

    Without a round that both have, the quotient is NaN.
    """
    log_ratios = [logs[number] - log for number, log in logs_of_best.items() if number in logs]
    return ratio_interval(log_ratios)


def _outcome_of_choice(
    call: Call | None, start_up: StartUpShares, seconds: float, limits: Limits
) -> Call:
    """Return the outcome of a choice against the fastest one: its call, TOO_SMALL if its time shows nothing.

    `call` is about the ratio of both times, None if no round has both. The choice takes `seconds`.
    """
    # Two times that are mostly start-up are equal whatever the work. So EQUAL is replaced, too.
    if start_up_explains(start_up, is_difference=call == Call.SLOWER):
        return Call.TOO_SMALL
    if call is None:
        return Call.UNDECIDED
    # As in tables, short runs decide nothing (the key `decides_from_s` of the study). This choice is the
    # slower side, so both sides are short.
    if seconds < limits.decides_from_s:
        return Call.TOO_SMALL
    return call


def _common_means(logs: Mapping[Cell, Logs]) -> dict[Cell, float]:
    """Return the mean logarithm of each cell's time over the rounds that all cells have.

    If fewer than two rounds are common to all cells, each cell has the mean of all its own rounds.
    """
    # The machine may become slower from round to round, so means over different rounds are hardly comparable.
    rounds = [set(by_round) for by_round in logs.values()]
    common = set.intersection(*rounds)
    means = {}
    for cell, by_round in logs.items():
        used = [log for number, log in by_round.items() if number in common]
        if len(used) < CALLED_ROUNDS:
            used = list(by_round.values())
        means[cell] = math.fsum(used) / len(used)
    return means


def _other_work(
    values: AxisValues, cell: Cell, works: Mapping[Cell, str], alike: set[Cell]
) -> OtherWork:
    """Return the work of a cell with the work of another cell, from which it differs.

    `values` are those that a reader chooses with the cell. `works` has the work of each cell. `alike` are the
    cells with the most frequent work, without this cell. It is empty if two works are equally frequent, or if
    no work is known.
    """
    work = works[cell]
    if not _is_comparable(work):
        return OtherWork(values, work, compared="")
    # Without a most frequent work, the first cell whose work is known and different is compared. There is
    # one: if all known works were equal, they would be the most frequent work, and `alike` would have `cell`.
    compared = alike or set(works)
    other_works = [other for name, other in works.items() if name in compared and other != work]
    known_works = [other for other in other_works if _is_comparable(other)]
    return OtherWork(values, work, known_works[0])


def _is_comparable(work: str) -> bool:
    """Return False if the work of a cell is unknown, or if its rounds did different work."""
    # The reason of a refusal names neither a command nor a cell, because both names are "".
    return same_work.refusal("", {"": work}) is None

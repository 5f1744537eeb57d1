"""The best combination of values in each situation, such as the cold log of one repository."""

import math
from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from vcsbench.advice.cards import Choice, Situation
from vcsbench.codes import Call, WhyNoBest
from vcsbench.evidence import same_work
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT_METRIC
from vcsbench.plan.grid import AxisValues
from vcsbench.statistics.aggregation import FIXED_SHARE
from vcsbench.statistics.calls import call_ratios
from vcsbench.statistics.comparisons import CALLED_ROUNDS, Limits, StartUpShares, start_up_explains
from vcsbench.statistics.estimates import ratio_interval
from vcsbench.statistics.noise import Noise

# The values of a cell on all axes.
Cell = tuple[str, ...]
# The logarithm of the seconds of each round, by its number.
Logs = Mapping[float, float]


def compare_choices(
    where: AxisValues, rows: pd.DataFrame, axes: Sequence[str], noise: Noise, limits: Limits
) -> Situation:
    """Return the choices in a situation, the fastest one first, or the reason why none is best.

    `where` has the values that a reader cannot choose: `{"command": "log", "cache": "cold"}`. `rows` has a
    row for each cell, host and round in this situation (by_round), and each cell is one choice.
    """
    # A command with `work: unchecked` does different work than others by design, so its time shows nothing
    # about a choice.
    rows = rows[~rows["work"].map(same_work.is_unchecked).astype(bool)]
    cells = {tuple(map(str, key)): rounds for key, rounds in group_rows(rows, axes)}
    # All rows of a cell have the same text in `work`: the different works of all its rounds.
    works = {cell: rounds["work"].iloc[0] for cell, rounds in cells.items()}
    # Only cells with the most frequent work are compared: a cell that exported less was faster for that
    # reason. `alike` is empty if no work is the most frequent one.
    alike = same_work.majority(works)
    values_by_cell = {}
    other_work = []
    log_times: dict[Cell, Logs] = {}
    for cell, rounds in cells.items():
        # A reader chooses the values on all axes that `where` does not have.
        items = zip(axes, cell, strict=True)
        values = {axis: value for axis, value in items if value and axis not in where}
        values_by_cell[cell] = values
        if cell not in alike:
            other_work.append((values, _difference(cell, works, alike)))
        # One round has no scatter, so it is not compared.
        elif len(rounds) >= CALLED_ROUNDS:
            times = zip(rounds["round"], rounds[DEFAULT_METRIC], strict=True)
            log_times[cell] = {number: math.log(time) for number, time in times}

    why = _why_no_best(rows, cells, alike, log_times)
    if why:
        return Situation(where, why=why, other_work=other_work)
    # The rounds of a cell have the same share of start-up, so the last one will do. (Only a series of cold
    # and warm runs may have another share, after invalid runs.)
    shares = {cell: cells[cell][FIXED_SHARE].iloc[-1] for cell in log_times}
    choices = _rank_choices(log_times, shares, values_by_cell, noise, limits)
    # choices[0] is the fastest. None is best if all others are too small to compare.
    if all(choice.call == Call.TOO_SMALL for choice in choices[1:]):
        return Situation(where, why=WhyNoBest.TOO_SMALL, other_work=other_work)
    return Situation(where, choices, other_work=other_work)


def _why_no_best(
    rows: pd.DataFrame,
    cells: Collection[Cell],
    alike: Collection[Cell],
    compared: Collection[Cell],
) -> WhyNoBest | None:
    """Return why the cells of a situation cannot be compared, None if two or more can.

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
    # Cells with different or unknown work would be further choices. So their work is the reason.
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

    `log_times` has two cells or more. `shares` has the share of start-up in the time of each cell (0 to 1),
    NaN if it is unknown. `values_by_cell` has the values that a reader chooses with each cell.
    """
    means = _common_means(log_times)
    # Cells with equal means are sorted by their values, so that the order is always the same.
    best, *other_cells = sorted(means, key=lambda cell: (means[cell], cell))
    logs_of_best = log_times[best]
    # The ratios other / best: above 1, the other cell is slower.
    ratios = []
    for cell in other_cells:
        logs = log_times[cell]
        log_ratios = [logs[number] - log for number, log in logs_of_best.items() if number in logs]
        # A few rounds give an uncertain error. with_error() includes the noise of the study.
        ratios.append(noise.with_error(ratio_interval(log_ratios), [(best, cell)]))
    # Many comparisons find some differences by chance, so call_ratios() corrects for their number. FASTER is
    # possible: `best` is the fastest over the common rounds of all cells, but a ratio may have more rounds.
    calls = call_ratios(ratios, noise.has_duplicates, (Call.SLOWER, Call.FASTER), limits)
    choices = [Choice(values_by_cell[best], seconds=math.exp(means[best]), call=Call.EQUAL)]
    for cell, ratio, call in zip(other_cells, ratios, calls, strict=True):
        # If the interval reaches below 1, the cell may take as long as the best one.
        least_factor = max(ratio.low, 1.0)
        start_up = StartUpShares(fast=shares[best], slow=shares[cell], least_factor=least_factor)
        # As in tables, short runs decide nothing (the key `decides_from_s` of the study). This cell is the
        # slower side. Without a common round, there is no outcome (None) to replace.
        is_short = call is not None and math.exp(means[cell]) < limits.decides_from_s
        # EQUAL becomes TOO_SMALL, too: times of mostly start-up, or of short runs, show nothing.
        if start_up_explains(start_up, is_difference=call == Call.SLOWER) or is_short:
            outcome = Call.TOO_SMALL
        else:
            outcome = call or Call.UNDECIDED
        # The file of the advice cannot store NaN, so the quotient of the means replaces an unknown ratio.
        has_ratio = math.isfinite(ratio.value)
        factor = ratio.value if has_ratio else math.exp(means[cell] - means[best])
        choices.append(Choice(values_by_cell[cell], math.exp(means[cell]), factor, outcome))
    return choices


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


def _difference(cell: Cell, works: Mapping[Cell, str], alike: set[Cell]) -> str:
    """Return in which figures the work of a cell differs from that of other cells: `9 files against 10`.

    `alike` has the cells with the most frequent work. It may be empty, and does not have this cell.
    """
    # A cell with unknown work, or whose rounds did different work, cannot be compared at all. The name "" is
    # for a reason that names no cell.
    refusal = same_work.refusal("", {"": works[cell]})
    if refusal:
        return refusal.reason
    # Without a majority, the cell is compared with the first cell whose work is known and different. There is
    # one: if all known works were equal, they would be the majority, and this cell would be in `alike`.
    compared = alike or set(works)
    other_works = [work for name, work in works.items() if name in compared and work != works[cell]]
    known_works = [work for work in other_works if not same_work.refusal("", {"": work})]
    return same_work.difference(works[cell], known_works[0])

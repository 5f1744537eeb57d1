"""The best combination of values in each situation, such as the cold log of one repository."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from vcsbench.advice.cards import Choice, Situation
from vcsbench.advice.decision import Where
from vcsbench.codes import Call, WhyNoBest
from vcsbench.evidence import same_work
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT
from vcsbench.statistics.aggregation import FIXED_SHARE
from vcsbench.statistics.comparisons import CALLED_ROUNDS, Limits, can_be_start_up
from vcsbench.statistics.estimates import calls_of, ratio_interval
from vcsbench.statistics.noise import Noise

Cell = tuple[str, ...]


def situation_of(
    where: Where, rows: pd.DataFrame, axes: Sequence[str], noise: Noise, limits: Limits
) -> Situation:
    """Return the choices, the fastest one first; comparisons with it are corrected as one family.

    `rows` come from by_round in the situation, whose cells `axes` identify.
    """
    rows = rows[~rows["work"].map(same_work.is_unchecked).astype(bool)]
    cells = {tuple(map(str, key)): rounds for key, rounds in group_rows(rows, axes)}
    works = {cell: rounds["work"].iloc[0] for cell, rounds in cells.items()}

    def values_of_choice(cell: Cell) -> dict[str, str]:
        values = zip(axes, cell, strict=True)
        return {axis: value for axis, value in values if value and axis not in where}

    # Only choices that did the same work are compared.
    alike = same_work.majority(works)
    other_work = [
        (values_of_choice(cell), _difference(cell, works, alike))
        for cell in cells
        if cell not in alike
    ]
    logs = _logs_by_round({cell: cells[cell] for cell in cells if cell in alike})
    means = _common_means(logs)
    why = None
    if rows["host"].nunique() > 1:
        why = WhyNoBest.SEVERAL_HOSTS
    elif len(cells) > 1 and not alike:
        why = WhyNoBest.OTHER_WORK
    elif alike and not logs:
        why = WhyNoBest.FEW_ROUNDS
    elif len(logs) < 2:
        # If another choice did other work, that is the reason for only one.
        why = WhyNoBest.OTHER_WORK if other_work else WhyNoBest.ONE_CHOICE
    if why:
        return Situation(where, why=why, other_work=other_work)
    best, *others = sorted(means, key=lambda cell: (means[cell], cell))
    ratios = []
    for cell in others:
        shared = [logs[cell][n] - log for n, log in logs[best].items() if n in logs[cell]]
        ratios.append(noise.with_error(ratio_interval(shared), [(best, cell)]))
    # The best choice is the candidate: a ratio above 1 means that the other one is slower.
    slower = (Call.SLOWER, Call.FASTER)
    calls = calls_of(ratios, noise.has_duplicates, slower, limits)
    shares = {cell: cells[cell][FIXED_SHARE].iloc[-1] for cell in means}
    choices = [Choice(values_of_choice(best), math.exp(means[best]), call=Call.EQUAL)]
    for cell, ratio, call in zip(others, ratios, calls, strict=True):
        if can_be_start_up(shares[best], shares[cell], max(ratio.low, 1.0)):
            call = Call.TOO_SMALL
        seconds = math.exp(means[cell])
        choices.append(Choice(values_of_choice(cell), seconds, ratio.value, call or Call.UNDECIDED))
    if all(choice.call == Call.TOO_SMALL for choice in choices[1:]):
        return Situation(where, why=WhyNoBest.TOO_SMALL, other_work=other_work)
    return Situation(where, choices, other_work=other_work)


def _logs_by_round(cells: Mapping[Cell, pd.DataFrame]) -> dict[Cell, dict[float, float]]:
    """Return the logarithms of the times by round, of the cells with enough rounds."""
    logs = {}
    for cell, rounds in cells.items():
        if len(rounds) >= CALLED_ROUNDS:
            times = zip(rounds["round"], rounds[DEFAULT], strict=True)
            logs[cell] = {number: math.log(time) for number, time in times}
    return logs


def _common_means(logs: Mapping[Cell, Mapping[float, float]]) -> dict[Cell, float]:
    """Return the mean of each cell over the rounds that all have, if these are enough.

    The machine may drift from round to round.
    """
    common = set.intersection(*(set(by_round) for by_round in logs.values())) if logs else set()
    means = {}
    for cell, by_round in logs.items():
        used = [log for number, log in by_round.items() if number in common]
        if len(used) < CALLED_ROUNDS:
            used = list(by_round.values())
        means[cell] = math.fsum(used) / len(used)
    return means


def _difference(cell: Cell, works: Mapping[Cell, str], alike: set[Cell]) -> str:
    """Return in which figures the work of a choice differs from the others."""
    refusal = same_work.refusal("", {"": works[cell]})
    if refusal:
        return refusal.reason
    known = [works[c] for c in alike or works if not same_work.refusal("", {"": works[c]})]
    other = next(work for work in known if work != works[cell])
    return same_work.difference(works[cell], other)

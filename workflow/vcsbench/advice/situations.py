"""The best choice in each situation: the cells that agree on all axes that a reader cannot choose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from vcsbench.advice.cards import Choice, Situation
from vcsbench.advice.decision import Cell, Where
from vcsbench.evidence import same_work
from vcsbench.evidence.flags import DECIDING_SHARE
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT, metric_of
from vcsbench.statistics.aggregation import FIXED_SHARE
from vcsbench.statistics.comparisons import NOT_SHOWN, TOO_SMALL, Limits
from vcsbench.statistics.estimates import calls_of, ratio_interval
from vcsbench.statistics.noise import Noise


def situation_of(
    where: Where, rows: pd.DataFrame, axes: Sequence[str], noise: Noise, limits: Limits
) -> Situation:
    """Return the choices; comparisons with the best one are corrected as one family.

    `rows` are those of by_round in the situation, whose cells `axes` identify.
    """
    rows = rows[~rows["work"].map(same_work.is_unchecked).astype(bool)]
    cells = {tuple(map(str, key)): of for key, of in group_rows(rows, axes)}
    works = {cell: of["work"].iloc[0] for cell, of in cells.items()}

    def choice(cell: Cell) -> dict[str, str]:
        values = zip(axes, cell, strict=True)
        return {axis: value for axis, value in values if value and axis not in where}

    same = same_work.majority(works)
    other = [(choice(c), _difference(c, works, same)) for c in cells if c not in same]
    most = max(map(len, cells.values()), default=0)
    logs = {
        cell: {n: math.log(time) for n, time in zip(of["round"], of[DEFAULT], strict=True)}
        for cell, of in cells.items()
        if cell in same and len(of) == most
    }
    means = {cell: math.fsum(of.values()) / len(of) for cell, of in logs.items()}
    best, *others = sorted(means, key=lambda cell: (means[cell], cell)) or [()]
    why_not = ""
    if len(hosts := sorted({*rows["host"]})) > 1:
        why_not = f"measured on several machines ({', '.join(hosts)})"
    elif most < limits.min_rounds:
        why_not = f"only {most} of at least {limits.min_rounds} rounds measured"
    elif not others:
        why_not = "one choice only"
    elif cells[best][FIXED_SHARE].iloc[-1] > DECIDING_SHARE:
        why_not = f"{TOO_SMALL}: mostly start-up"
    if why_not:
        return Situation(where, why_not=why_not, other_work=other)
    ratios = []
    for cell in others:
        shared = [logs[cell][n] - log for n, log in logs[best].items() if n in logs[cell]]
        ratios.append(noise.with_error(ratio_interval(shared), [(best, cell)]))
    verbs = metric_of(DEFAULT).calls
    calls = calls_of(ratios, noise.has_duplicates, verbs, limits)
    choices = [Choice(choice(best), math.exp(means[best]), is_equal=True)]
    for cell, estimate, call in zip(others, ratios, calls, strict=True):
        of_call = call == verbs[0], call == NOT_SHOWN
        choices.append(Choice(choice(cell), math.exp(means[cell]), estimate.value, *of_call))
    return Situation(where, choices, other_work=other)


def _difference(cell: Cell, works: Mapping[Cell, str], same: set[Cell]) -> str:
    if refusal := same_work.refusal("", {"": works[cell]}):
        return refusal.reason
    known = [works[c] for c in same or works if not same_work.refusal("", {"": works[c]})]
    return same_work.difference(works[cell], next(w for w in known if w != works[cell]))

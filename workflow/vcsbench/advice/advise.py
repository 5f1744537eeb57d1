"""Advice on a study: cards, the best choice in each situation, and the choices with less work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from vcsbench.advice.builds import geometric_mean, with_candidates
from vcsbench.advice.cards import Advice, Choice, Situation, card_of
from vcsbench.advice.decision import (
    Cell,
    Row,
    Table,
    Where,
    cases_of,
    compares_times,
    missing_values,
)
from vcsbench.advice.labels import factors, value_label
from vcsbench.advice.questions import CardQuestion
from vcsbench.config.study import TableDefinition
from vcsbench.evidence import same_work
from vcsbench.evidence.flags import DECIDING_SHARE
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT, metric_in, metric_of
from vcsbench.statistics.aggregation import FIXED_SHARE, MEAN, by_round
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, NOT_SHOWN, TOO_NOISY, TOO_SMALL, Limits
from vcsbench.statistics.estimates import calls_of, ratio_interval
from vcsbench.statistics.noise import Noise, noise_by_metric
from vcsbench.statistics.tables import make_table
from vcsbench.words import is_number


@dataclass(frozen=True)
class AdviceSettings:
    """A study as advice needs it. `scenario_axes` cannot be chosen by a reader; `workload` has weight,
    name and where of each operation."""

    order: Mapping[str, list[str]]
    scenario_axes: Sequence[str]
    block: Sequence[str]
    questions: Sequence[CardQuestion] = ()
    workload: Sequence[Row] = ()
    limits: Limits = DEFAULT_LIMITS


def advise(
    settings: AdviceSettings,
    frame: pd.DataFrame,
    tables: Sequence[Table] = (),
    grid: Sequence[Row] = (),
    failures: Sequence[Row] = (),
) -> Advice:
    """Return the advice. `tables` compare, `grid` and `failures` are rows of their files."""
    axes, effect = list(settings.order), settings.limits.min_effect_pct
    rounds = by_round(frame, axes, MEAN)
    noise = noise_by_metric(frame, axes, settings.block, rounds)(DEFAULT)
    times = geometric_means(rounds, axes)
    cards = []
    for question in settings.questions:
        axis = question.axis
        compared = [table for table in tables if compares_times(table[0], axis)]
        compared = compared or _table_of(axis, settings, frame)
        reference = str(compared[0][0]["compare"]["baseline"]) if compared else ""
        cases = cases_of(axis, compared, axes, question.values, times)
        missing = missing_values(axis, cases, grid, failures)
        card = card_of(question, reference, axes, cases, effect, settings.workload, missing)
        if question.aggregate:
            mean = partial(geometric_mean, rounds, axis, axes, settings.block, noise)
            card = with_candidates(card, mean)
        cards.append(card)
    scenario_axes = [axis for axis in settings.scenario_axes if axis in axes]
    situations = []
    # One answer over all cells leaves nothing to choose in a situation.
    has_choice = not cards or any(not card.question.aggregate for card in cards)
    for _, rows in group_rows(rounds, scenario_axes) if has_choice else ():
        where = {axis: str(rows[axis].iloc[0]) for axis in scenario_axes}
        situations.append(_situation_of(where, rows, axes, noise, settings.limits))
    return Advice(cards, situations, less_work(tables, effect), effect, settings.workload)


def _table_of(axis: str, settings: AdviceSettings, frame: pd.DataFrame) -> list[Table]:
    """Return the table that compares the first measured value of an axis with any others."""
    baseline, *others = [v for v in settings.order[axis] if v in {*frame[axis]}] or [""]
    if not others:
        return []
    definition: TableDefinition = {
        "compare": {"axis": axis, "baseline": baseline, "candidates": others},
        "rows": [],
        "columns": [],
    }
    table = make_table(frame, axis, definition, settings.order, settings.block, settings.limits)
    return [(definition, table.to_dict("records"))]


def _situation_of(
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


def geometric_means(rounds: pd.DataFrame, axes: Sequence[str]) -> dict[Cell, float]:
    """Return seconds by cell."""
    cells = group_rows(rounds[rounds[DEFAULT] > 0], axes)[DEFAULT]
    logs = {tuple(map(str, cell)): [math.log(time) for time in times] for cell, times in cells}
    return {cell: math.exp(math.fsum(of) / len(of)) for cell, of in logs.items()}


def less_work(tables: Iterable[Table], min_effect_pct: float) -> list[str]:
    """Return a sentence per exact metric and candidate with less or more work."""
    sentences, least = [], 1 + min_effect_pct / 100
    for definition, rows in tables:
        metric, compare = metric_in(definition), definition["compare"]
        axis, baseline = compare["axis"], compare["baseline"]
        ratios: dict[str, list[float]] = {str(row["candidate"]): [] for row in rows}
        for row in rows if metric.exact else ():
            if is_number(row.get("ratio")) and (row.get("call") or "") not in ("", TOO_NOISY):
                ratios[str(row["candidate"])].append(row["ratio"])
        for candidate, known in ratios.items():
            less, more = [r for r in known if r >= least], [1 / r for r in known if 1 / r >= least]
            for who, other, sizes in ((candidate, baseline, less), (baseline, candidate, more)):
                if sizes:
                    first, second = (value_label(axis, value) for value in (who, other))
                    amount = f"{factors(sizes)} fewer {metric.quantity} than {second}"
                    sentences.append(f"{first}: {amount} in {len(sizes)} of {len(known)} cases.")
    return sentences

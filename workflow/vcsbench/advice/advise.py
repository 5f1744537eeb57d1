"""Advice on a study: cards, the best choice in each situation, and the choices with less work."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from vcsbench.advice import decision, labels
from vcsbench.advice.answer_texts import in_cases
from vcsbench.advice.candidates import geometric_mean, with_candidates
from vcsbench.advice.cards import Advice, Card, Situation, card_of
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import CardQuestion
from vcsbench.advice.situations import situation_of
from vcsbench.codes import Result
from vcsbench.config.study import TableDefinition
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT, metric_in
from vcsbench.statistics.aggregation import MEAN, by_round
from vcsbench.statistics.comparisons import (
    DEFAULT_LIMITS,
    Limits,
    comparison_rows,
    is_difference,
)
from vcsbench.statistics.noise import Noise, noise_by_metric
from vcsbench.statistics.tables import make_table

# The definition of a table, and its rows.
Table = tuple[Mapping[str, Any], Sequence[Row]]


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
    cards = []
    for question in settings.questions:
        card = _card(question, settings, frame, tables, grid, failures)
        # A question with one measured value has nothing to choose.
        if not (card.cases or card.withheld or card.missing):
            continue
        if question.aggregate:
            axis, block = question.axis, settings.block
            mean = partial(geometric_mean, rounds, axis, axes, block, noise)
            card = with_candidates(card, mean)
        cards.append(card)
    # One answer over all cells leaves nothing to choose in a situation.
    is_aggregate = [question.aggregate for question in settings.questions]
    situations = []
    if not is_aggregate or not all(is_aggregate):
        situations = _situations(settings, rounds, noise)
    return Advice(cards, situations, less_work(tables, effect), effect, settings.workload)


def _card(
    question: CardQuestion,
    settings: AdviceSettings,
    frame: pd.DataFrame,
    tables: Sequence[Table],
    grid: Sequence[Row],
    failures: Sequence[Row],
) -> Card:
    """Return the card of a question, from the tables that compare times of its axis."""
    axis, axes = question.axis, list(settings.order)
    compared = [table for table in tables if decision.compares_times(table[0], axis)]
    if not compared:
        compared = _table_of(axis, settings, frame)
    reference = str(compared[0][0]["compare"]["baseline"]) if compared else ""
    rows = [row for _, rows_of_table in compared for row in rows_of_table]
    cases, withheld = decision.cases_of(axis, rows, axes, question.values)
    missing = decision.missing_values(axis, cases, grid, failures)
    effect, workload = settings.limits.min_effect_pct, settings.workload
    return card_of(question, reference, axes, cases, effect, workload, missing, withheld)


def _table_of(axis: str, settings: AdviceSettings, frame: pd.DataFrame) -> list[Table]:
    """Return the table that compares the first measured value of an axis with any others."""
    measured = {*frame[axis]}
    values = [value for value in settings.order[axis] if value in measured]
    if len(values) < 2:
        return []
    definition: TableDefinition = {
        "compare": {"axis": axis, "baseline": values[0], "candidates": values[1:]},
        "rows": [],
        "columns": [],
    }
    table = make_table(frame, axis, definition, settings.order, settings.block, settings.limits)
    return [(definition, table.to_dict("records"))]


def _situations(settings: AdviceSettings, rounds: pd.DataFrame, noise: Noise) -> list[Situation]:
    axes = list(settings.order)
    scenario_axes = [axis for axis in settings.scenario_axes if axis in axes]
    situations = []
    for _, rows in group_rows(rounds, scenario_axes):
        where = {axis: str(rows[axis].iloc[0]) for axis in scenario_axes}
        situations.append(situation_of(where, rows, axes, noise, settings.limits))
    return situations


def less_work(tables: Iterable[Table], min_effect_pct: float) -> list[str]:
    """Return a sentence per exact metric and candidate with less or more work."""
    sentences = []
    least = 1 + min_effect_pct / 100
    for definition, records in tables:
        metric, compare = metric_in(definition), definition["compare"]
        if not metric.exact:
            continue
        axis, baseline = compare["axis"], compare["baseline"]
        ratios: dict[str, list[float]] = {}
        for row in comparison_rows(records):
            is_answered = is_difference(row.call) or row.result == Result.EQUAL
            if row.has_ratio and is_answered:
                ratios.setdefault(row.candidate, []).append(row.ratio)
        for candidate, known in ratios.items():
            less = [ratio for ratio in known if ratio >= least]
            more = [1 / ratio for ratio in known if 1 / ratio >= least]
            for who, other, sizes in ((candidate, baseline, less), (baseline, candidate, more)):
                if sizes:
                    first, second = (labels.value_label(axis, value) for value in (who, other))
                    amount = f"{labels.factors(sizes)} fewer {metric.quantity} than {second}"
                    sentences.append(f"{first}: {amount}{in_cases(len(sizes), len(known))}.")
    return sentences

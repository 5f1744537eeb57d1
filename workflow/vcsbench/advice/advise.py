"""All advice on a study: the cards, the best choice in each situation, and what needs less work."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd

from vcsbench.advice.aggregate import Rounds, with_aggregate
from vcsbench.advice.cards import Card, Question, card_data, card_of
from vcsbench.advice.cases import Row, Table, cases_of, missing_values
from vcsbench.advice.situations import less_work, situations
from vcsbench.metrics import DEFAULT, metric_in, metric_of
from vcsbench.statistics.aggregation import MEAN, by_round
from vcsbench.statistics.contract import DEFAULT_LIMITS, Limits
from vcsbench.statistics.noise import noise_of
from vcsbench.statistics.tables import make_table


@dataclass(frozen=True)
class StudyTerms:
    """A study as advice needs it: axes with their values in order, the axes that a reader cannot choose,
    those of a block, the questions, and the workload (weight, name and where of each part)."""

    order: Mapping[str, Sequence[str]]
    scenario_axes: Sequence[str]
    block: Sequence[str]
    questions: Sequence[Question] = ()
    workload: Sequence[Mapping[str, Any]] = ()
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True)
class StudyResults:
    """The measurements, the tables that compare, the grid and the failures of a study."""

    frame: pd.DataFrame
    tables: Sequence[Table] = ()
    grid: Sequence[Row] = field(default_factory=list)
    failures: Sequence[Row] = field(default_factory=list)


def advise(terms: StudyTerms, results: StudyResults) -> dict[str, Any]:
    """Return the advice as plain data: `cards`, `situations`, `less_work`, `min_effect_pct`."""
    axes = list(terms.order)
    rounds = by_round(results.frame, axes, MEAN)
    noise = noise_of(results.frame, axes, terms.block, metric_of(DEFAULT), rounds)
    of_rounds = Rounds(rounds, axes, terms.block, noise)
    timed = [table for table in results.tables if not metric_in(table[0]).exact]
    counted = [table for table in results.tables if metric_in(table[0]).exact]
    cards = [_card(q, terms, results, timed, of_rounds) for q in terms.questions]
    by_situation = situations(rounds, axes, terms.scenario_axes, noise, terms.limits)
    effect = terms.limits.min_effect_pct
    return {
        "cards": [card_data(card) for card in cards],
        "situations": [_finite(asdict(one)) for one in by_situation],
        "less_work": less_work(counted, effect),
        "min_effect_pct": effect,
    }


def _card(
    question: Question,
    terms: StudyTerms,
    results: StudyResults,
    tables: Sequence[Table],
    rounds: Rounds,
) -> Card:
    axes, axis = list(terms.order), question.axis
    of_axis = [t for t in tables if (t[0].get("compare") or {}).get("axis") == axis]
    of_axis = of_axis or _made_table(axis, terms, results.frame)
    baselines = [str(definition["compare"]["baseline"]) for definition, _ in of_axis]
    cases = cases_of(axis, of_axis, axes, question.values, geometric_means(rounds.frame, axes))
    missing = missing_values(axis, cases, results.grid, results.failures)
    effect = terms.limits.min_effect_pct
    reference = baselines[0] if baselines else ""
    card = card_of(question, reference, axes, cases, effect, terms.workload, missing)
    return with_aggregate(card, rounds) if question.aggregate else card


def _made_table(axis: str, terms: StudyTerms, frame: pd.DataFrame) -> list[Table]:
    """Compare an axis that no table of the study compares: its first value with the others."""
    present = set(frame[axis])
    first, *others = [value for value in terms.order[axis] if value in present] or [""]
    if not others:
        return []
    definition = {"compare": {"axis": axis, "baseline": first, "candidates": others}}
    order = {name: list(values) for name, values in terms.order.items()}
    made = make_table(frame, axis, definition, order, terms.block, terms.limits)
    return [(definition, made.to_dict("records"))]


def geometric_means(rounds: pd.DataFrame, axes: Sequence[str]) -> dict[tuple[str, ...], float]:
    """Return the geometric mean of each cell's rounds in seconds, by the cell's axis values."""
    logs: dict[tuple[str, ...], list[float]] = {}
    for row in rounds.to_dict("records"):
        if row[DEFAULT] > 0:
            cell = tuple(str(row[axis]) for axis in axes)
            logs.setdefault(cell, []).append(math.log(row[DEFAULT]))
    return {cell: math.exp(math.fsum(of) / len(of)) for cell, of in logs.items()}


def _finite(data: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN by None, which JSON can hold."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in data.items()
    }

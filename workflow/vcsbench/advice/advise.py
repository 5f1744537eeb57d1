"""Advice on a study: cards, the best choice in each situation, and the choices with less work."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from vcsbench.advice import decision, labels
from vcsbench.advice.answer_texts import OF_AMOUNTS, in_cases
from vcsbench.advice.candidates import CaseAverages, with_candidates
from vcsbench.advice.capacity_card import make_capacity_card
from vcsbench.advice.cards import Advice, Card, RoleAnswer, Situation, fits, make_card
from vcsbench.advice.decision import Row, WeightedOperation
from vcsbench.advice.questions import CardQuestion
from vcsbench.advice.situations import compare_choices
from vcsbench.codes import Result
from vcsbench.config.study import TableDefinition
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT_METRIC, metric_in, name_in
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
    """A study as advice needs it.

    `order` has the axes with their values, in the study's order. `scenario_axes` are those whose values a
    reader cannot choose, such as the command. Cells with equal values of the axes `block` run next to each
    other in each round.
    """

    order: Mapping[str, list[str]]
    scenario_axes: Sequence[str]
    block: Sequence[str]
    questions: Sequence[CardQuestion] = ()
    workload: Sequence[WeightedOperation] = ()
    limits: Limits = DEFAULT_LIMITS


class _Results(NamedTuple):
    """The results of a study. For its fields see the parameters of advise()."""

    frame: pd.DataFrame
    tables: Sequence[Table]
    grid: Sequence[Row]
    failures: Sequence[Row]


def advise(
    settings: AdviceSettings,
    frame: pd.DataFrame,
    tables: Sequence[Table] = (),
    grid: Sequence[Row] = (),
    failures: Sequence[Row] = (),
) -> Advice:
    """Return the advice on a study: cards, the best choice in each situation, and sentences on counts.

    `frame` has a row for each run (measurements.csv). `tables` are the study's comparisons. `grid` has a row
    for each cell, with the reason why it was skipped ("" if not). `failures` has a row for each failed round.
    """
    axes = list(settings.order)
    # Runs with traffic have no elapsed time, and advice is on elapsed times.
    results = _Results(frame[frame[DEFAULT_METRIC].notna()], tables, grid, failures)
    # A row for each cell, host and round, with the mean time of its runs.
    rounds = by_round(results.frame, axes, MEAN)
    noise = noise_by_metric(results.frame, axes, settings.block, rounds)(DEFAULT_METRIC)
    cards = []
    for question in settings.questions:
        # `doubles` is a latency. The question is how many clients a server carries until it has doubled.
        if question.doubles:
            card = _capacity_card(question, axes, results)
            has_content = bool(card.candidates or card.lines)
        else:
            card = _card(question, settings, results)
            # A question with one measured value has nothing to choose.
            has_content = bool(card.cases or card.withheld or card.missing)
            if question.aggregate:
                averages = CaseAverages(rounds, question.axis, axes, settings.block, noise)
                card = with_candidates(card, averages.mean)
        if has_content:
            cards.append(card)
    # A question with `aggregate`, such as that for builds, has one answer over all cells. If a study has only
    # such questions, a reader chooses nothing for a single situation.
    has_situations = not settings.questions or not all(
        question.aggregate for question in settings.questions
    )
    min_effect_pct = settings.limits.min_effect_pct
    return Advice(
        cards=cards,
        situations=_situations(settings, rounds, noise) if has_situations else [],
        less_work=describe_counts(tables, min_effect_pct),
        min_effect_pct=min_effect_pct,
        workload=settings.workload,
    )


def _card(question: CardQuestion, settings: AdviceSettings, results: _Results) -> Card:
    """Return the card of a question, from the tables that compare times of its axis.

    Without such a table, the first measured value is compared with the others here. Only the cells of the
    question's cases and values count.
    """
    axis, axes = question.axis, list(settings.order)
    tables = [
        (definition, rows)
        for definition, rows in results.tables
        if decision.compares(definition, axis)
    ]
    if not tables:
        tables = _make_comparison(axis, settings, results.frame)
    rows: list[Row] = []
    baselines = []
    for definition, rows_of_table in tables:
        baselines.append(str(definition["compare"]["baseline"]))
        rows += [row for row in rows_of_table if fits(row, question.where)]
    cases, withheld = decision.find_cases(axis, rows, axes, question.values)
    # A row of the grid has one value of the axis. A comparison has two, which find_cases() checks.
    where = dict(question.where)
    if question.values:
        where[axis] = list(question.values)
    grid = [row for row in results.grid if fits(row, where)]
    return make_card(
        question,
        _choose_reference(question, baselines),
        axes,
        cases,
        settings.limits.min_effect_pct,
        settings.workload,
        missing=decision.missing_values(axis, cases, grid, results.failures),
        withheld=withheld,
        roles=_role_answers(question, settings, results.tables),
    )


def _choose_reference(question: CardQuestion, baselines: Sequence[str]) -> str:
    """Return the value that stays if a reader changes nothing: the first baseline that is a value of the
    question; "" without one.
    """
    of_question = [name for name in baselines if not question.values or name in question.values]
    return of_question[0] if of_question else ""


def _role_answers(
    question: CardQuestion, settings: AdviceSettings, tables: Sequence[Table]
) -> list[RoleAnswer]:
    """Return the answers to a question by its other metrics, in the order of the study.

    One client waits for the elapsed time. A server with many clients pays its processor, a slow network the
    bytes. A metric that no table compares is left out.
    """
    axes = list(settings.order)
    roles = []
    for metric, reader in question.next_to.items():
        rows: list[Row] = []
        baselines = []
        for definition, rows_of_table in tables:
            if decision.compares(definition, question.axis, metric):
                baselines.append(str(definition["compare"]["baseline"]))
                rows += [row for row in rows_of_table if fits(row, question.where)]
        cases, _ = decision.find_cases(question.axis, rows, axes, question.values)
        if cases:
            card = make_card(
                question,
                _choose_reference(question, baselines),
                axes,
                cases,
                settings.limits.min_effect_pct,
                comparative=OF_AMOUNTS,
            )
            roles.append(RoleAnswer(reader, metric, card.answer))
    return roles


def _capacity_card(question: CardQuestion, axes: Sequence[str], results: _Results) -> Card:
    """Return the card of a question about capacity, from the tables that compare its latency."""
    rows = []
    for definition, rows_of_table in results.tables:
        is_of_axis = definition["compare"]["axis"] == question.axis
        if is_of_axis and name_in(definition) == question.doubles:
            rows += [row for row in rows_of_table if fits(row, question.where)]
    grid = [row for row in results.grid if fits(row, question.where)]
    return make_capacity_card(question, rows, axes, grid, results.failures)


def _make_comparison(axis: str, settings: AdviceSettings, frame: pd.DataFrame) -> list[Table]:
    """Return a list of one table, which compares the first measured value of an axis with the others.

    The study's order decides which value is the first. Return [] with fewer than two measured values.
    """
    measured = set(frame[axis])
    values = [value for value in settings.order[axis] if value in measured]
    if len(values) < 2:
        return []
    # `rows` and `columns` are the layout of a printed table. This one is not printed.
    definition: TableDefinition = {
        "compare": {"axis": axis, "baseline": values[0], "candidates": values[1:]},
        "rows": [],
        "columns": [],
    }
    table = make_table(frame, axis, definition, settings.order, settings.block, settings.limits)
    return [(definition, table.to_dict("records"))]


def _situations(settings: AdviceSettings, rounds: pd.DataFrame, noise: Noise) -> list[Situation]:
    """Return the situations: one for each combination of values that a reader cannot choose."""
    axes = list(settings.order)
    scenario_axes = [axis for axis in settings.scenario_axes if axis in axes]
    situations = []
    for _, rows in group_rows(rounds, scenario_axes):
        where = {axis: str(rows[axis].iloc[0]) for axis in scenario_axes}
        situations.append(compare_choices(where, rows, axes, noise, settings.limits))
    return situations


class _Amounts(NamedTuple):
    """How much a candidate has against its baseline, over the `number` of cases with an answer.

    `less` and `more` have the factors from the smallest effect on: [2.4, 3.0]. `label` is the candidate's.
    """

    label: str
    less: Sequence[float]
    more: Sequence[float]
    number: int


def _find_amounts(axis: str, records: Iterable[Row], min_effect_pct: float) -> Iterator[_Amounts]:
    """Yield the amounts of each candidate in the rows of a table, without undecided rows.

    A candidate can have less in some cases and more in others: ("packed", [2.4, 3.0], [1.2], 4).
    """
    # By candidate, the ratio baseline / candidate in each case: {"pack": [2.4, 1.0, 3.0]}. Above 1, the
    # candidate has less.
    ratios_of_candidate: dict[str, list[float]] = {}
    for row in comparison_rows(records):
        is_answered = is_difference(row.call) or row.result == Result.EQUAL
        if row.has_ratio and is_answered:
            ratios_of_candidate.setdefault(row.candidate, []).append(row.ratio)
    smallest = 1 + min_effect_pct / 100
    for value, ratios in ratios_of_candidate.items():
        less = [ratio for ratio in ratios if ratio >= smallest]
        more = [1 / ratio for ratio in ratios if 1 / ratio >= smallest]
        yield _Amounts(labels.value_label(axis, value), less, more, len(ratios))


def describe_counts(tables: Iterable[Table], min_effect_pct: float) -> list[str]:
    """Return a sentence per exact metric and candidate with less or more work than the baseline.

    Exact metrics are counts of work, such as reads: they do not depend on the speed of the machine. Example:
    `packed: 2.4x to 3.0x fewer reads than not packed in 4 of 6 cases.` If the candidate has more work, the
    sentence begins with the baseline.
    """
    sentences = []
    for definition, records in tables:
        metric, compare = metric_in(definition), definition["compare"]
        if not metric.exact:
            continue
        baseline = labels.value_label(compare["axis"], compare["baseline"])
        for amounts in _find_amounts(compare["axis"], records, min_effect_pct):
            # The side with less work begins the sentence.
            for factors, subject, other in (
                (amounts.less, amounts.label, baseline),
                (amounts.more, baseline, amounts.label),
            ):
                if factors:
                    amount = (
                        f"{labels.range_of_factors(factors)} fewer {metric.quantity} than {other}"
                    )
                    sentences.append(
                        f"{subject}: {amount}{in_cases(len(factors), amounts.number)}."
                    )
    return sentences

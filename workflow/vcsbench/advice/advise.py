"""Advice on a study: cards, the best choice in each situation, and the choices with less work."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from vcsbench.advice import decision, labels
from vcsbench.advice.answer_texts import in_cases
from vcsbench.advice.candidates import geometric_mean, with_candidates
from vcsbench.advice.capacity_card import make_capacity_card
from vcsbench.advice.cards import Advice, Card, Situation, fits, make_card
from vcsbench.advice.decision import Row, WeightedOperation
from vcsbench.advice.questions import CardQuestion
from vcsbench.advice.situations import compare_choices
from vcsbench.codes import Result
from vcsbench.config.study import TableDefinition
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT_METRIC, METRICS, metric_in, name_in
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


def advise(
    settings: AdviceSettings,
    frame: pd.DataFrame,
    tables: Sequence[Table] = (),
    grid: Sequence[Row] = (),
    failures: Sequence[Row] = (),
) -> Advice:
    """Return the advice on a study: a card for each question, and the best choice in each situation.

    `frame` has a row for each run (measurements.csv). `tables` are the study's comparisons: definitions and
    rows. `grid` has a row for each cell, with the reason why it was skipped ("" if not). `failures` has a row
    for each failed round.
    """
    axes = list(settings.order)
    # Runs with traffic have no elapsed time, and advice is on elapsed times.
    frame = frame[frame[DEFAULT_METRIC].notna()]
    rounds = by_round(frame, axes, MEAN)
    noise = noise_by_metric(frame, axes, settings.block, rounds)(DEFAULT_METRIC)
    cards = []
    for question in settings.questions:
        if question.doubles:
            card = _capacity_card(question, axes, tables, grid, failures)
            # The grid may have no cell with several numbers of clients.
            if card.candidates or card.lines:
                cards.append(card)
            continue
        card = _card(question, settings, frame, tables, grid, failures)
        # A question with one measured value has nothing to choose.
        if not (card.cases or card.withheld or card.missing):
            continue
        if question.aggregate:
            mean = partial(geometric_mean, rounds, question.axis, axes, settings.block, noise)
            card = with_candidates(card, mean)
        cards.append(card)
    # If each question has one answer over all cells (`aggregate`), such as that for builds, a reader chooses
    # nothing for a single situation.
    situations = []
    questions = settings.questions
    if not questions or not all(question.aggregate for question in questions):
        situations = _situations(settings, rounds, noise)
    min_effect_pct = settings.limits.min_effect_pct
    return Advice(
        cards=cards,
        situations=situations,
        less_work=describe_counts(tables, min_effect_pct),
        min_effect_pct=min_effect_pct,
        workload=settings.workload,
    )


def _card(
    question: CardQuestion,
    settings: AdviceSettings,
    frame: pd.DataFrame,
    tables: Sequence[Table],
    grid: Sequence[Row],
    failures: Sequence[Row],
) -> Card:
    """Return the card of a question, from the tables that compare times of its axis.

    `tables` has the definition and the rows of each table. If none compares the axis, the first measured
    value is compared with the others here. `grid` has a row for each cell, `failures` one for each failed
    round. These two show why a value is missing.
    """
    axis, axes = question.axis, list(settings.order)
    # Other cells say nothing about the question: those of other cases, and of values that it leaves out.
    where = dict(question.where)
    if question.values:
        where[axis] = list(question.values)
    grid = [row for row in grid if fits(row, where)]
    comparisons = [table for table in tables if decision.compares_times(table[0], axis)]
    # A study may ask a question without a table that compares its values.
    if not comparisons:
        comparisons = _make_comparison(axis, settings, frame)
    reference = ""
    rows: list[Row] = []
    for definition, rows_of_table in comparisons:
        # The reference is the value that stays if a reader changes nothing: the baseline of the first table
        # whose baseline is a value of the question.
        baseline = str(definition["compare"]["baseline"])
        if not reference and (not question.values or baseline in question.values):
            reference = baseline
        rows += [row for row in rows_of_table if fits(row, question.where)]
    cases, withheld = decision.find_cases(axis, rows, axes, question.values)
    card = make_card(
        question,
        reference,
        axes,
        cases,
        settings.limits.min_effect_pct,
        settings.workload,
        missing=decision.missing_values(axis, cases, grid, failures),
        withheld=withheld,
    )
    notes = [*_notes_on_metrics(question, tables, settings.limits.min_effect_pct), *card.notes]
    return replace(card, notes=notes)


def _notes_on_metrics(
    question: CardQuestion, tables: Iterable[Table], min_effect_pct: float
) -> list[str]:
    """Return a sentence for each further metric of a question, with the reader for whom it counts.

    Example: `Server CPU counts for a server with many clients: bitmap 7.9x less than one pack in 2 of 3
    cases.` A metric without a comparison that has a result is left out.
    """
    notes = []
    for name, reader in question.next_to.items():
        changes = []
        for definition, records in tables:
            compare = definition["compare"]
            if compare["axis"] == question.axis and compare.get("metric") == name:
                changes += _list_changes(
                    question.axis, compare["baseline"], records, min_effect_pct
                )
        if changes:
            notes.append(f"{METRICS[name].title} counts for {reader}: {', '.join(changes)}.")
    return notes


def _list_changes(
    axis: str, baseline: str, records: Iterable[Row], min_effect_pct: float
) -> list[str]:
    """Return a clause for each candidate: `bitmap 7.9x less than one pack in 2 of 3 cases`."""
    baseline_label = labels.value_label(axis, baseline)
    changes = []
    for value, ratios in _answered_ratios(records).items():
        less, more = _split_factors(ratios, min_effect_pct)
        for word, factors in (("less", less), ("more", more)):
            if factors:
                amount = f"{labels.factors(factors)} {word} than {baseline_label}"
                cases = in_cases(len(factors), len(ratios))
                changes.append(f"{labels.value_label(axis, value)} {amount}{cases}")
        if not less and not more:
            changes.append(f"{labels.value_label(axis, value)} as much as {baseline_label}")
    return changes


def _capacity_card(
    question: CardQuestion,
    axes: Sequence[str],
    tables: Sequence[Table],
    grid: Sequence[Row],
    failures: Sequence[Row],
) -> Card:
    """Return the card of a question about capacity, from the tables that compare its latency."""
    rows = []
    for definition, rows_of_table in tables:
        is_of_axis = definition["compare"]["axis"] == question.axis
        if is_of_axis and name_in(definition) == question.doubles:
            rows += [row for row in rows_of_table if fits(row, question.where)]
    cells = [row for row in grid if fits(row, question.where)]
    return make_capacity_card(question, rows, axes, cells, failures)


def _make_comparison(axis: str, settings: AdviceSettings, frame: pd.DataFrame) -> list[Table]:
    """Return the table that compares the first measured value of an axis with the others.

    The study's order decides which value is the first. Return [] with fewer than two measured values.
    """
    measured = set(frame[axis])
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
    """Return the situations: one for each combination of values that a reader cannot choose."""
    axes = list(settings.order)
    scenario_axes = [axis for axis in settings.scenario_axes if axis in axes]
    situations = []
    for _, rows in group_rows(rounds, scenario_axes):
        where = {axis: str(rows[axis].iloc[0]) for axis in scenario_axes}
        situations.append(compare_choices(where, rows, axes, noise, settings.limits))
    return situations


def describe_counts(tables: Iterable[Table], min_effect_pct: float) -> list[str]:
    """Return a sentence per exact metric and candidate with less or more work than the baseline.

    Exact metrics are counts, such as reads. Ratios below the smallest effect (`min_effect_pct`, such as 10)
    are left out. Example: `packed: 2.4x to 3.0x fewer reads than not packed in 4 of 6 cases.` If the
    candidate has more work, the sentence begins with the baseline.
    """
    sentences = []
    for definition, records in tables:
        metric, compare = metric_in(definition), definition["compare"]
        # Counts of work, such as bytes: they do not depend on the speed of the machine.
        if not metric.exact:
            continue
        baseline_label = labels.value_label(compare["axis"], compare["baseline"])
        for value, ratios in _answered_ratios(records).items():
            label = labels.value_label(compare["axis"], value)
            # The same change can save reads in one case, and cost some in another one.
            fewer, more = _split_factors(ratios, min_effect_pct)
            if fewer:
                amount = f"{labels.factors(fewer)} fewer {metric.quantity} than {baseline_label}"
                sentences.append(f"{label}: {amount}{in_cases(len(fewer), len(ratios))}.")
            if more:
                amount = f"{labels.factors(more)} fewer {metric.quantity} than {label}"
                sentences.append(f"{baseline_label}: {amount}{in_cases(len(more), len(ratios))}.")
    return sentences


def _split_factors(
    ratios: Sequence[float], min_effect_pct: float
) -> tuple[list[float], list[float]]:
    """Return the factors by which a candidate has less than its baseline, and those by which it has more.

    The ratios are baseline / candidate. Those below the smallest effect are left out: for 10 %, the ratios
    2.0, 1.05 and 0.5 give [2.0] and [2.0].
    """
    smallest = 1 + min_effect_pct / 100
    less = [ratio for ratio in ratios if ratio >= smallest]
    more = [1 / ratio for ratio in ratios if 1 / ratio >= smallest]
    return less, more


def _answered_ratios(records: Iterable[Row]) -> dict[str, list[float]]:
    """Return the ratios baseline / candidate by candidate: {"pack": [2.4, 1.0, 3.0]}.

    Only rows that show a difference, or that the counts are equal, are used. Undecided rows are left out.
    """
    ratios: dict[str, list[float]] = {}
    for row in comparison_rows(records):
        is_answered = is_difference(row.call) or row.result == Result.EQUAL
        if row.has_ratio and is_answered:
            ratios.setdefault(row.candidate, []).append(row.ratio)
    return ratios

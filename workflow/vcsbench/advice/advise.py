"""Advice on a study: cards, the best choice in each situation, and the choices with less work."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from vcsbench.advice import decision
from vcsbench.advice.averages import CaseAverages, with_averages
from vcsbench.advice.capacity_card import LOADS, make_capacity_card
from vcsbench.advice.cards import Advice, Card, LessWork, RoleCard, Situation, fits, make_card
from vcsbench.advice.decision import Row, WeightedOperation
from vcsbench.advice.questions import CardQuestion
from vcsbench.advice.situations import compare_choices
from vcsbench.codes import Result
from vcsbench.config.study import TableDefinition
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT_METRIC, metric_in, name_in
from vcsbench.statistics.aggregation import MEAN, by_cell, by_round
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, Limits, comparison_rows, is_difference
from vcsbench.statistics.noise import Noise, noise_by_metric
from vcsbench.statistics.tables import make_table

# The definition of a table, and its rows.
Table = tuple[Mapping[str, Any], Sequence[Row]]


@dataclass(frozen=True)
class AdviceSettings:
    """A study as advice needs it.

    `order` has the axes with their values, in the study's order: {"command": ["log"], "format": ["f6"]}.
    `scenario_axes` are those whose values a reader cannot choose, such as the command. Cells with equal
    values of the axes `block` run next to each other in each round.
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
    # The shares of all processors that server and clients took, a row for each cell (_measured_loads).
    loads: Sequence[Row]


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
    # Runs with traffic (many clients for a fixed time) have no elapsed time. Only the cards on capacity use
    # them: they print how much of the processors server and clients took.
    has_time = frame[DEFAULT_METRIC].notna()
    loads = _measured_loads(frame[~has_time], axes)
    results = _Results(frame[has_time], tables, grid, failures, loads)
    rounds = by_round(results.frame, axes, MEAN)
    # Noise is estimated within blocks (cells that run next to each other). A slow minute of the machine slows
    # all cells of a block, so it does not change their ratios.
    noise_of_metric = noise_by_metric(results.frame, axes, settings.block, rounds)
    noise_of_times = noise_of_metric(DEFAULT_METRIC)
    situations = _find_situations(settings, rounds, noise_of_times)
    min_effect_pct = settings.limits.min_effect_pct
    return Advice(
        cards=_cards(settings, results, rounds, noise_of_times),
        situations=situations,
        less_work=find_less_work(tables, min_effect_pct),
        min_effect_pct=min_effect_pct,
    )


def _find_situations(
    settings: AdviceSettings, rounds: pd.DataFrame, noise: Noise
) -> list[Situation]:
    """Return the comparison of all choices in each situation, such as the choice of a format for a cold log.

    A situation has one value of each axis that a reader cannot choose (`scenario_axes`).
    """
    # A question with `aggregate`, such as "Is the other build faster?", is answered over all cells. Without
    # other questions, a reader of the study chooses nothing for a single situation.
    if settings.questions and all(question.aggregate for question in settings.questions):
        return []
    axes = list(settings.order)
    scenario_axes = [axis for axis in settings.scenario_axes if axis in axes]
    situations = []
    # Without such axes, all rows are one situation.
    for _, rows in group_rows(rounds, scenario_axes):
        # All rows of a group have the same values on these axes.
        where = {axis: str(rows[axis].iloc[0]) for axis in scenario_axes}
        situations.append(compare_choices(where, rows, axes, noise, settings.limits))
    return situations


def _cards(
    settings: AdviceSettings, results: _Results, rounds: pd.DataFrame, noise: Noise
) -> list[Card]:
    """Return a card for each question of a study that has anything to show, in the study's order.

    There are three kinds of questions:

    - with `doubles`, about capacity: "With how many clients does this latency double?"
    - with `aggregate`, over all cells: "Is the other build faster?" Each build has one answer.
    - without both, about the values of an axis: "Which format?"

    `rounds` has a row for each cell, host and round (by_round), and `noise` is the noise of its times.
    """
    axes = list(settings.order)
    cards = []
    for question in settings.questions:
        if question.doubles:
            card = _capacity_card(question, axes, results)
            has_content = bool(card.capacities or card.missing)
        else:
            card = _value_card(question, settings, results)
            # Even without cases, a card can name comparisons without a result, and skipped or failed values.
            has_content = bool(card.cases or card.withheld or card.missing)
            if question.aggregate:
                averages = CaseAverages(rounds, question.axis, axes, settings.block, noise)
                card = with_averages(card, mean=averages.mean)
        if has_content:
            cards.append(card)
    return cards


def _value_card(question: CardQuestion, settings: AdviceSettings, results: _Results) -> Card:
    """Return the card of a question about the values of an axis, by comparisons of their elapsed times.

    Example: the card of "Which format?" compares f7 with f6 (the reference) in each case, such as a cold log
    over http. It also has comparisons without a ratio (withheld), values that were not measured (missing),
    and answers by other metrics than time (roles).
    """
    axis = question.axis
    axes = list(settings.order)
    tables = _comparing_tables(results.tables, axis)
    # A study without a table of these times gets one that compares the first value with each other one.
    if not tables:
        tables = _make_comparison(axis, settings, results.frame)
    rows = _rows_of_question(question, tables)
    cases, withheld = decision.find_cases(axis, rows, axes, question.values)
    return make_card(
        question,
        _choose_reference(question, tables, cases),
        axes,
        cases,
        min_effect_pct=settings.limits.min_effect_pct,
        workload=settings.workload,
        missing=_find_missing_values(question, cases, results),
        withheld=withheld,
        roles=_role_cards(question, settings, results.tables),
    )


def _find_missing_values(
    question: CardQuestion, cases: Sequence[decision.Case], results: _Results
) -> list[decision.Missing]:
    """Return the values of a question that no case compares, because their cells were skipped or failed."""
    # The cells that the question asks about: {"access": "http", "format": ["f6", "f7"]}; {} for all.
    where = dict(question.where)
    if question.values:
        where[question.axis] = list(question.values)
    cells = [row for row in results.grid if fits(row, where)]
    return decision.missing_values(question.axis, cases, cells, results.failures)


def _comparing_tables(
    tables: Sequence[Table], axis: str, metric: str = DEFAULT_METRIC
) -> list[Table]:
    """Return the tables that compare the values of an axis by a metric."""
    return [
        (definition, rows)
        for definition, rows in tables
        if decision.compares(definition, axis, metric)
    ]


def _rows_of_question(question: CardQuestion, tables: Sequence[Table]) -> list[Row]:
    """Return the rows of tables that are about the cases of a question, such as all cases over http."""
    return [row for _, rows in tables for row in rows if fits(row, question.where)]


def _choose_reference(
    question: CardQuestion, tables: Sequence[Table], cases: Sequence[decision.Case]
) -> str:
    """Return the value that stays if a reader changes nothing, such as f6; "" without one.

    The first measured value in `question.start` stays. Without one, and in a question about a cost (such as
    that of https over http), the first baseline of the tables that is a value of the question stays.
    """
    if not question.is_cost:
        measured = {value for case in cases for value in case.times}
        for value in question.start:
            if value in measured:
                return value
    for definition, _ in tables:
        baseline = str(definition["compare"]["baseline"])
        if not question.values or baseline in question.values:
            return baseline
    return ""


def _role_cards(
    question: CardQuestion, settings: AdviceSettings, tables: Sequence[Table]
) -> list[RoleCard]:
    """Return the cards of a question for readers to whom another metric than the elapsed time matters.

    Example: {"wire_mib": "a slow network"} gives the card by the transferred bytes, for readers with a slow
    network. A metric that no table compares is left out.
    """
    reader_by_metric = question.next_to
    axes = list(settings.order)
    roles = []
    for metric, reader in reader_by_metric.items():
        tables_of_metric = _comparing_tables(tables, question.axis, metric)
        rows = _rows_of_question(question, tables_of_metric)
        # The second result, comparisons without a ratio, is not used: cards list them for elapsed times only.
        cases, _ = decision.find_cases(question.axis, rows, axes, question.values)
        if not cases:
            continue
        # 2 % fewer bytes are no reason to change. So differences below the margin become EQUAL.
        counted_cases = [decision.count_from_margin(case, settings.limits) for case in cases]
        card = make_card(
            question,
            _choose_reference(question, tables_of_metric, cases),
            axes,
            counted_cases,
            min_effect_pct=settings.limits.min_effect_pct,
            metric=metric,
        )
        roles.append(RoleCard(reader, card))
    return roles


def _capacity_card(question: CardQuestion, axes: Sequence[str], results: _Results) -> Card:
    """Return the card of a question about capacity: how many clients a server carries.

    The card uses the tables that compare numbers of clients by the latency `question.doubles`.
    """
    tables = []
    for definition, rows in results.tables:
        is_of_axis = definition["compare"]["axis"] == question.axis
        if is_of_axis and name_in(definition) == question.doubles:
            tables.append((definition, rows))
    grid = [row for row in results.grid if fits(row, question.where)]
    rows_of_cases = _rows_of_question(question, tables)
    return make_capacity_card(question, rows_of_cases, axes, grid, results.failures, results.loads)


def _measured_loads(frame: pd.DataFrame, axes: Sequence[str]) -> Sequence[Row]:
    """Return the shares LOADS of all processors, in per cent, in a row with the axis values of each cell.

    `frame` has a row for each run with traffic. Return [] if there is none, or if it lacks processor times.
    """
    if frame.empty:
        return []
    cells = by_cell(by_round(frame, axes), axes)
    if not {*LOADS} <= {*cells.columns}:
        return []
    return cells[[*axes, *LOADS]].to_dict("records")


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


def find_less_work(tables: Iterable[Table], min_effect_pct: float) -> list[LessWork]:
    """Return from the tables of exact metrics which side of a comparison does less work.

    Exact metrics are counts of work, such as reads. A candidate that does less work than the baseline in some
    cases and more in others gives two entries. Only decided cases count. Differences below `min_effect_pct`
    per cent count in the number of cases only.
    """
    smallest_factor = 1 + min_effect_pct / 100
    found = []
    for definition, rows in tables:
        metric = metric_in(definition)
        compare = definition["compare"]
        if not metric.exact:
            continue
        # By candidate, the ratio baseline / candidate of each decided case: {"pack": [2.4, 1.0, 3.0]}.
        decided_ratios: defaultdict[str, list[float]] = defaultdict(list)
        for row in comparison_rows(rows):
            is_decided = is_difference(row.call) or row.result == Result.EQUAL
            if row.has_ratio and is_decided:
                decided_ratios[row.candidate].append(row.ratio)
        axis, baseline = compare["axis"], compare["baseline"]
        for candidate, ratios in decided_ratios.items():
            # A ratio above 1 means that the candidate does less work than the baseline.
            less = [ratio for ratio in ratios if ratio >= smallest_factor]
            more = [1 / ratio for ratio in ratios if 1 / ratio >= smallest_factor]
            for value, other, factors in ((candidate, baseline, less), (baseline, candidate, more)):
                if factors:
                    work = LessWork(axis, value, other, name_in(definition), factors, len(ratios))
                    found.append(work)
    return found

"""The card of a question about capacity: how many clients a server carries until a latency has doubled."""

from collections.abc import Sequence

from vcsbench.advice import decision, labels
from vcsbench.advice.answer_texts import Answer
from vcsbench.advice.cards import Card, distinguishing_axes
from vcsbench.advice.decision import Row
from vcsbench.advice.questions import CardQuestion
from vcsbench.codes import AnswerKind
from vcsbench.metrics import METRICS
from vcsbench.statistics.capacity import Capacity, find_capacities
from vcsbench.statistics.comparisons import comparison_rows
from vcsbench.words import count_of


def make_capacity_card(
    question: CardQuestion,
    rows: Sequence[Row],
    axes: Sequence[str],
    grid: Sequence[Row],
    failures: Sequence[Row],
) -> Card:
    """Return the card with an answer for each case, such as http and svn (`candidates`).

    `rows` compare numbers of clients (the axis `question.axis`) by the metric `question.doubles`, a latency.
    `axes` are the study's. `grid` has a row for each cell, with the reason `skip` if it was skipped, and
    `failures` a row with a `reason` for each failed round. Example of an answer: `requests over http: 8
    clients (2.4x that of 1 client; 95 %: 4 to 8)`. From 8 on, all measured numbers have at least twice the
    latency of 1 client. Without any compared number, the card has sentences why (`lines`).
    """
    capacities = find_capacities(comparison_rows(rows), question.axis)
    shown = distinguishing_axes(axes, [capacity.where for capacity in capacities])
    if not capacities:
        lines = []
        # []: there are no compared cases.
        for missing in decision.missing_values(question.axis, [], grid, failures):
            lines.append(missing.sentence(labels.value_label(question.axis, missing.value)))
        answer = Answer(AnswerKind.NOT_MEASURED, short=str(AnswerKind.NOT_MEASURED))
        return Card(question, reference="", shown=shown, cases=[], answer=answer, lines=lines)
    latency = METRICS[question.doubles].quantity
    answers = [_answer(capacity, shown, latency) for capacity in capacities]
    # The number of clients, mostly 1, with which all other numbers are compared.
    reference = str(capacities[0].fewest)
    return Card(question, reference, shown, cases=[], answer=answers[0], candidates=answers)


def _answer(capacity: Capacity, shown: Sequence[str], latency: str) -> Answer:
    """Return the answer of a case: the number of clients from which on the latency has doubled.

    The text has the latency there as a multiple of the latency of the fewest clients, such as `2.4x`. If the
    largest measured number does not double the latency, it is the multiple of this number. `shown` are the
    axes that distinguish the cases, and `latency` names the metric: `p95 latency`. An end of the 95 %
    interval that no measured number reached is `over 8`, with 8 as the largest measured number. The text has
    no interval if a ratio has none, as after a single round.
    """
    # Even the largest measured number of clients (`most`) may have less than twice the latency.
    number = capacity.number or capacity.most
    clients, fewest = count_of(number, "client"), count_of(capacity.fewest, "client")
    factor = labels.times(capacity.factors[number])
    interval = ""
    uncertainty = ""
    # After a single round, there is no interval.
    if capacity.has_interval:
        # An end of the interval is None if no measured number has reached it.
        beyond = f"over {capacity.most}"
        low, high = str(capacity.low or beyond), str(capacity.high or beyond)
        ends = low if low == high else f"{low} to {high}"
        interval = f"; 95 %: {ends}"
        if low != high:
            uncertainty = f" (95 % interval: {ends})"
    head = labels.case_label(capacity.where, shown)
    # `2.4x that of 1 client` is the latency with `clients`. If it has not doubled there, the text has `at 8`.
    reached = clients if capacity.number else f"more than {clients}"
    place = "" if capacity.number else f" at {number}"
    # A capacity recommends no value, so its kind is that of a question about costs.
    return Answer(
        AnswerKind.COST,
        short=f"{head}: {factor} as long with {clients} as with {fewest}",
        sentence=(
            f"The {latency} is at least twice as long from {reached} on{uncertainty}. A client sends one "
            f"command after another without a pause, and shares the processors of this machine with the "
            f"server. So this is no number of users, who wait between commands."
        ),
        effect=f"{head}: {reached} ({factor} that of {fewest}{place}{interval})",
    )

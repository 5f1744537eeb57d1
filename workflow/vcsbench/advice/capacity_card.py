"""The card of a question about capacity: how many clients a server carries until a latency has doubled."""

from collections.abc import Sequence

from vcsbench.advice import decision, labels
from vcsbench.advice.answer_texts import Answer
from vcsbench.advice.cards import Card, distinguishing_axes
from vcsbench.advice.decision import Row
from vcsbench.advice.questions import CardQuestion
from vcsbench.codes import AnswerKind
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
    """Return the card with an answer for each case, such as http and svn.

    `rows` compare numbers of clients (the axis `question.axis`) by the metric `question.doubles`, a latency.
    `axes` are the study's. `grid` and `failures` have the reasons why numbers were not measured. Example of
    an answer: `requests over http: 8 clients (2.4x that of 1 client; 95 %: 4 to 8)`. Of the measured numbers,
    8 is the smallest one with at least twice the latency of 1 client.
    """
    capacities = find_capacities(comparison_rows(rows), question.axis)
    shown = distinguishing_axes(axes, [capacity.where for capacity in capacities])
    if not capacities:
        # The lines have the reasons why no number of clients was compared. []: there are no compared cases.
        lines = []
        for missing in decision.missing_values(question.axis, [], grid, failures):
            lines.append(missing.sentence(labels.value_label(question.axis, missing.value)))
        answer = Answer(AnswerKind.NOT_MEASURED, short=str(AnswerKind.NOT_MEASURED))
        return Card(question, reference="", shown=shown, cases=[], answer=answer, lines=lines)
    answers = [_answer(capacity, shown) for capacity in capacities]
    # The number of clients, mostly 1, with which all other numbers are compared.
    reference = str(capacities[0].fewest)
    # `candidates` has an answer for each case, and `answer` is the first of them.
    return Card(question, reference, shown, cases=[], answer=answers[0], candidates=answers)


def _answer(capacity: Capacity, shown: Sequence[str]) -> Answer:
    """Return the answer of a case: the number of clients at which the latency has doubled.

    The text has the latency there as a multiple of the latency of the fewest clients, such as `2.4x`. `shown`
    are the axes that distinguish the cases. An end of the 95 % interval that no measured number reached is
    `over 8`, with 8 as the largest measured number.
    """
    # Such as `1 client`.
    fewest = count_of(capacity.fewest, "client")
    if capacity.number is None:
        # Even the largest measured number of clients (`most`) has less than twice the latency.
        factor = labels.times(capacity.factors[capacity.most])
        short = f"more than {count_of(capacity.most, 'client')}"
        text = f"{factor} that of {fewest} at {capacity.most}"
    else:
        factor = labels.times(capacity.factors[capacity.number])
        short = count_of(capacity.number, "client")
        text = f"{factor} that of {fewest}"
    beyond = f"over {capacity.most}"
    low, high = str(capacity.low or beyond), str(capacity.high or beyond)
    interval = low if low == high else f"{low} to {high}"
    head = labels.case_label(capacity.where, shown)
    # A capacity recommends no value, so its kind is that of a question about costs.
    return Answer(
        AnswerKind.COST,
        short=f"{head}: the slowest commands take twice as long with {short}",
        sentence=(
            f"The slowest 5 % of the commands take {text}. With 95 % certainty, their time doubles at "
            f"{interval} clients. A client sends one command after another without a pause, and shares the "
            f"processors of this machine with the server. So a server of its own carries many more users."
        ),
        effect=f"{head}: {short} ({text}; 95 %: {interval})",
    )

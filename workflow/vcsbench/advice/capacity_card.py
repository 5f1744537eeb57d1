"""The card of a question about capacity: how many clients a server carries until a latency has doubled."""

import math
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

# The metrics of the shares of all processors that the server and its clients take.
LOADS = ("server_load_pct", "client_load_pct")


def make_capacity_card(
    question: CardQuestion,
    rows: Sequence[Row],
    axes: Sequence[str],
    grid: Sequence[Row],
    failures: Sequence[Row],
    loads: Sequence[Row] = (),
) -> Card:
    """Return the card of a question about capacity, with an answer for each case, such as http and svn.

    `rows` compare numbers of clients by the latency `question.doubles`. Example of an answer: `requests over
    http: 8 clients (2.4x that of 1 client; 95 %: 4 to 8)`. From 8 on, all measured numbers have at least
    twice the latency of 1 client. If no numbers were compared, the card has the reasons in its `lines`.

    `loads` has a row for each cell, with the shares LOADS of all processors, in per cent. The `lines` have a
    sentence on the shares, because clients that take most of the processors double the latency themselves.
    """
    capacities = find_capacities(comparison_rows(rows), question.axis)
    shown = distinguishing_axes(axes, [capacity.where for capacity in capacities])
    if not capacities:
        lines = []
        # No case was compared ([]), so each number of clients with a skipped or failed cell is named.
        for missing in decision.missing_values(question.axis, [], grid, failures):
            lines.append(missing.sentence(labels.value_label(question.axis, missing.value)))
        answer = Answer(AnswerKind.NOT_MEASURED, short=str(AnswerKind.NOT_MEASURED))
        return Card(question, reference="", shown=shown, cases=[], answer=answer, lines=lines)
    latency = METRICS[question.doubles].quantity
    answers = [_answer(capacity, shown, latency) for capacity in capacities]
    # All other numbers of clients are compared with the fewest.
    reference = str(capacities[0].fewest)
    lines = []
    for capacity in capacities:
        line = _load_sentence(question.axis, capacity, shown, loads)
        if line:
            lines.append(line)
    # The first case gives the card its own answer.
    return Card(
        question, reference, shown, cases=[], answer=answers[0], candidates=answers, lines=lines
    )


def _load_sentence(
    axis: str, capacity: Capacity, shown: Sequence[str], loads: Sequence[Row]
) -> str:
    """Return which shares of all processors server and clients took in a case; "" if they are unknown.

    Example: `many clients over svn: with 8 clients, the server took 5 % of all processors, and the clients
    87 %.` The number of clients is the one that the answer names.
    """
    number = capacity.number or capacity.most
    where = {**capacity.where, axis: str(number)}
    for row in loads:
        if all(str(row.get(name) or "") == value for name, value in where.items()):
            server_pct, clients_pct = (float(row[name]) for name in LOADS)
            # The kernel may not have counted the time of one side.
            if not math.isfinite(server_pct + clients_pct):
                return ""
            head = labels.case_label(capacity.where, shown)
            return (
                f"{head}: with {count_of(number, 'client')}, the server took {server_pct:.0f} % of all "
                f"processors, and the clients {clients_pct:.0f} %."
            )
    return ""


def _answer(capacity: Capacity, shown: Sequence[str], latency: str) -> Answer:
    """Return the answer of a case: the number of clients from which on the latency has doubled.

    Example: `requests over http: 8 clients (2.4x that of 1 client; 95 %: 4 to 8)`. If the latency of the
    largest measured number has not doubled: `more than 8 clients (1.50x that of 1 client at 8; 95 %: over
    8)`. `shown` are the axes that distinguish the cases, and `latency` names the metric: `p95 latency`.
    """
    # `capacity.number` is None if even `most`, the largest measured number, has less than twice the latency.
    number = capacity.number or capacity.most
    clients, fewest = count_of(number, "client"), count_of(capacity.fewest, "client")
    factor = labels.times(capacity.factors[number])
    interval = ""
    uncertainty = ""
    # After a single round, there is no interval.
    if capacity.has_interval:
        # An end of the interval is None if it is larger than all measured numbers: `over 8`.
        beyond = f"over {capacity.most}"
        low, high = str(capacity.low or beyond), str(capacity.high or beyond)
        ends = low if low == high else f"{low} to {high}"
        interval = f"; 95 %: {ends}"
        if low != high:
            uncertainty = f" (95 % interval: {ends})"
    head = labels.case_label(capacity.where, shown)
    reached = clients if capacity.number else f"more than {clients}"
    # `more than 8 clients` does not show that the factor belongs to 8 clients.
    of_factor = "" if capacity.number else f" at {number}"
    # A capacity recommends no value, as a cost does not. So both have the same kind.
    return Answer(
        AnswerKind.COST,
        short=f"{head}: {factor} as long with {clients} as with {fewest}",
        sentence=(
            f"The {latency} is at least twice as long from {reached} on{uncertainty}. A client sends one "
            f"command after another without a pause, and shares the processors of this machine with the "
            f"server. So this is no number of users, who wait between commands."
        ),
        effect=f"{head}: {reached} ({factor} that of {fewest}{of_factor}{interval})",
    )

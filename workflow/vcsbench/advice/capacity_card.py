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
SERVER_LOAD = "server_load_pct"
CLIENT_LOAD = "client_load_pct"
LOADS = (SERVER_LOAD, CLIENT_LOAD)


def make_capacity_card(
    question: CardQuestion,
    rows: Sequence[Row],
    axes: Sequence[str],
    grid: Sequence[Row],
    failures: Sequence[Row],
    loads: Sequence[Row] = (),
) -> Card:
    """Return the card of a question about capacity, with an answer for each case, such as http and svn.

    The capacity is the number of clients from which on a latency is at least twice that of the fewest
    clients. Each of `rows` compares the latency of a number of clients with that of the fewest, by the metric
    `question.doubles`. Example of an answer: `requests over http: 8 clients (2.4x that of 1 client; 95 %: 4
    to 8)`. Here, 8 clients have 2.4 times the latency of 1 client. The 95 % interval of the capacity is 4 to
    8 clients.

    `loads` has the shares of all processors that the server and its clients took in each cell, in per cent
    (LOADS). The card's `lines` name them, because clients that take most of the processors double the latency
    themselves.
    """
    capacities = find_capacities(comparison_rows(rows), question.axis)
    if not capacities:
        return _card_without_capacity(question, grid, failures)
    shown = distinguishing_axes(axes, [capacity.where for capacity in capacities])
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


def _card_without_capacity(
    question: CardQuestion, grid: Sequence[Row], failures: Sequence[Row]
) -> Card:
    """Return the card if no numbers of clients were compared. Its `lines` have the reasons.

    `grid` has the reasons of skipped cells, and `failures` those of failed rounds (decision.missing_values).
    """
    lines = []
    # No case was compared ([]), so each number of clients with a skipped or failed cell is named.
    for missing in decision.missing_values(question.axis, [], grid, failures):
        lines.append(missing.sentence(labels.value_label(question.axis, missing.value)))
    answer = Answer(AnswerKind.NOT_MEASURED, short=str(AnswerKind.NOT_MEASURED))
    return Card(question, reference="", shown=[], cases=[], answer=answer, lines=lines)


def _named_number(capacity: Capacity) -> int:
    """Return the number of clients that an answer names: the capacity, or the largest measured number.

    The latter stands in an answer such as `more than 8 clients`, if no measured number doubles the latency.
    """
    return capacity.number or capacity.most


def _load_sentence(
    axis: str, capacity: Capacity, shown: Sequence[str], loads: Sequence[Row]
) -> str:
    """Return which shares of all processors server and clients took in a case; "" if they are unknown.

    Example: `many clients over svn: with 8 clients, the server took 5 % of all processors, and the clients
    87 %.` Here, 8 is the number of clients that the answer names, a value of `axis`. `capacity.where` has the
    other values of the case. `loads` has a row for each cell, and `shown` the axes in the label of the case.
    """
    number = _named_number(capacity)
    cell = {**capacity.where, axis: str(number)}
    for row in loads:
        if all(str(row.get(name) or "") == value for name, value in cell.items()):
            server_pct = float(row[SERVER_LOAD])
            clients_pct = float(row[CLIENT_LOAD])
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
    number = _named_number(capacity)
    clients = count_of(number, "client")
    fewest = count_of(capacity.fewest, "client")
    factor = labels.times(capacity.factors[number])
    has_doubled = capacity.number is not None
    if has_doubled:
        doubled_from = clients
        details = f"{factor} that of {fewest}"
    else:
        doubled_from = f"more than {clients}"
        # The factor was measured at the largest number, and not at a larger one.
        details = f"{factor} that of {fewest} at {number}"
    ends = _interval_ends(capacity)
    interval = " to ".join(ends)
    if ends:
        details += f"; 95 %: {interval}"
    # The sentence leaves out an interval of one number, because it adds nothing.
    uncertainty = f" (95 % interval: {interval})" if len(ends) == 2 else ""
    head = labels.case_label(capacity.where, shown)
    return Answer(
        # The answer recommends no value, like the answer of a question about a cost.
        AnswerKind.COST,
        short=f"{head}: {factor} as long with {clients} as with {fewest}",
        sentence=(
            f"The {latency} is at least twice as long from {doubled_from} on{uncertainty}. A client "
            f"sends one command after another without a pause, and shares the processors of this "
            f"machine with the server. So this is no number of users, who wait between commands."
        ),
        effect=f"{head}: {doubled_from} ({details})",
    )


def _interval_ends(capacity: Capacity) -> list[str]:
    """Return the ends of the 95 % interval of a capacity: ["4", "8"], ["8"] if both are equal.

    An end above all measured numbers is `over 8`. Return [] without an interval, as after a single round.
    """
    if not capacity.has_interval:
        return []
    # The field of an end above all measured numbers is None.
    above_all = f"over {capacity.most}"
    low = str(capacity.low or above_all)
    high = str(capacity.high or above_all)
    return [low] if low == high else [low, high]

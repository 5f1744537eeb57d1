"""The card of a question about capacity: how many clients a server carries until a latency has doubled."""

import math
from collections.abc import Sequence

from vcsbench.advice import decision
from vcsbench.advice.answers import Answer
from vcsbench.advice.cards import Card, ProcessorLoad, distinguishing_axes
from vcsbench.advice.decision import Row
from vcsbench.advice.questions import CardQuestion
from vcsbench.codes import AnswerKind
from vcsbench.statistics.capacity import Capacity, find_capacities
from vcsbench.statistics.comparisons import comparison_rows

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
    """Return the card of a question about capacity, with a capacity for each case, such as http and svn.

    The capacity is the number of clients from which on a latency is at least twice the latency of the
    fewest. Each of `rows` compares the latency of a number of clients with the fewest, by the metric
    `question.doubles`. Without such a row, the card has the reasons: `grid` has the reasons of skipped cells,
    and `failures` the reasons of failed rounds (decision.missing_values).

    `loads` has the shares of all processors that the server and its clients took in each cell, in per cent
    (LOADS). The card has them, because clients that take most of the processors double the latency
    themselves.
    """
    capacities = find_capacities(comparison_rows(rows), question.axis)
    if not capacities:
        # No case was compared ([]), so each number of clients with a skipped or failed cell is missing.
        missing = decision.missing_values(question.axis, [], grid, failures)
        return Card(question, reference="", shown=[], cases=[], missing=missing)
    return Card(
        question,
        # All other numbers of clients are compared with the fewest.
        reference=str(capacities[0].fewest),
        shown=distinguishing_axes(axes, [capacity.where for capacity in capacities]),
        cases=[],
        # The answer recommends no value, like the answer of a question about a cost.
        answer=Answer(AnswerKind.COST),
        capacities=capacities,
        loads=[_find_load(question.axis, capacity, loads) for capacity in capacities],
    )


def named_number(capacity: Capacity) -> int:
    """Return the number of clients that an answer names: the capacity, or the largest measured number.

    The latter stands in an answer such as `more than 8 clients`, if no measured number doubles the latency.
    """
    return capacity.number or capacity.most


def _find_load(axis: str, capacity: Capacity, loads: Sequence[Row]) -> ProcessorLoad | None:
    """Return which shares of all processors server and clients took with the number that the answer names.

    The number is a value of `axis`. `capacity.where` has the other values of the case. `loads` has a row for
    each cell. Return None if the shares are unknown.
    """
    cell = {**capacity.where, axis: str(named_number(capacity))}
    for row in loads:
        if all(str(row.get(name) or "") == value for name, value in cell.items()):
            load = ProcessorLoad(float(row[SERVER_LOAD]), float(row[CLIENT_LOAD]))
            # The kernel may not have counted the time of one side.
            return load if math.isfinite(load.server_pct + load.clients_pct) else None
    return None

"""The texts of a card on capacity: how many clients a server carries until a latency has doubled."""

from vcsbench.advice import labels
from vcsbench.advice.capacity_card import named_number
from vcsbench.advice.cards import Card
from vcsbench.metrics import METRICS
from vcsbench.report.answer_texts import AnswerText
from vcsbench.statistics.capacity import Capacity
from vcsbench.words import count_of


def describe_capacities(card: Card) -> list[AnswerText]:
    """Return the texts of the answer for each case, such as http and svn."""
    return [_describe_capacity(card, capacity) for capacity in card.capacities]


def describe_loads(card: Card) -> list[str]:
    """Return which shares of all processors server and clients took in each case where they are known.

    Example: `many clients over svn: with 8 clients, the server took 5 % of all processors, and the clients
    87 %.` Here, 8 is the number of clients that the answer names.
    """
    sentences = []
    for capacity, load in zip(card.capacities, card.loads, strict=True):
        if load:
            head = labels.case_label(capacity.where, card.shown)
            sentences.append(
                f"{head}: with {count_of(named_number(capacity), 'client')}, the server took "
                f"{load.server_pct:.0f} % of all processors, and the clients {load.clients_pct:.0f} %."
            )
    return sentences


def _describe_capacity(card: Card, capacity: Capacity) -> AnswerText:
    """Return the texts of a case: the number of clients from which on the latency has doubled.

    Example: `requests over http: 8 clients (2.4x that of 1 client; 95 %: 4 to 8)`. If the latency of the
    largest measured number has not doubled: `more than 8 clients (1.50x that of 1 client at 8; 95 %: over
    8)`.
    """
    latency = METRICS[card.question.doubles].quantity
    number = named_number(capacity)
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
    head = labels.case_label(capacity.where, card.shown)
    return AnswerText(
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

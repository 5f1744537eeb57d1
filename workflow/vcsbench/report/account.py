"""The account of a study: its time, the results of its comparisons, and the gain of more time.

The rule `tables` writes it into results/budget/<study>.json (statistics.budget.budget_report).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from vcsbench import words
from vcsbench.codes import Result
from vcsbench.statistics import texts


@dataclass(frozen=True)
class BlockAccount:
    """The measured rounds of a block, and their seconds."""

    rounds: int
    seconds: float


@dataclass(frozen=True)
class OutlookMoment:
    """The comparisons that are still undecided after further `seconds` of measuring.

    `left` has their number by table: `{"f6-vs-f7": 3}`.
    """

    seconds: float
    left: Mapping[str, int]

    @property
    def undecided(self) -> int:
        return sum(self.left.values())


@dataclass(frozen=True)
class Account:
    """The account of a study. The defaults are for a study without any result."""

    taken_s: float = 0.0  # of all sessions
    spent_s: Mapping[str, float] = field(default_factory=dict)  # by the step of a session
    timed_s: float = 0.0  # of the timed runs
    scatter_pct: float = 0.0  # the standard deviation of a single run, 0 if it is unknown
    blocks: Sequence[BlockAccount] = ()
    # The number of comparisons, by table and result: {"f6-vs-f7": {Result.EQUAL: 3}}.
    tables: Mapping[str, Mapping[Result, int]] = field(default_factory=dict)
    # For each open comparison that more rounds can decide: the further rounds of all cells that it needs. The
    # least number is first.
    more_rounds: Sequence[int] = ()
    outlook: Sequence[OutlookMoment] = ()  # the shortest further time is first
    minutes: float | None = None  # the limit of a session, None if it had a number of rounds
    # The reason for the end of the measuring (codes.StopReason), "" if the session was interrupted, or had a
    # number of rounds.
    why: str = ""

    def count_results(self) -> Counter[Result]:
        """Return the number of comparisons of all tables by their result."""
        counts: Counter[Result] = Counter()
        for table in self.tables.values():
            counts.update(table)
        return counts

    def count_open(self) -> int:
        """Return the number of comparisons that more rounds may decide."""
        counts = self.count_results()
        return counts[Result.BOUNDED] + counts[Result.UNDECIDED]

    def forecast_seconds(self, rounds: int) -> float:
        """Return the seconds until each block has `rounds` rounds in total, at its speed so far."""
        seconds = 0.0
        for block in self.blocks:
            # The speed of a block without a measured round is unknown, so the block is left out.
            if block.rounds:
                seconds_per_round = block.seconds / block.rounds
                missing_rounds = max(0, rounds - block.rounds)
                seconds += seconds_per_round * missing_rounds
        return seconds


ACCOUNT = TypeAdapter(Account)


def describe_results(account: Account) -> str:
    """Return how many comparisons have an answer (different or equal), and why the others have no answer.

    Example: `74 of 82 comparisons, 4 too small to compare, 4 undecided`. It is "" without comparisons.
    """
    counts = account.count_results()
    if not counts.total():
        return ""
    answered = counts[Result.DIFFERENT] + counts[Result.EQUAL]
    parts = [f"{answered} of {words.count_of(counts.total(), 'comparison')}"]
    for result in (Result.BOUNDED, Result.TOO_SMALL, Result.UNDECIDED):
        if counts[result]:
            parts.append(f"{counts[result]} {texts.outcome_text(result)}")
    return ", ".join(parts)

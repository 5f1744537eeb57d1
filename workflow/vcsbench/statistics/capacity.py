"""Find how many clients a server carries until its latency has doubled."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vcsbench.axis_names import READERS_AXIS
from vcsbench.statistics.comparisons import ComparisonRow

DOUBLED = 2.0


@dataclass(frozen=True)
class Capacity:
    """The measured number of clients from which on all have at least twice the latency of the fewest clients.

    `fewest` is the baseline, mostly 1, and `most` the largest compared number. `low` and `high` are the ends
    of the 95 % interval of `number`: from `high` on, whole intervals of the factor are above 2. Each of the
    three is None if no measured number is that large. `factors` has the latency of each number as a multiple
    of the baseline's. `where` has the values of the other axes. `has_interval` is False if a ratio has no
    interval, as after a single round: `low` and `high` mean nothing then.
    """

    fewest: int
    most: int
    number: int | None
    low: int | None
    high: int | None
    factors: Mapping[int, float]
    where: Mapping[str, str] = field(default_factory=dict)
    has_interval: bool = True


def find_capacities(rows: Iterable[ComparisonRow], axis: str = READERS_AXIS) -> list[Capacity]:
    """Return the capacity of each case in a table that compares the latencies of numbers of clients.

    The rows of a case are equal on all axes but `axis`. A row's `candidate` is a number of clients, and its
    `baseline` the fewest clients. Example: 2, 4 and 8 readers with the ratios 0.8 (0.7 to 0.9), 0.52 (0.45 to
    0.6) and 0.3 (0.25 to 0.35) have the capacity 8 (interval: 4 to 8). Rows without a ratio do not count.
    """
    cases: dict[tuple[tuple[str, str], ...], list[ComparisonRow]] = defaultdict(list)
    for row in rows:
        if row.has_ratio:
            where = tuple((name, value) for name, value in row.where.items() if name != axis)
            cases[where].append(row)
    capacities = []
    for where, rows_of_case in cases.items():
        row_by_number = {int(row.candidate): row for row in rows_of_case}
        numbers = sorted(row_by_number)
        # A ratio is baseline / candidate, so its reciprocal is the latency as a multiple of the baseline's.
        factors = {number: 1 / row_by_number[number].ratio for number in numbers}
        largest_factors = {number: 1 / row_by_number[number].low for number in numbers}
        smallest_factors = {number: 1 / row_by_number[number].high for number in numbers}
        # The largest factors reach 2 at fewer clients, so they give the low end of the capacity.
        capacity = Capacity(
            fewest=int(row_by_number[numbers[0]].baseline),
            most=numbers[-1],
            number=_doubled_from(factors),
            low=_doubled_from(largest_factors),
            high=_doubled_from(smallest_factors),
            factors=factors,
            where=dict(where),
            has_interval=all(math.isfinite(row.low + row.high) for row in rows_of_case),
        )
        capacities.append(capacity)
    return capacities


def _doubled_from(factors: Mapping[int, float]) -> int | None:
    """Return the smallest number from which on all factors are at least DOUBLED; None without one.

    Example: {2: 1.2, 4: 2.1, 8: 1.9, 16: 3.0} gives 16, because 8 readers have less than twice the latency.
    """
    doubled_from: int | None = None
    for number, factor in sorted(factors.items(), reverse=True):
        # The end of an interval is NaN after a single round.
        if not math.isfinite(factor) or factor < DOUBLED:
            break
        doubled_from = number
    return doubled_from

"""Find how many clients a server carries until its latency has doubled."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
    """Return the capacity of each case: the number of clients from which on the latency has doubled.

    Each row compares the latency of a number of clients (`candidate`) with the latency of the fewest
    clients (`baseline`). A case is the rows that are equal on all axes but `axis`, the number of clients.
    Rows without a ratio do not count.

    Example: 2, 4 and 8 clients have 1.25, 1.9 and 3.3 times the latency of one client. So the capacity is 8.
    The interval of 1.9 is 1.7 to 2.2, so 4 clients may be enough to double the latency. The interval of the
    capacity is then 4 to 8.
    """
    rows_by_case: dict[tuple[tuple[str, str], ...], list[ComparisonRow]] = defaultdict(list)
    for row in rows:
        if row.has_ratio:
            case = tuple((name, value) for name, value in row.where.items() if name != axis)
            rows_by_case[case].append(row)
    capacities = []
    for case, rows_of_case in rows_by_case.items():
        capacities.append(_capacity_of_case(dict(case), rows_of_case))
    return capacities


def _capacity_of_case(where: Mapping[str, str], rows: Sequence[ComparisonRow]) -> Capacity:
    """Return the capacity of one case from its rows (at least one). `where` has its values of axes."""
    row_by_number = {int(row.candidate): row for row in rows}
    numbers = sorted(row_by_number)
    # A ratio is the latency of the fewest clients / the latency of more clients. So its reciprocal is the
    # factor by which the latency has grown. The low end of a ratio gives the largest possible factor.
    factors = {number: 1 / row_by_number[number].ratio for number in numbers}
    largest_factors = {number: 1 / row_by_number[number].low for number in numbers}
    smallest_factors = {number: 1 / row_by_number[number].high for number in numbers}
    return Capacity(
        fewest=int(row_by_number[numbers[0]].baseline),
        most=numbers[-1],
        number=_doubled_from(factors),
        # With the largest factors, fewer clients are enough to double the latency.
        low=_doubled_from(largest_factors),
        high=_doubled_from(smallest_factors),
        factors=factors,
        where=where,
        has_interval=all(math.isfinite(row.low + row.high) for row in rows),
    )


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

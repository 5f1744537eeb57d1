"""Where rounds go: to the blocks in which they answer most for the time that they take.

Blocks whose cells are compared with one another get theirs together. A round is worth, of each comparison
that is not settled, 1 / the rounds that it still wants: all of what it settles alone, a tenth of what ten do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vcsbench.compare.answers import Comparison

# What would take longer is not foreseen: a year, measured without a break.
FORESEEN_S = 365 * 24 * 3600.0


class Want(NamedTuple):
    """A comparison that is not settled, and the rounds that it still wants."""

    rounds: float
    of: Comparison


@dataclass
class Union:
    """Blocks that get rounds together, what a round of them takes, and what is wanted of them."""

    blocks: frozenset[str]
    round_s: float
    wants: list[Want]

    @property
    def worth(self) -> float:
        """Of a round, per second."""
        return sum(1 / want.rounds for want in self.wants) / self.round_s

    def give(self) -> list[Comparison]:
        """Foresee one round; returns what it settles."""
        settled = [want.of for want in self.wants if want.rounds <= 1]
        self.wants = [Want(n - 1, of) for n, of in self.wants if n > 1]
        return settled


def allot(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float], seconds: float
) -> Counter[str]:
    """The rounds that each block is given of so many seconds; `round_s` has what one of each block takes."""
    given: Counter[str] = Counter()
    for union, _, _ in _given(comparisons, round_s, seconds):
        given.update(union.blocks)
    return given


def outlook(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float]
) -> list[tuple[float, dict[str, int]]]:
    """After how many seconds more how many comparisons of each table are still too noisy to say, from now on.
    Where the last entry has any, no number of rounds would settle them."""
    left = Counter(one.table for one in comparisons if not one.answered)
    foreseen = [(0.0, dict(left))]
    for _, taken, settled in _given(comparisons, round_s, FORESEEN_S):
        told = Counter(one.table for one in settled if not one.answered)
        if told:
            left -= told
            foreseen.append((taken, dict(left)))
    return foreseen


def _given(
    comparisons: Sequence[Comparison], round_s: Mapping[str, float], seconds: float
) -> Iterator[tuple[Union, float, list[Comparison]]]:
    """The rounds that are given, one after another: of which blocks, the seconds that are then taken, and
    what is settled by it."""
    unions, taken = _unions(comparisons, round_s), 0.0
    while fit := [u for u in unions if u.wants and taken + u.round_s <= seconds]:
        best = max(fit, key=lambda union: union.worth)
        taken += best.round_s
        yield best, taken, best.give()


def _unions(comparisons: Iterable[Comparison], round_s: Mapping[str, float]) -> list[Union]:
    """The blocks, together where a comparison is of cells of both."""
    unions: list[Union] = []
    for one in comparisons:
        touched = [union for union in unions if union.blocks & one.blocks]
        blocks = one.blocks.union(*(union.blocks for union in touched))
        wants = [want for union in touched for want in union.wants]
        if not one.settled and math.isfinite(one.wanted):
            wants.append(Want(one.wanted - one.rounds, one))
        unions = [union for union in unions if union not in touched]
        # What a round takes is known of all that was measured.
        unions.append(Union(blocks, sum(round_s.get(block, math.inf) for block in blocks), wants))
    return unions

"""Where rounds go: to the blocks in which they answer most for the time that they take.

Blocks whose cells are compared with one another get theirs together. A comparison is likely told before it
is settled: with a share x of the rounds that it wants, its interval is 1 / sqrt(x) times as wide as it is to
be, and its chance of being told about Phi(T (2 sqrt(x) - 1)), be it a difference or none: half of the rounds
tell 9 of 10. Rounds go where that grows most per second, looking as many rounds ahead as it takes: the first
ones may tell nothing yet, and the last ones little more (docs/running.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vcsbench.compare.answers import Comparison

# What would take longer is not foreseen: a year, measured without a break.
FORESEEN_S = 365 * 24 * 3600.0
# Student's t at the level that a difference is held to, about.
T = 3.0
# How many rounds ahead are looked at.
AHEAD = np.unique(np.geomspace(1, 1000, 25).astype(int))


def chance(share: np.ndarray) -> np.ndarray:
    """How likely a comparison is told that has a share of the rounds that it wants."""
    from scipy.special import ndtr

    return np.asarray(ndtr(T * (2 * np.sqrt(np.minimum(share, 1)) - 1)))


@dataclass
class Union:
    """Blocks that get rounds together, what a round of them takes, the comparisons that are not settled, and
    the rounds that it was given."""

    blocks: frozenset[str]
    round_s: float
    wants: list[Comparison]
    given: int = 0

    @cached_property
    def worth(self) -> float:
        """Of a round, per second."""
        rounds, wanted = np.array([(one.rounds + self.given, one.wanted) for one in self.wants]).T
        now, then = chance(rounds / wanted), chance((rounds + AHEAD[:, None]) / wanted)
        return float(((then - now).sum(axis=1) / AHEAD).max()) / self.round_s

    def give(self) -> list[Comparison]:
        """Foresee one round; returns what it settles."""
        self.given += 1
        settled = [one for one in self.wants if one.rounds + self.given >= one.wanted]
        self.wants = [one for one in self.wants if one.rounds + self.given < one.wanted]
        self.__dict__.pop("worth", None)
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
        if not any(one.table for union in unions for one in union.wants):
            return  # findings, which are no table's, steer rounds and want none by themselves
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
            wants.append(one)
        unions = [union for union in unions if union not in touched]
        # What a round takes is known of all that was measured.
        unions.append(Union(blocks, sum(round_s.get(block, math.inf) for block in blocks), wants))
    return unions

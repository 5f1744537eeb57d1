"""Distributions as measured quantiles, drawn from without any floating-point library call.

random.Random.random() and plain arithmetic give the same bits on every Python and platform;
exp() and log() need not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


class Quantiles:
    """A distribution of numbers, given as (share at or below, value) points from 0 to 1."""

    def __init__(self, *points: tuple[float, float]) -> None:
        self._shares, self._values = zip(*points, strict=True)

    def at(self, share: float) -> float:
        """The value at a share from 0 to below 1, linear between the points."""
        i = bisect_right(self._shares, share)
        low, high = self._shares[i - 1], self._shares[i]
        first, last = self._values[i - 1], self._values[i]
        return first + (last - first) * (share - low) / (high - low)

    def value(self, rng: Random) -> float:
        """A number from the distribution."""
        return self.at(rng.random())

    def draw(self, rng: Random) -> int:
        """A whole number from the distribution, cut off after the point."""
        return int(self.value(rng))

    def mean(self) -> float:
        """The mean of value()."""
        total = 0.0
        for i in range(1, len(self._shares)):
            width = self._shares[i] - self._shares[i - 1]
            total += width * (self._values[i] + self._values[i - 1]) / 2
        return total


def pick(rng: Random, items: Sequence[Item]) -> Item:
    """One of the items, all alike."""
    return items[int(rng.random() * len(items))]


def ranked(rng: Random, count: int, power: int) -> int:
    """A rank below `count`, low ranks the more likely the higher `power` is."""
    return int(count * rng.random() ** power)

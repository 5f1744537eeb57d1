"""A block's choices compared: paired by round, and said to differ only beyond the spread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import pandas as pd

from vcsbench import samework
from vcsbench.grid import BLOCK_AXES
from vcsbench.intervals import ENOUGH_ROUNDS, ratio_interval

Point = tuple[str, ...]  # one value for each axis that there is a choice of


@dataclass(frozen=True)
class Comparison:
    """How many times as fast as something else: the paired ratio, its interval, and its spread, the
    smallest and the largest round. `shown` where interval and spread both lie above 1."""

    ratio: float
    low: float
    high: float
    smallest: float
    largest: float
    shown: bool


class Block:
    """The cells of one command, repository and cache state: what there is to choose between.

    `names` are the axes with more than one value, `fixed` the others' values. Cells that lack one
    of the block's rounds are `left_out`, so that all are compared over the same rounds. Those that did
    not do what most did are in `other_work`, each with what differs.
    """

    def __init__(self, rows: pd.DataFrame, order: Mapping[str, Sequence[str]]) -> None:
        """Take the block's rows of reduction.by_round; `order` has all axes and their values."""
        choices = [axis for axis in order if axis not in BLOCK_AXES]
        found = {axis: set(rows[axis]) - {""} for axis in choices}
        self.names = [axis for axis in choices if len(found[axis]) > 1]
        self.fixed = {axis: min(found[axis]) for axis in choices if len(found[axis]) == 1}
        self.order = order
        self.hosts = sorted(set(rows["host"]))
        self.rounds = sorted(set(rows["round"]))
        seconds: dict[Point, dict[float, float]] = {}
        works: dict[Point, str] = {}
        for row in rows.to_dict("records"):
            point = tuple(row[axis] for axis in self.names)
            seconds.setdefault(point, {})[row["round"]] = row["elapsed_s"]
            works[point] = row["work"]
        alike = samework.alike(works)
        self.other_work = {p: _why_other(p, works, alike) for p in seconds if p not in alike}
        self.left_out = [p for p, times in seconds.items() if len(times) < len(self.rounds)]
        self.seconds = {
            point: [times[number] for number in self.rounds]
            for point, times in seconds.items()
            if point not in self.left_out and point not in self.other_work
        }

    def why_not(self) -> str:
        """Why nothing can be recommended; "" if something can."""
        n = len(self.rounds)
        if len(self.hosts) > 1:
            return f"It was measured on several machines ({', '.join(self.hosts)}): not compared."
        if n < ENOUGH_ROUNDS:
            rounds = "1 round was" if n == 1 else f"{n} rounds were"
            return f"Only {rounds} measured; under {ENOUGH_ROUNDS} nothing is recommended."
        if len(self.seconds) < 2 and self.other_work:
            return "Nothing is compared, for what was measured did not all do the same."
        if len(self.seconds) < 2:
            return "There was nothing to choose between."
        return ""

    def ranked(self) -> list[Point]:
        """The choices, the fastest median first."""
        return sorted(self.seconds, key=lambda point: (median(self.seconds[point]), point))

    def compare(self, fast: Point, slow: Point) -> Comparison:
        """Two choices."""
        return _compare([self._logs(fast, slow)])

    def compare_values(self, axis: str, fast: str, slow: str) -> Comparison | None:
        """Two values of an axis, over all choices that are the same otherwise; None without any."""
        matches = [
            (point, other)
            for point in self.seconds
            if point[self.names.index(axis)] == fast
            and (other := self._with(point, axis, slow)) in self.seconds
        ]
        return _compare([self._logs(*match) for match in matches]) if matches else None

    def values(self, axis: str) -> list[str]:
        """The values of an axis, the fastest first, over the choices that all of them have."""
        found = {point[self.names.index(axis)] for point in self.seconds}
        sums = {value: 0.0 for value in self.order[axis] if value in found}
        for point, times in self.seconds.items():
            if all(self._with(point, axis, value) in self.seconds for value in sums):
                sums[point[self.names.index(axis)]] += math.fsum(map(math.log, times))
        return sorted(sums, key=lambda value: sums[value])

    def _with(self, point: Point, axis: str, value: str) -> Point:
        index = self.names.index(axis)
        return (*point[:index], value, *point[index + 1 :])

    def _logs(self, fast: Point, slow: Point) -> list[float]:
        pairs = zip(self.seconds[fast], self.seconds[slow], strict=True)
        return [math.log(slower / faster) for faster, slower in pairs]


def _why_other(point: Point, works: Mapping[Point, str], alike: set[Point]) -> str:
    """Why a choice is not compared with those that did the same, or with any where none did."""
    own = samework.refusal("", {"": works[point]})
    if own:
        return own.reason
    known = [p for p in alike or works if not samework.refusal("", {"": works[p]})]
    # It is not alike, so one of those that are known did something else.
    other = next(works[p] for p in known if works[p] != works[point])
    return samework.difference(works[point], other)


def _compare(logs: Sequence[Sequence[float]]) -> Comparison:
    """Matching pairs, a logarithm per round each: geometric means within rounds, then over them."""
    per_round = [math.fsum(column) / len(logs) for column in zip(*logs, strict=True)]
    estimate = ratio_interval(per_round)
    smallest, largest = math.exp(min(per_round)), math.exp(max(per_round))
    return Comparison(
        ratio=estimate.value,
        low=estimate.low,
        high=estimate.high,
        smallest=smallest,
        largest=largest,
        shown=estimate.low > 1 and smallest > 1,
    )

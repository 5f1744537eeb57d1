"""A block's choices compared: paired by round, and called as those of a table are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from vcsbench.compare.decisions import call_all
from vcsbench.compare.intervals import ENOUGH_ROUNDS, Estimate, ratio_interval
from vcsbench.compare.noise import Floors
from vcsbench.evidence import samework
from vcsbench.plan.grid import BLOCK_AXES

Point = tuple[str, ...]  # one value for each axis that there is a choice of


@dataclass(frozen=True, eq=False)  # two of the same numbers are still two
class Comparison:
    """How many times as fast as something else: the paired ratio, its interval, and its spread, the
    smallest and the largest of `n` rounds. `noise_floor` is that of the cells compared, a ratio of at
    least 1, None where it is not known; `call` one of calls.MEANINGS, "" until `called`."""

    ratio: float
    low: float
    high: float
    smallest: float
    largest: float
    n: int
    noise_floor: float | None
    call: str = ""


class Block:
    """The cells of one command, repository and cache state: what there is to choose between.

    `names` are the axes with more than one value, `fixed` the others' values. Cells that lack one
    of the block's rounds are `left_out`, so that all are compared over the same rounds. Those that did
    not do what most did are in `other_work`, each with what differs.
    """

    def __init__(
        self, rows: pd.DataFrame, order: Mapping[str, Sequence[str]], floors: Floors
    ) -> None:
        """Take the block's rows of reduction.by_round; `order` has all axes and their values."""
        choices = [axis for axis in order if axis not in BLOCK_AXES]
        found = {axis: set(rows[axis]) - {""} for axis in choices}
        self.names = [axis for axis in choices if len(found[axis]) > 1]
        self.fixed = {axis: min(found[axis]) for axis in choices if len(found[axis]) == 1}
        self.order = order
        self.hosts = sorted(set(rows["host"]))
        self.rounds = sorted(set(rows["round"]))
        self.floors: dict[Point, float] = {}
        self.made: dict[tuple[tuple[Point, Point], ...], Comparison] = {}
        seconds: dict[Point, dict[float, float]] = {}
        works: dict[Point, str] = {}
        for row in rows.to_dict("records"):
            point = tuple(row[axis] for axis in self.names)
            seconds.setdefault(point, {})[row["round"]] = row["elapsed_s"]
            works[point] = row["work"]
            self.floors[point] = floors.of({axis: row[axis] for axis in order})
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
        """The choices, the fastest first: by the geometric mean over the rounds, as they are compared."""
        return sorted(self.seconds, key=lambda p: (math.fsum(map(math.log, self.seconds[p])), p))

    def compare(self, fast: Point, slow: Point) -> Comparison:
        """Two choices, not called yet; the same comparison each time."""
        return self._compare(((fast, slow),))

    def compare_values(self, axis: str, fast: str, slow: str) -> Comparison | None:
        """Two values of an axis, over all choices that are the same otherwise; None without any."""
        matches = self._matches(axis, fast, slow)
        return self._compare(matches) if matches else None

    def reversed_for(self, axis: str, fast: str, slow: str) -> list[dict[str, str]]:
        """Where it is the other way round, told from noise: the values of another axis, as axis and value,
        if it is so for all choices with them and for no others; else these choices."""
        matches = self._matches(axis, fast, slow)
        found = [point for point, other in matches if self._is_slower(point, other)]
        rest = [name for name in self.names if name != axis]
        for name in rest if found else []:
            index = self.names.index(name)
            values = {point[index] for point in found}
            if all(point in found for point, _ in matches if point[index] in values):
                return [{name: value} for value in self.order[name] if value in values]
        return [{name: point[self.names.index(name)] for name in rest} for point in found]

    def _matches(self, axis: str, fast: str, slow: str) -> tuple[tuple[Point, Point], ...]:
        return tuple(
            (point, other)
            for point in self.seconds
            if point[self.names.index(axis)] == fast
            and (other := self._with(point, axis, slow)) in self.seconds
        )

    def _is_slower(self, point: Point, other: Point) -> bool:
        found = self.compare(point, other)
        return found.high < 1 and found.ratio * (found.noise_floor or 1.0) < 1

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

    def _compare(self, matches: tuple[tuple[Point, Point], ...]) -> Comparison:
        """Matching pairs: geometric means within rounds, then over them."""
        if matches in self.made:
            return self.made[matches]
        logs = [
            [math.log(s / f) for f, s in zip(self.seconds[fast], self.seconds[slow], strict=True)]
            for fast, slow in matches
        ]
        per_round = [math.fsum(column) / len(logs) for column in zip(*logs, strict=True)]
        estimate = ratio_interval(per_round)
        floors = [self.floors[point] for pair in matches for point in pair]
        self.made[matches] = Comparison(
            ratio=estimate.value,
            low=estimate.low,
            high=estimate.high,
            smallest=math.exp(min(per_round)),
            largest=math.exp(max(per_round)),
            n=estimate.n,
            noise_floor=None if any(map(math.isnan, floors)) else max(floors),
        )
        return self.made[matches]


def called(comparisons: Sequence[Comparison], notable_pct: float) -> list[Comparison]:
    """The comparisons with their calls; together they are one family."""
    estimates = [Estimate(c.ratio, c.low, c.high, c.n) for c in comparisons]
    floors = [math.nan if c.noise_floor is None else c.noise_floor for c in comparisons]
    words = call_all(estimates, floors, notable_pct)
    return [replace(c, call=word) for c, word in zip(comparisons, words, strict=True)]


def _why_other(point: Point, works: Mapping[Point, str], alike: set[Point]) -> str:
    """Why a choice is not compared with those that did the same, or with any where none did."""
    own = samework.refusal("", {"": works[point]})
    if own:
        return own.reason
    known = [p for p in alike or works if not samework.refusal("", {"": works[p]})]
    # It is not alike, so one of those that are known did something else.
    other = next(works[p] for p in known if works[p] != works[point])
    return samework.difference(works[point], other)

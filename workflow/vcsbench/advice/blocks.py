"""A block's choices compared: paired by round, and called as those of a table are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from vcsbench.compare.decisions import USUAL, Limits
from vcsbench.compare.family import call_all
from vcsbench.compare.intervals import Estimate, ratio_interval
from vcsbench.compare.noise import Floors
from vcsbench.evidence import samework
from vcsbench.metrics import DEFAULT, metric_of
from vcsbench.metrics.metric import Metric

Point = tuple[str, ...]  # one value for each axis that there is a choice of


@dataclass(frozen=True)
class Terms:
    """What advice goes by: the study's axes with their values in order, which of them make a `block` and
    which a `noise_class`, a sentence for each command that has one, and the metric in which a choice is
    better."""

    order: Mapping[str, Sequence[str]]
    block: Sequence[str]
    noise_class: Sequence[str]
    caveats: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = USUAL
    metric: Metric = field(default_factory=lambda: metric_of(DEFAULT))


@dataclass(frozen=True, eq=False)  # two of the same numbers are still two
class Comparison:
    """How many times as good (as fast, say) as something else: the paired ratio, its interval, and its
    spread, the smallest and the largest of `n` rounds. `noise_floor` is that of the cells compared, a ratio
    of at least 1, None where it is not known; `call` says what the former is, "" until `called`."""

    ratio: float
    low: float
    high: float
    smallest: float
    largest: float
    n: int
    noise_floor: float | None
    call: str = ""


class Block:
    """The cells that agree on the axes of the block: what there is to choose between.

    `names` are the axes with more than one value, `fixed` the others' values. Cells that lack one
    of the block's rounds are `left_out`, so that all are compared over the same rounds. Those that did
    not do what most did are in `other_work`, each with what differs.
    """

    def __init__(self, rows: pd.DataFrame, terms: Terms, floors: Floors) -> None:
        """Take the block's rows of reduction.by_round."""
        choices = [axis for axis in terms.order if axis not in terms.block]
        found = {axis: set(rows[axis]) - {""} for axis in choices}
        self.names = [axis for axis in choices if len(found[axis]) > 1]
        self.fixed = {axis: min(found[axis]) for axis in choices if len(found[axis]) == 1}
        self.terms = terms
        self.hosts = sorted(set(rows["host"]))
        self.rounds = sorted(set(rows["round"]))
        self.floors: dict[Point, float] = {}
        self.made: dict[tuple[tuple[Point, Point], ...], Comparison] = {}
        measured: dict[Point, dict[float, float]] = {}
        works: dict[Point, str] = {}
        for row in rows.to_dict("records"):
            point = tuple(row[axis] for axis in self.names)
            measured.setdefault(point, {})[row["round"]] = row[terms.metric.name]
            works[point] = row["work"]
            self.floors[point] = floors.of({axis: row[axis] for axis in terms.order})
        alike = samework.alike(works)
        self.other_work = {p: _why_other(p, works, alike) for p in measured if p not in alike}
        self.left_out = [p for p, numbers in measured.items() if len(numbers) < len(self.rounds)]
        self.numbers = {
            point: [numbers[number] for number in self.rounds]
            for point, numbers in measured.items()
            if point not in self.left_out and point not in self.other_work
        }

    def why_not(self) -> str:
        """Why nothing can be recommended; "" if something can."""
        n = len(self.rounds)
        if len(self.hosts) > 1:
            return f"It was measured on several machines ({', '.join(self.hosts)}): not compared."
        enough = self.terms.limits.enough_rounds
        if n < enough:
            rounds = "1 round was" if n == 1 else f"{n} rounds were"
            return f"Only {rounds} measured; under {enough} nothing is recommended."
        if len(self.numbers) < 2 and self.other_work:
            return "Nothing is compared, for what was measured did not all do the same."
        if len(self.numbers) < 2:
            return "There was nothing to choose between."
        return ""

    def ranked(self) -> list[Point]:
        """The choices, the best first: by the geometric mean over the rounds, as they are compared."""
        return sorted(self.numbers, key=lambda point: (self._cost(point), point))

    def _cost(self, point: Point) -> float:
        """The less, the better."""
        return self.terms.metric.gain * math.fsum(map(math.log, self.numbers[point]))

    def compare(self, good: Point, other: Point) -> Comparison:
        """Two choices, not called yet; the same comparison each time."""
        return self._compare(((good, other),))

    def compare_values(self, axis: str, good: str, other: str) -> Comparison | None:
        """Two values of an axis, over all choices that are the same otherwise; None without any."""
        matches = self._matches(axis, good, other)
        return self._compare(matches) if matches else None

    def reversed_for(self, axis: str, good: str, other: str) -> list[dict[str, str]]:
        """Where it is the other way round, told from noise: the values of another axis, as axis and value,
        if it is so for all choices with them and for no others; else these choices."""
        matches = self._matches(axis, good, other)
        found = [point for point, partner in matches if self._is_worse(point, partner)]
        rest = [name for name in self.names if name != axis]
        for name in rest if found else []:
            index = self.names.index(name)
            values = {point[index] for point in found}
            if all(point in found for point, _ in matches if point[index] in values):
                return [{name: value} for value in self.terms.order[name] if value in values]
        return [{name: point[self.names.index(name)] for name in rest} for point in found]

    def _matches(self, axis: str, good: str, other: str) -> tuple[tuple[Point, Point], ...]:
        return tuple(
            (point, partner)
            for point in self.numbers
            if point[self.names.index(axis)] == good
            and (partner := self._with(point, axis, other)) in self.numbers
        )

    def _is_worse(self, point: Point, other: Point) -> bool:
        found = self.compare(point, other)
        return found.high < 1 and found.ratio * (found.noise_floor or 1.0) < 1

    def values(self, axis: str) -> list[str]:
        """The values of an axis, the best first, over the choices that all of them have."""
        found = {point[self.names.index(axis)] for point in self.numbers}
        sums = {value: 0.0 for value in self.terms.order[axis] if value in found}
        for point in self.numbers:
            if all(self._with(point, axis, value) in self.numbers for value in sums):
                sums[point[self.names.index(axis)]] += self._cost(point)
        return sorted(sums, key=lambda value: sums[value])

    def _with(self, point: Point, axis: str, value: str) -> Point:
        index = self.names.index(axis)
        return (*point[:index], value, *point[index + 1 :])

    def _compare(self, matches: tuple[tuple[Point, Point], ...]) -> Comparison:
        """Matching pairs: geometric means within rounds, then over them."""
        if matches in self.made:
            return self.made[matches]
        gain = self.terms.metric.gain
        pairs = [[self.numbers[point] for point in pair] for pair in matches]
        logs = [[gain * math.log(o / g) for g, o in zip(*pair, strict=True)] for pair in pairs]
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


def called(comparisons: Sequence[Comparison], terms: Terms) -> list[Comparison]:
    """The comparisons with their calls; together they are one family."""
    estimates = [Estimate(c.ratio, c.low, c.high, c.n) for c in comparisons]
    floors = [math.nan if c.noise_floor is None else c.noise_floor for c in comparisons]
    words = call_all(estimates, floors, terms.metric.words[:2], terms.limits)
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

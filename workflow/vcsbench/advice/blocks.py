"""A block's choices compared: paired by round, and called as those of a table are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from vcsbench.compare.decisions import TOO_NOISY, USUAL, Limits
from vcsbench.compare.family import call_all
from vcsbench.compare.intervals import Estimate, ratio_interval
from vcsbench.compare.noise import Noise
from vcsbench.compare.reduction import MEDIAN
from vcsbench.evidence import samework
from vcsbench.metrics import DEFAULT, Metric, metric_of

Point = tuple[str, ...]  # one value for each axis that there is a choice of
Pairs = tuple[tuple[Point, Point], ...]  # each with what it is compared with
Cell = tuple[str, ...]  # the values of all axes
Calls = Mapping[tuple[Cell, Cell], str]  # of the first cell against the second


@dataclass(frozen=True)
class Terms:
    """What advice goes by: the study's axes with their values in order, which of them are `given` (advice is
    told for each of their values apart) and which make a `block` that is measured side by side, a sentence
    for each command that has one, and the metric in which a choice is better."""

    order: Mapping[str, Sequence[str]]
    given: Sequence[str]
    block: Sequence[str]
    caveats: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = USUAL
    metric: Metric = field(default_factory=lambda: metric_of(DEFAULT))


@dataclass(frozen=True, eq=False)  # two of the same numbers are still two
class Comparison:
    """How many times as good (as fast, say) as something else: the paired ratio and its 95 % interval over
    `n` rounds, the standard error of its logarithm with its degrees of freedom, the mean over how many
    `pairs` of choices it is; `call` says what the ratio is, "" until it is `called`, as it is from the
    beginning where a table compares the same."""

    ratio: float
    low: float
    high: float
    n: int
    error: float
    degrees: float
    pairs: int
    call: str = ""

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 1."""
        return self.low > 1 or self.high < 1


class Block:
    """The cells that agree on what is given: what there is to choose between.

    `names` are the axes with more than one value, `fixed` the others' values. Cells that lack one
    of the block's rounds are `left_out`, so that all are compared over the same rounds. Those that did
    not do what most did are in `other_work`, each with what differs.
    """

    def __init__(self, rows: pd.DataFrame, terms: Terms, noise: Noise, calls: Calls) -> None:
        """Take the block's rows of reduction.by_round, as they are compared, with those medians as the
        column MEDIAN; `calls` are those of tables, as calls_in has them."""
        choices = [axis for axis in terms.order if axis not in terms.given]
        found = {axis: set(rows[axis]) - {""} for axis in choices}
        self.names = [axis for axis in choices if len(found[axis]) > 1]
        self.fixed = {axis: min(found[axis]) for axis in choices if len(found[axis]) == 1}
        self.terms = terms
        self.hosts = sorted(set(rows["host"]))
        self.rounds = sorted(set(rows["round"]))
        self.calls, self.noise = calls, noise
        self.cells: dict[Point, Cell] = {}
        self.made: dict[Pairs, Comparison] = {}
        measured: dict[Point, dict[float, float]] = {}
        self.medians: dict[Point, list[float]] = {}
        works: dict[Point, str] = {}
        for row in rows.to_dict("records"):
            if samework.is_apart(row["work"]):
                continue  # there to be compared with, and no choice
            point = tuple(row[axis] for axis in self.names)
            measured.setdefault(point, {})[row["round"]] = row[terms.metric.name]
            self.medians.setdefault(point, []).append(row[MEDIAN])
            works[point] = row["work"]
            self.cells[point] = tuple(row[axis] for axis in terms.order)
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
        enough = self.terms.limits.min_rounds
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

    def axes(self, point: Point) -> dict[str, str]:
        """A choice by its axes, without those that do not apply."""
        return {axis: value for axis, value in zip(self.names, point, strict=True) if value}

    def pairs(self, axis: str, good: str, other: str) -> Pairs:
        """The choices with one value of an axis, each with what is the same otherwise with the other."""
        index = self.names.index(axis)
        return tuple(
            (point, partner)
            for point in self.ranked()
            if point[index] == good
            and (partner := (*point[:index], other, *point[index + 1 :])) in self.numbers
        )

    def values(self, axis: str) -> list[str]:
        """The values of an axis, the best first, over the choices that all of them have."""
        index = self.names.index(axis)
        found = {point[index] for point in self.numbers}
        sums = {value: 0.0 for value in self.terms.order[axis] if value in found}
        for point in self.numbers:
            partners = ((*point[:index], value, *point[index + 1 :]) for value in sums)
            if all(partner in self.numbers for partner in partners):
                sums[point[index]] += self._cost(point)
        return sorted(sums, key=lambda value: sums[value])

    def compare(self, pairs: Pairs) -> Comparison:
        """The first of each pair against the second, the geometric mean over the pairs; not called yet, and
        the same comparison each time."""
        if pairs not in self.made:
            logs = [self._logs(*pair) for pair in pairs]
            mean = [math.fsum(column) / len(logs) for column in zip(*logs, strict=True)]
            cells = [(self.cells[good], self.cells[other]) for good, other in pairs]
            made = self.noise.judged(ratio_interval(mean, len(pairs)), cells)
            found = Comparison(
                made.value, made.low, made.high, made.n, made.error, made.degrees, len(pairs)
            )
            self.made[pairs] = (
                replace(found, call=self._in_table(*pairs[0])) if len(pairs) == 1 else found
            )
        return self.made[pairs]

    def _in_table(self, good: Point, other: Point) -> str:
        """What a table calls it; never the worse one: this comparison may lack rounds that a table has."""
        call = self.calls.get((self.cells[good], self.cells[other]), "")
        return TOO_NOISY if call == self.terms.metric.words.worse else call

    def _logs(self, good: Point, other: Point) -> list[float]:
        gain, sides = self.terms.metric.gain, (self.numbers[good], self.numbers[other])
        return [gain * math.log(o / g) for g, o in zip(*sides, strict=True)]


def called(comparisons: Sequence[Comparison], noise: Noise, terms: Terms) -> list[Comparison]:
    """The comparisons with their calls; those that had none before are one family."""
    new = [
        Estimate(c.ratio, c.low, c.high, c.n, c.error, c.degrees, c.pairs)
        for c in comparisons
        if not c.call
    ]
    words = iter(call_all(new, noise.twins_known, terms.metric.words[:2], terms.limits))
    return [c if c.call else replace(c, call=next(words)) for c in comparisons]


def calls_in(tables: Iterable[pd.DataFrame], terms: Terms) -> dict[tuple[Cell, Cell], str]:
    """The calls of tables that compare one axis in the metric of the advice: of both sides of each row."""
    better, worse = terms.metric.words[:2]
    turned = {better: worse, worse: better}
    found: dict[tuple[Cell, Cell], str] = {}
    for table in tables:
        for row in table.to_dict("records"):
            sides = (
                tuple(row.get(axis, row[side]) for axis in terms.order)
                for side in ("candidate", "baseline")
            )
            candidate, baseline = sides
            found[candidate, baseline] = row["call"]
            found[baseline, candidate] = turned.get(row["call"], row["call"])
    return found


def _why_other(point: Point, works: Mapping[Point, str], alike: set[Point]) -> str:
    """Why a choice is not compared with those that did the same, or with any where none did."""
    own = samework.refusal("", {"": works[point]})
    if own:
        return own.reason
    known = [p for p in alike or works if not samework.refusal("", {"": works[p]})]
    # It is not alike, so one of those that are known did something else.
    other = next(works[p] for p in known if works[p] != works[point])
    return samework.difference(works[point], other)

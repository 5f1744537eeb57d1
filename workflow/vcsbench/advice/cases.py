"""What was compared of one axis, case by case: from the effects of the advice where there is a choice of it,
from the tables where it is given."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

from vcsbench.compare.decisions import NOT_SHOWN
from vcsbench.metrics import Words
from vcsbench.words import is_number

Axes = Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """One value of an axis against another, where that was measured: `better` is the one with the better
    mean, `call` says whether it is. `where` has what it was measured with, of as few axes as tell it from
    other cases, `over` the values of the others that it was measured with (an axis that is in neither: all of
    its values); `fixed` what all cells there have; `rounds` how many it was measured in."""

    better: str
    worse: str
    ratio: float
    low: float
    high: float
    call: str
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fixed: Axes = field(default_factory=dict)
    rounds: float = math.inf
    over: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def values(self, axis: str) -> tuple[str, ...]:
        """The values of an axis that it is about; () for all."""
        return self.where.get(axis) or self.over.get(axis) or ()


def of_effects(items: Iterable[Mapping[str, Any]], axis: str, given: Sequence[str]) -> list[Case]:
    """The cases of an axis that there is a choice of, from recommendations (advice.recommend)."""
    return [
        _of_effect(item, effect, given)
        for item in items
        for effect in item.get("effects", [])
        if effect["axis"] == axis
    ]


def _of_effect(item: Mapping[str, Any], effect: Mapping[str, Any], given: Sequence[str]) -> Case:
    where = {name: (item[name],) for name in given if item.get(name)}
    for name in dict.fromkeys(name for context in effect["with"] for name in context):
        where[name] = tuple(dict.fromkeys(context.get(name, "") for context in effect["with"]))
    found = effect["comparison"]
    ratio, low, high = (found[key] for key in ("ratio", "low", "high"))
    sides, fixed = (effect["better"], effect["worse"]), item.get("fixed", {})
    over = {axis: tuple(values) for axis, values in effect["over"].items()}
    return Case(*sides, ratio, low, high, found["call"], where, fixed, found["n"], over)


def of_table(
    rows: Iterable[Mapping[Any, Any]], axes: Sequence[str], words: Words, between: Sequence[str]
) -> list[Case]:
    """The cases of an axis from the rows of a table that compares it, those without an interval left out;
    `axes` are the others, `between` the values that are asked about (all, where it is empty)."""
    found = []
    for row in rows:
        sides = str(row["candidate"]), str(row["baseline"])
        has_interval = all(map(is_number, (row["ratio"], row["low"], row["high"])))
        if not has_interval or not row["call"] or (between and not set(sides) <= set(between)):
            continue
        ratio, low, high = (float(row[key]) for key in ("ratio", "low", "high"))
        call = words.better if row["call"] == words.worse else str(row["call"])
        if ratio < 1:
            ratio, low, high, sides = 1 / ratio, 1 / high, 1 / low, (sides[1], sides[0])
        where = {axis: (str(row[axis]),) for axis in axes if row.get(axis)}
        rounds = float(row["n"]) if is_number(row.get("n")) else math.inf
        found.append(Case(*sides, ratio, low, high, call, where, rounds=rounds))
    return found


@dataclass(frozen=True)
class Sides:
    """The cases of an axis by what they came to: `clear`, where one is better, `alike`, where no difference
    is shown, `untold`, which are too noisy to say, `few`, which have too few rounds to say."""

    clear: list[Case]
    alike: list[Case]
    untold: list[Case]
    few: list[Case]

    @property
    def good(self) -> list[str]:
        """The values that are better somewhere and worse nowhere, the one that is so most often first."""
        wins = Counter(case.better for case in self.clear)
        worse = {case.worse for case in self.clear}
        return [value for value, _ in wins.most_common() if value not in worse]


def sides_of(cases: Iterable[Case], better: str, enough: int = 0) -> Sides:
    """The cases, parted; nothing is told of one with fewer rounds than `enough`."""
    sides = Sides([], [], [], [])
    for case in cases:
        if case.call == better:
            sides.clear.append(case)
        elif case.call == NOT_SHOWN:
            sides.alike.append(case)
        else:
            (sides.few if case.rounds < enough else sides.untold).append(case)
    return sides


def depends_on(clear: Sequence[Case], axes: Sequence[str]) -> tuple[str, ...]:
    """The fewest of `axes` by whose values nothing is better in one case and worse in another; () where
    there are none such."""
    against = list(_contrary(clear))
    for size in range(1, len(axes) + 1):
        for some in combinations(axes, size):
            if not any(meet(one, other, some) for one, other in against):
                return some
    return ()


def by_values(cases: Sequence[Case], axes: Sequence[str]) -> dict[tuple[str, ...], list[Case]]:
    """The cases by the values of these axes; one that is about several of them, or all, stands under each
    that occurs."""
    seen = [tuple(dict.fromkeys(v for c in cases for v in c.values(a))) for a in axes]
    found: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        of = [case.values(a) or all_ or ("",) for a, all_ in zip(axes, seen, strict=True)]
        for values in product(*of):
            found.setdefault(values, []).append(case)
    return found


def _contrary(clear: Sequence[Case]) -> Iterator[tuple[Case, Case]]:
    """Pairs of cases of which one has as the better what the other has as the worse."""
    for one, other in combinations(clear, 2):
        if one.better == other.worse or one.worse == other.better:
            yield one, other


def meet(one: Case, other: Case, axes: Sequence[str]) -> bool:
    """Whether two cases may have the same values of these axes."""
    both = ((set(one.values(axis)), set(other.values(axis))) for axis in axes)
    return all(not mine or not theirs or mine & theirs for mine, theirs in both)

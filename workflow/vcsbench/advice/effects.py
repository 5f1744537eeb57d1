"""What each axis does to a block's choices: over all of the others' values where these make no difference to
it, else for each of them apart. No mean hides that something helps here and hurts there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from vcsbench.advice.blocks import Block, Comparison, Pairs, Point, called
from vcsbench.compare.decisions import NOT_SHOWN


@dataclass(frozen=True)
class Effect:
    """One value of an axis against another, the better one first: the mean over `pairs` of choices that
    are the same otherwise."""

    axis: str
    better: str
    worse: str
    pairs: Pairs
    comparison: Comparison


@dataclass(frozen=True)
class Compared:
    """A block's comparisons with their calls. `ranked` are its choices, the best first; `against` compares
    that one with each of the others."""

    ranked: list[Point]
    against: dict[Point, Comparison]
    effects: list[Effect]
    better: str  # the call that says so

    @property
    def chosen(self) -> list[Point]:
        """The choices that are not told from the best: no comparison shows one of them to be worse than
        another choice."""
        worse = {point for point, found in self.against.items() if found.call == self.better}
        for effect in self.effects:
            if effect.comparison.call == self.better:
                worse |= {other for _, other in effect.pairs}
        best, *others = self.ranked
        return [best, *(point for point in others if point not in worse)]


def compared(block: Block) -> Compared:
    """All that is compared in a block with two choices or more; together the comparisons are one family.

    What is said of an axis agrees with what is chosen, and with the tables: see _hides.
    """
    better = block.terms.metric.words.better
    best, *others = ranked = block.ranked()
    effects = list(_effects(block))
    while True:
        direct = {point: block.compare(((best, point),)) for point in others}
        family = list(dict.fromkeys([*direct.values(), *(e.comparison for e in effects)]))
        made = dict(zip(family, called(family, block.noise, block.terms), strict=True))
        clear = {(best, point) for point, found in direct.items() if made[found].call == better}
        told: list[Effect] = []
        for effect in effects:
            mean_is_clear = made[effect.comparison].call == better
            hides = _hides(block, effect.pairs, mean_is_clear, clear)
            told += _of_each(block, effect) if hides else [effect]
        if told == effects:
            against = {point: made[found] for point, found in direct.items()}
            told = [replace(effect, comparison=made[effect.comparison]) for effect in told]
            return Compared(ranked, against, told, better)
        effects = told


def _hides(
    block: Block, pairs: Pairs, mean_is_clear: bool, clear: set[tuple[Point, Point]]
) -> bool:
    """Whether pairs say more by themselves than their mean: one is a difference where the mean is none; or,
    in tables, one is a difference and another is shown to be none, or all are one, and not of the same size.
    `clear` are pairs that are a difference."""
    if len(pairs) == 1:
        return False
    if not mean_is_clear:
        return bool(clear & set(pairs))
    found = [block.compare((pair,)) for pair in pairs]
    calls, better = {one.call for one in found}, block.terms.metric.words.better
    if {better, NOT_SHOWN} <= calls:
        return True
    ratios = [one.ratio for one in found]
    notable = 1 + block.terms.limits.min_effect_pct / 100
    return calls == {better} and max(ratios) > notable * min(ratios)


def _effects(block: Block) -> Iterator[Effect]:
    """Of each axis its best value against each of the rest, not called yet."""
    for axis in block.names:
        best, *rest = block.values(axis)
        for value in rest:
            for pairs in _parts(block, block.pairs(axis, best, value)):
                yield _effect(block, axis, pairs)


def _effect(block: Block, axis: str, pairs: Pairs) -> Effect:
    if block.compare(pairs).ratio < 1:
        pairs = tuple((other, good) for good, other in pairs)
    index = block.names.index(axis)
    good, other = (point[index] for point in pairs[0])
    return Effect(axis, good, other, pairs, block.compare(pairs))


def _of_each(block: Block, effect: Effect) -> list[Effect]:
    return [_effect(block, effect.axis, (pair,)) for pair in effect.pairs]


def _parts(block: Block, pairs: Pairs) -> list[Pairs]:
    """Pairs in parts that are alike each: by the values of as few of the other axes as do."""
    if not pairs:
        return []
    if is_alike(block, pairs):
        return [pairs]
    splits = [_by_value(pairs, i, block.terms.order[name]) for i, name in enumerate(block.names)]
    splits = [parts for parts in splits if len(parts) > 1]
    # Sorting keeps the axes' order among those that do equally well.
    best = max(splits, key=lambda parts: sum(is_alike(block, p) for p in parts) / len(parts))
    return [part for of_value in best for part in _parts(block, of_value)]


def _by_value(pairs: Pairs, index: int, order: Sequence[str]) -> list[Pairs]:
    """Pairs by the value of the axis at an index, in that order, where both of each have the same."""
    found: dict[str, Pairs] = {}
    for good, other in pairs:
        if good[index] == other[index]:
            found[good[index]] = (*found.get(good[index], ()), (good, other))
    return [found[value] for value in ["", *order] if value in found]


def is_alike(block: Block, pairs: Pairs) -> bool:
    """Whether a mean of these pairs hides nothing: where it is clear which is better, all of them point
    that way, and no two differ clearly by more than is worth noting."""
    notable = 1 + block.terms.limits.min_effect_pct / 100
    ratios = (block.compare((pair,)).ratio for pair in pairs)
    ways = {ratio > 1 for ratio in ratios if ratio != 1}
    if len(ways) > 1 and block.compare(pairs).is_clear:
        return False
    for one, other in combinations(pairs, 2):
        # The mean of the one and of the other turned round is half of what they differ by.
        found = block.compare((one, other[::-1]))
        if found.is_clear and not 1 / notable <= found.ratio**2 <= notable:
            return False
    return True


def contexts(block: Block, effect: Effect) -> list[dict[str, str]]:
    """With what an effect was seen, by as few axes as tell it from what else was compared: [{}] where that is
    all of the axis. What all of it was measured with is said too, where the block has other values of it."""
    index = block.names.index(effect.axis)
    sides = {effect.better, effect.worse}
    everything = [p for p in block.numbers if p[index] in sides]
    mine = {point for pair in effect.pairs for point in pair}
    paired = [p for p in everything if _partner(p, index, sides) in block.numbers]
    seen = _seen(block, effect)
    held = {i: next(iter(values)) for i, values in seen.items() if len(values) == 1}
    if set(paired) <= mine:
        return [_named(held, block.names)]
    for i in seen:
        if all(point in mine for point in paired if point[i] in seen[i]):
            order = block.terms.order[block.names[i]]
            values = [value for value in order if value in seen[i]]
            return [_named({**held, i: value}, block.names) for value in values]
    return [_named({i: good[i] for i in seen}, block.names) for good, _ in effect.pairs]


def over(block: Block, effect: Effect) -> dict[str, list[str]]:
    """The values of each other axis that an effect was seen with, in the axis's order."""
    seen = {block.names[i]: values for i, values in _seen(block, effect).items()}
    return {
        name: [value for value in block.terms.order[name] if value in values]
        for name, values in seen.items()
    }


def _seen(block: Block, effect: Effect) -> dict[int, set[str]]:
    """The values of each other axis, by its place, that an effect was seen with."""
    points = [point for pair in effect.pairs for point in pair]
    return {
        i: {point[i] for point in points}
        for i, name in enumerate(block.names)
        if name != effect.axis
    }


def _partner(point: Point, index: int, sides: set[str]) -> Point:
    (other,) = sides - {point[index]}
    return (*point[:index], other, *point[index + 1 :])


def _named(values: dict[int, str], names: list[str]) -> dict[str, str]:
    """Values by the names of their axes, in the block's order; without those that do not apply."""
    return {names[i]: values[i] for i in sorted(values) if values[i]}

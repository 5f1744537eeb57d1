"""The advice of a study, as data and as sentences, from its measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

import pandas as pd

from vcsbench.advice import sentences
from vcsbench.advice.blocks import Block, Comparison, Point, Terms, called
from vcsbench.compare.decisions import NOT_SHOWN, TOO_NOISY
from vcsbench.compare.noise import floors
from vcsbench.compare.reduction import by_round
from vcsbench.evidence.frames import in_order

Item = dict[str, Any]


def advise(frame: pd.DataFrame, terms: Terms) -> Item:
    """What to choose, from a frame of the measurements, as plain data for JSON.

    What is said of a block rests on calls (compare.family); those of a block are one family.
    Keys: `rounds`; `summary`, a sentence per axis; `recommendations`, for each block its
    axes and

    - `confident`, whether anything is recommended, and `why_not`;
    - `choice`, the recommended value of each axis: what all of the fastest have in common;
    - `fastest`, `runner_up` and `slowest` with `axes`, `median_s`, `min_s` and `max_s` over the
      rounds, the latter two with a `comparison`; `tied`, the choices not shown to be slower, with
      `axes` and `call`;
    - `axes`, the effect of each axis with others equal: `comparisons` of its fastest value with the
      rest, each with its `call`, and `fastest`, that value and those not shown to be slower;
    - `fixed`, the axes without a choice; `left_out`, the choices that lack a round; `other_work`, those
      that did not do the same as most, with `axes` and `reason`;
    - `sentence`, which is all of `sentences`.
    """
    order = terms.order
    block = [axis for axis in terms.block if axis in order]
    rounds = in_order(by_round(frame, list(order)), order, block)
    noise = floors(frame, list(order), terms.noise_class, terms.metric)
    parts = rounds.groupby(block, sort=False) if block else [((), rounds)]
    items = [
        _item(dict(zip(block, map(str, keys), strict=True)), Block(rows, terms, noise))
        for keys, rows in parts
    ]
    return {
        "rounds": int(rounds["round"].nunique()),
        "summary": _summary(items, [axis for axis in order if axis not in block], block, terms),
        "recommendations": items,
    }


def _item(where: Mapping[str, str], block: Block) -> Item:
    why_not, say = block.why_not(), sentences.Sentences(block.terms.metric)
    item: Item = {**where, "confident": False, "why_not": why_not, "choice": {}}
    item |= {"fixed": block.fixed, "left_out": [_axes(block, point) for point in block.left_out]}
    said = [why_not] if why_not else _compared(item, block, say)
    if item["left_out"]:
        names = "; ".join(map(say.choice, item["left_out"]))
        said.append(f"Left out, for rounds are missing: {names}.")
    item["other_work"] = [
        {"axes": _axes(block, point), "reason": reason}
        for point, reason in block.other_work.items()
    ]
    said += say.other_work(item["other_work"])
    said += [caveat for name, caveat in block.terms.caveats.items() if name in where.values()]
    return {**item, "sentences": said, "sentence": " ".join(said)}


def _compared(item: Item, block: Block, say: sentences.Sentences) -> list[str]:
    """Fill in what comparing the choices shows; returns the sentences."""
    best, *others = block.ranked()
    values = _compared_values(block)
    pairs = [block.compare(best, point) for point in others]
    # Where one axis is all that there is to choose, its comparisons are those of the choices.
    family = list(dict.fromkeys([*pairs, *(comparison for *_, comparison in values)]))
    made = dict(zip(family, called(family, block.terms), strict=True))
    against = {point: made[pair] for point, pair in zip(others, pairs, strict=True)}
    tied = [point for point in others if against[point].call != say.words.better]
    winners = [best, *tied]
    common = {
        axis: found[0]
        for axis, found in zip(block.names, zip(*winners, strict=True), strict=True)
        if found[0] and len({*found}) == 1
    }
    item["choice"], item["confident"] = common, bool(common)
    item["fastest"] = _timed(block, best)
    for name, point in (("runner_up", others[0]), ("slowest", others[-1])):
        item[name] = {**_timed(block, point), "comparison": asdict(against[point])}
    item["tied"] = [{"axes": _axes(block, p), "call": against[p].call} for p in tied]
    made_of = [(axis, good, other, made[pair]) for axis, good, other, pair in values]
    item["axes"] = _effects(made_of, block, say)
    said = [say.overall(item), *(effect["sentence"] for effect in item["axes"])]
    return said + sentences.unknown_noise(sum(c.noise_floor is None for c in family), len(family))


def _compared_values(block: Block) -> list[tuple[str, str, str, Comparison]]:
    """Each axis with all others equal: its fastest value against each of the rest, not called yet."""
    return [
        (axis, fastest, value, comparison)
        for axis in block.names
        for fastest, *rest in [block.values(axis)]
        for value in rest
        if (comparison := block.compare_values(axis, fastest, value))
    ]


def _effects(
    values: Iterable[tuple[str, str, str, Comparison]], block: Block, say: sentences.Sentences
) -> list[Item]:
    """The effect of each axis, of its comparisons when they are called."""
    effects: dict[str, Item] = {}
    for axis, best, value, comparison in values:
        effect = effects.setdefault(axis, {"axis": axis, "fastest": [best], "comparisons": []})
        made = {"faster": best, "slower": value, **asdict(comparison), "but_for": []}
        if comparison.call == say.words.better:
            made["but_for"] = block.reversed_for(axis, best, value)
        else:
            effect["fastest"].append(value)
        effect["comparisons"].append(made)
    for axis, effect in effects.items():
        effect["sentence"] = say.axis(axis, effect["comparisons"])
    return list(effects.values())


def _timed(block: Block, point: Point) -> Item:
    times = block.numbers[point]
    spread = {"median_s": median(times), "min_s": min(times), "max_s": max(times)}
    return {"axes": _axes(block, point), **spread}


def _axes(block: Block, point: Point) -> dict[str, str]:
    return {axis: value for axis, value in zip(block.names, point, strict=True) if value}


def _summary(
    items: Sequence[Item], axes: Iterable[str], block: Sequence[str], terms: Terms
) -> list[str]:
    """A sentence per axis over all blocks. A block is told by its values, those of its last axis together
    and but for those that all blocks have."""
    say = sentences.Sentences(terms.metric)
    told = [a for i, a in enumerate(block[:-1]) if not i or len({item[a] for item in items}) > 1]
    calls: dict[str, list[sentences.Call]] = {axis: [] for axis in axes}
    for item in items:
        for effect in item.get("axes", []):
            made = effect["comparisons"]
            worse = [c["ratio"] for c in made if c["call"] == say.words.better]
            noisy = any(c["call"] == TOO_NOISY for c in made)
            but_for = [axes for c in made for axes in c["but_for"]]
            call = sentences.Call(
                value=" or ".join(effect["fastest"])
                if worse
                else TOO_NOISY
                if noisy
                else NOT_SHOWN,
                ratio=min(worse, default=1.0),
                of=" of ".join(item[axis] for axis in told),
                last=item[block[-1]] if block else "",
                but_for=tuple(dict.fromkeys(map(say.choice, but_for))),
            )
            calls[effect["axis"]].append(call)
    return [say.over_blocks(axis, made, len(items)) for axis, made in calls.items() if made]

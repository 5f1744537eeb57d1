"""The advice of a study, as data and as sentences, from its measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import pandas as pd

from vcsbench.advice.blocks import Block, Point, Terms, calls_in
from vcsbench.advice.effects import Effect, compared, contexts, over
from vcsbench.advice.sentences import Sentences, unknown_noise
from vcsbench.compare.noise import Noise, noise_of
from vcsbench.compare.reduction import MEAN, MEDIAN, by_round
from vcsbench.evidence.frames import in_order

Item = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """The advice, and what it comes from: the blocks with the values of what is given, all cells by round,
    and the noise."""

    advice: Item
    blocks: list[tuple[dict[str, str], Block]]
    rounds: pd.DataFrame
    noise: Noise


def advise(frame: pd.DataFrame, terms: Terms, tables: Iterable[pd.DataFrame] = ()) -> Item:
    """The advice of `tell`."""
    return tell(frame, terms, tables).advice


def tell(frame: pd.DataFrame, terms: Terms, tables: Iterable[pd.DataFrame] = ()) -> Told:
    """What to choose, from a frame of the measurements, as plain data for JSON. What a study's `tables`
    compare is called as it is there.

    What is said of a block, the cells that agree on what is given, rests on calls (compare.family); those of
    a block that no table has are one family. Keys: `given`, the axes of which there is no choice; `rounds`;
    `summary`, a sentence per axis; `recommendations`, for each block its axes and

    - `confident`, whether something was told from the best, and `why_not`, why nothing was compared;
    - `choices`, those that are not told from the best, which comes first; `choose`, the same in words;
    - `choice`, the value of each axis that all of `choices` have;
    - `best`, `runner_up` and `slowest` with `axes` and `median_s` over the rounds, the latter two with the
      `comparison` of the best with them; all ranges are 95 % intervals;
    - `effects`, for each axis its best value with the rest, others equal: `better`, `worse`, `with` (the
      values of other axes that it holds for; where it depends on none, [{}]), over how many `pairs`, and
      the `comparison` with its `call`;
    - `fixed`, the axes without a choice; `left_out`, the choices that lack a round; `other_work`, those
      that did not do the same as most, with `axes` and `reason`;
    - `sentence`, which is all of `sentences`.
    """
    order = terms.order
    given = [axis for axis in terms.given if axis in order]
    medians = by_round(frame, list(order))[terms.metric.name]
    rounds = by_round(frame, list(order), MEAN).assign(**{MEDIAN: medians})
    rounds = in_order(rounds, order, given)
    calls = calls_in(tables, terms)
    noise = noise_of(frame, list(order), terms.block, terms.metric, rounds)
    parts = rounds.groupby(given, sort=False) if given else [((), rounds)]
    blocks = [
        (dict(zip(given, map(str, keys), strict=True)), Block(rows, terms, noise, calls))
        for keys, rows in parts
    ]
    items = [_item(where, block) for where, block in blocks]
    advice = {
        "given": given,
        "rounds": int(rounds["round"].nunique()),
        "summary": _summary(items, [axis for axis in order if axis not in given], given, terms),
        "recommendations": items,
    }
    return Told(advice, blocks, rounds, noise)


def _item(where: Mapping[str, str], block: Block) -> Item:
    why_not, say = block.why_not(), Sentences(block.terms.metric)
    item: Item = {**where, "confident": False, "why_not": why_not, "choices": [], "choice": {}}
    item |= {"choose": "nothing recommended", "fixed": block.fixed}
    item["left_out"] = [block.axes(point) for point in block.left_out]
    said = [why_not] if why_not else _compared(item, block, say)
    if item["left_out"]:
        names = "; ".join(map(say.choice, item["left_out"]))
        said.append(f"Left out, for rounds are missing: {names}.")
    item["other_work"] = [
        {"axes": block.axes(point), "reason": reason} for point, reason in block.other_work.items()
    ]
    said += say.other_work(item["other_work"])
    said += [caveat for name, caveat in block.terms.caveats.items() if name in where.values()]
    return {**item, "sentences": said, "sentence": " ".join(said)}


def _compared(item: Item, block: Block, say: Sentences) -> list[str]:
    """Fill in what comparing the choices shows; returns the sentences."""
    found = compared(block)
    best, *others = found.ranked
    chosen = [block.axes(point) for point in found.chosen]
    first = block.axes(found.chosen[0])
    item["confident"] = len(chosen) < len(found.ranked)
    item["choices"] = chosen
    item["choice"] = {
        axis: value for axis, value in first.items() if all(c.get(axis) == value for c in chosen)
    }
    item["best"] = _timed(block, best)
    for name, point in (("runner_up", others[0]), ("slowest", others[-1])):
        item[name] = _timed(block, point) | {"comparison": asdict(found.against[point])}
    item["effects"] = [_told(effect, block) for effect in found.effects]
    others_named = [block.axes(point) for point in found.ranked if point not in found.chosen]
    item["choose"] = say.chosen(chosen, others_named, item["effects"])
    said = [say.overall(item), *say.effects(item["effects"])]
    return said + unknown_noise(block.noise)


def _told(effect: Effect, block: Block) -> Item:
    return {
        "axis": effect.axis,
        "better": effect.better,
        "worse": effect.worse,
        "with": contexts(block, effect),
        "over": over(block, effect),
        "pairs": len(effect.pairs),
        "comparison": asdict(effect.comparison),
    }


def _timed(block: Block, point: Point) -> Item:
    return {"axes": block.axes(point), "median_s": median(block.medians[point])}


def _summary(
    items: Sequence[Item], axes: Iterable[str], given: Sequence[str], terms: Terms
) -> list[str]:
    """A sentence per axis over all blocks that have a choice of it. A block is told by those of its values
    that not all blocks have."""
    say = Sentences(terms.metric)
    told = [axis for axis in given if len({item[axis] for item in items}) > 1]
    found = {
        axis: [
            (" ".join(filter(None, (item[name] for name in told))), effect)
            for item in items
            for effect in item.get("effects", [])
            if effect["axis"] == axis
        ]
        for axis in axes
    }
    return [say.over_blocks(axis, effects) for axis, effects in found.items() if effects]

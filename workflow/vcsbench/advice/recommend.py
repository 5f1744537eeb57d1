"""The advice of a study, as data and as sentences, from its measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

import pandas as pd

from vcsbench.advice import sentences
from vcsbench.advice.blocks import Block, Comparison, Point, called
from vcsbench.compare.decisions import FASTER, NOTABLE_PCT, TOO_NOISY
from vcsbench.compare.noise import floors
from vcsbench.compare.reduction import by_round
from vcsbench.evidence.frames import in_order
from vcsbench.plan.grid import BLOCK_AXES

Item = dict[str, Any]


def advise(
    frame: pd.DataFrame,
    order: Mapping[str, Sequence[str]],
    caveats: Mapping[str, str],
    notable_pct: float = NOTABLE_PCT,
) -> Item:
    """What to choose, from a frame of the measurements, as plain data for JSON.

    `order` has the study's axes and their values in order, `caveats` a sentence for each command
    that has one. What is said of a block rests on calls (calls.py); those of a block are one family.
    Keys: `rounds`; `summary`, a sentence per axis; `recommendations`, for each command,
    repository and cache state

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
    known = [axis for axis in BLOCK_AXES if axis in order]
    rounds = in_order(by_round(frame, list(order)), order, known)
    several_repos = len(order.get("repo", [])) > 1
    noise = floors(frame, list(order))
    items = []
    for keys, rows in rounds.groupby(known, sort=False):
        where = dict(zip(known, map(str, keys), strict=True))
        caveat = caveats.get(where.get("command", ""), "")
        items.append(_item(where, Block(rows, order, noise), caveat, notable_pct))
    return {
        "rounds": int(rounds["round"].nunique()),
        "summary": _summary(items, order, several_repos),
        "recommendations": items,
    }


def _item(where: Mapping[str, str], block: Block, caveat: str, notable_pct: float) -> Item:
    why_not = block.why_not()
    item: Item = {
        **where,
        "confident": False,
        "why_not": why_not,
        "choice": {},
        "fixed": block.fixed,
    }
    item["left_out"] = [_axes(block, point) for point in block.left_out]
    said = [why_not] if why_not else _compared(item, block, notable_pct)
    if item["left_out"]:
        names = "; ".join(map(sentences.choice, item["left_out"]))
        said.append(f"Left out, for rounds are missing: {names}.")
    item["other_work"] = [
        {"axes": _axes(block, point), "reason": reason}
        for point, reason in block.other_work.items()
    ]
    said += sentences.other_work(item["other_work"])
    if caveat:
        said.append(caveat)
    return {**item, "sentences": said, "sentence": " ".join(said)}


def _compared(item: Item, block: Block, notable_pct: float) -> list[str]:
    """Fill in what comparing the choices shows; returns the sentences."""
    best, *others = block.ranked()
    values = _compared_values(block)
    pairs = [block.compare(best, point) for point in others]
    # Where one axis is all that there is to choose, its comparisons are those of the choices.
    family = list(dict.fromkeys([*pairs, *(comparison for *_, comparison in values)]))
    made = dict(zip(family, called(family, notable_pct), strict=True))
    against = {point: made[pair] for point, pair in zip(others, pairs, strict=True)}
    tied = [point for point in others if against[point].call != FASTER]
    winners = [best, *tied]
    common = {
        axis: best[index]
        for index, axis in enumerate(block.names)
        if best[index] and len({point[index] for point in winners}) == 1
    }
    item["choice"], item["confident"] = common, bool(common)
    item["fastest"] = _timed(block, best)
    for name, point in (("runner_up", others[0]), ("slowest", others[-1])):
        item[name] = {**_timed(block, point), "comparison": asdict(against[point])}
    item["tied"] = [{"axes": _axes(block, p), "call": against[p].call} for p in tied]
    item["axes"] = _effects(
        [(axis, fast, slow, made[c]) for axis, fast, slow, c in values], block.reversed_for
    )
    said = [sentences.overall(item), *(effect["sentence"] for effect in item["axes"])]
    return said + sentences.unknown_noise(sum(c.noise_floor is None for c in family), len(family))


def _compared_values(block: Block) -> list[tuple[str, str, str, Comparison]]:
    """Each axis with all others equal: its fastest value against each of the rest, not called yet."""
    found = []
    for axis in block.names:
        fastest, *rest = block.values(axis)
        for value in rest:
            comparison = block.compare_values(axis, fastest, value)
            if comparison:
                found.append((axis, fastest, value, comparison))
    return found


def _effects(
    values: Iterable[tuple[str, str, str, Comparison]],
    reversed_for: Callable[[str, str, str], list[dict[str, str]]],
) -> list[Item]:
    """The effect of each axis, of its comparisons when they are called."""
    by_axis: dict[str, list[Item]] = {}
    for axis, fastest, value, comparison in values:
        made = {"faster": fastest, "slower": value, **asdict(comparison)}
        made["but_for"] = reversed_for(axis, fastest, value) if comparison.call == FASTER else []
        by_axis.setdefault(axis, []).append(made)
    return [
        {
            "axis": axis,
            "fastest": [made[0]["faster"], *(c["slower"] for c in made if c["call"] != FASTER)],
            "comparisons": made,
            "sentence": sentences.axis(axis, made),
        }
        for axis, made in by_axis.items()
    ]


def _timed(block: Block, point: Point) -> Item:
    times = block.seconds[point]
    return {
        "axes": _axes(block, point),
        "median_s": median(times),
        "min_s": min(times),
        "max_s": max(times),
    }


def _axes(block: Block, point: Point) -> dict[str, str]:
    return {axis: value for axis, value in zip(block.names, point, strict=True) if value}


def _summary(items: Sequence[Item], axes: Iterable[str], several_repos: bool) -> list[str]:
    """A sentence per axis over all blocks."""
    calls: dict[str, list[sentences.Call]] = {axis: [] for axis in axes}
    for item in items:
        command = item.get("command", "")
        for effect in item.get("axes", []):
            made = effect["comparisons"]
            slower = [c["ratio"] for c in made if c["call"] == FASTER]
            but_for = [axes for c in made for axes in c["but_for"]]
            call = sentences.Call(
                value=" or ".join(effect["fastest"]) if slower else "",
                ratio=min(slower, default=1.0),
                noisy=any(c["call"] == TOO_NOISY for c in made),
                command=f"{command} of {item['repo']}" if several_repos else command,
                cache=item.get("cache", ""),
                but_for=tuple(dict.fromkeys(map(sentences.choice, but_for))),
            )
            calls[effect["axis"]].append(call)
    return [sentences.over_blocks(axis, made, len(items)) for axis, made in calls.items() if made]

"""The advice of a study, as data and as sentences, from its measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

import pandas as pd

from vcsbench.advice import sentences
from vcsbench.advice.blocks import Block, Point
from vcsbench.frames import in_order
from vcsbench.grid import BLOCK_AXES
from vcsbench.reduction import by_round

Item = dict[str, Any]


def advise(
    frame: pd.DataFrame, order: Mapping[str, Sequence[str]], caveats: Mapping[str, str]
) -> Item:
    """What to choose, from a frame of the measurements, as plain data for JSON.

    `order` has the study's axes and their values in order, `caveats` a sentence for each command
    that has one. Keys: `rounds`; `summary`, a sentence per axis; `recommendations`, for each command,
    repository and cache state

    - `confident`, whether anything is recommended, and `why_not`;
    - `choice`, the recommended value of each axis: what all of the fastest have in common;
    - `fastest`, `runner_up` and `slowest` with `axes`, `median_s`, `min_s` and `max_s` over the
      rounds, the latter two with a `comparison`; `tied`, the choices not shown to be slower;
    - `axes`, the effect of each axis with others equal: `comparisons` of its fastest value with the
      rest, and `fastest`, that value and those not shown to be slower;
    - `fixed`, the axes without a choice; `left_out`, the choices that lack a round; `other_work`, those
      that did not do the same as most, with `axes` and `reason`;
    - `sentence`, which is all of `sentences`.
    """
    known = [axis for axis in BLOCK_AXES if axis in order]
    rounds = in_order(by_round(frame, list(order)), order, known)
    several_repos = len(order.get("repo", [])) > 1
    items = []
    for keys, rows in rounds.groupby(known, sort=False):
        where = dict(zip(known, map(str, keys), strict=True))
        items.append(_item(where, Block(rows, order), caveats.get(where.get("command", ""), "")))
    return {
        "rounds": int(rounds["round"].nunique()),
        "summary": _summary(items, order, several_repos),
        "recommendations": items,
    }


def _item(where: Mapping[str, str], block: Block, caveat: str) -> Item:
    why_not = block.why_not()
    item: Item = {
        **where,
        "confident": False,
        "why_not": why_not,
        "choice": {},
        "fixed": block.fixed,
    }
    item["left_out"] = [_axes(block, point) for point in block.left_out]
    said = [why_not] if why_not else _compared(item, block)
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


def _compared(item: Item, block: Block) -> list[str]:
    """Fill in what comparing the choices shows; returns the sentences."""
    ranked = block.ranked()
    best = ranked[0]
    tied = [point for point in ranked[1:] if not block.compare(best, point).shown]
    winners = [best, *tied]
    common = {
        axis: best[index]
        for index, axis in enumerate(block.names)
        if best[index] and len({point[index] for point in winners}) == 1
    }
    item["choice"], item["confident"] = common, bool(common)
    item["fastest"] = _timed(block, best)
    for name, point in (("runner_up", ranked[1]), ("slowest", ranked[-1])):
        item[name] = {**_timed(block, point), "comparison": asdict(block.compare(best, point))}
    item["tied"] = [_axes(block, point) for point in tied]
    item["axes"] = [effect for axis in block.names if (effect := _effect(block, axis))]
    return [sentences.overall(item), *(effect["sentence"] for effect in item["axes"])]


def _effect(block: Block, axis: str) -> Item | None:
    """An axis with all others equal: its fastest value against each of the rest."""
    fastest, *rest = block.values(axis)
    comparisons = [
        {"faster": fastest, "slower": value, **asdict(comparison)}
        for value in rest
        if (comparison := block.compare_values(axis, fastest, value))
    ]
    if not comparisons:
        return None
    return {
        "axis": axis,
        "fastest": [fastest, *(c["slower"] for c in comparisons if not c["shown"])],
        "comparisons": comparisons,
        "sentence": sentences.axis(axis, comparisons),
    }


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
            slower = [c["ratio"] for c in effect["comparisons"] if c["shown"]]
            call = sentences.Call(
                value=" or ".join(effect["fastest"]) if slower else "",
                ratio=min(slower, default=1.0),
                command=f"{command} of {item['repo']}" if several_repos else command,
                cache=item.get("cache", ""),
            )
            calls[effect["axis"]].append(call)
    return [sentences.over_blocks(axis, made) for axis, made in calls.items() if made]

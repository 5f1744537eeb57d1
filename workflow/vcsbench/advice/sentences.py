"""Advice in short sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench.report.words import enumeration, significant

# Values that say which axis they are of.
SPEAKING = ("ra", "format", "packing")
# So many choices without a difference are named; of more, only what they have in common.
NAMED = 4


def choice(axes: Mapping[str, str]) -> str:
    """A choice in words: `svn f7 pack, config fast`."""
    speaking = " ".join(value for axis, value in axes.items() if axis in SPEAKING and value)
    others = [f"{axis} {value}" for axis, value in axes.items() if axis not in SPEAKING and value]
    return ", ".join([*([speaking] if speaking else []), *others])


def overall(item: Mapping[str, Any]) -> str:
    """Which choice is fastest and by how much, or between which no difference is shown."""
    fastest, next_one, slowest = item["fastest"], item["runner_up"], item["slowest"]
    within = f", all with {choice(item['fixed'])}" if item["fixed"] else ""
    last = f"{_times(slowest['comparison'])} the slowest, {choice(slowest['axes'])}"
    winner = f"Fastest: {choice(item['choice'])} ({significant(fastest['median_s'])} s{within})"
    if not item["tied"]:
        second = f"{_times(next_one['comparison'], ' over the rounds')}"
        if next_one["axes"] == slowest["axes"]:
            return f"{winner}, {second} {choice(next_one['axes'])}."
        return f"{winner}, {second} the next, {choice(next_one['axes'])}, and {last}."
    names = [choice(axes) for axes in (fastest["axes"], *item["tied"])]
    said = " and ".join(names) if len(names) == 2 else "; ".join(names)
    if len(names) > NAMED:
        said = f"the {len(names)} fastest choices"
    if not item["choice"]:
        return f"No difference shown between {said}{within}: nothing is recommended."
    return f"{winner}, {last}. No difference shown between {said}."


def axis(name: str, comparisons: Sequence[Mapping[str, Any]]) -> str:
    """What the values of an axis make of it, others equal: the fastest against each of the rest."""
    fastest = comparisons[0]["faster"]
    faster = [f"{_times(c)} {c['slower']}" for c in comparisons if c["shown"]]
    others = [c["slower"] for c in comparisons if not c["shown"]]
    parts = [f"{fastest} is {enumeration(faster)}"] if faster else []
    if others:
        parts.append(f"no difference shown between {enumeration([fastest, *others])}")
    return f"{name}: {'; '.join(parts)}."


def other_work(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """That choices are not compared for what they did, those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for one in found:
        by_reason.setdefault(one["reason"], []).append(choice(one["axes"]) or "the only choice")
    return [
        f"Not compared with the others, for what was done differs: {'; '.join(names)} ({reason})."
        for reason, names in by_reason.items()
    ]


@dataclass(frozen=True)
class Call:
    """The fastest value of an axis in a block, or "" where no difference is shown; by how much."""

    value: str
    ratio: float
    command: str
    cache: str


def over_blocks(name: str, calls: Sequence[Call]) -> str:
    """What an axis makes of all blocks, in a sentence."""
    parts = []
    for value in dict.fromkeys(call.value for call in calls):
        agreeing = [call for call in calls if call.value == value]
        where = "everything" if len(agreeing) == len(calls) else _where(agreeing)
        if value:
            ratios = sorted(call.ratio for call in agreeing)
            span = dict.fromkeys(significant(ratio) for ratio in (ratios[0], ratios[-1]))
            times = f"{' to '.join(span)} times as fast as the next"
            parts.append(f"{value} is fastest for {where}, {times}")
        else:
            parts.append(f"no difference shown for {where}")
    return f"{name}: {'; '.join(parts)}."


def _where(calls: Sequence[Call]) -> str:
    caches: dict[str, list[str]] = {}
    for call in calls:
        caches.setdefault(call.command, []).append(call.cache)
    return enumeration([f"{command} ({', '.join(found)})" for command, found in caches.items()])


def _times(comparison: Mapping[str, Any], what: str = "") -> str:
    ratio, low, high = (_factor(comparison[name]) for name in ("ratio", "smallest", "largest"))
    return f"{ratio} times ({low} to {high}{what}) as fast as"


def _factor(ratio: float) -> str:
    # A ratio just above 1 is not written as 1.00.
    return significant(ratio, 4 if 0.99 < ratio < 1.01 else 3)

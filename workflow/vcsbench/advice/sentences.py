"""Advice in short sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench.compare.decisions import FASTER, NOT_SHOWN, SLOWER, TOO_NOISY
from vcsbench.words import enumeration, significant

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
    untold = _untold(
        choice(fastest["axes"]), [(choice(t["axes"]), t["call"]) for t in item["tied"]]
    )
    untold = untold[0].upper() + untold[1:]
    if not item["choice"]:
        return f"{untold}{within}: nothing is recommended."
    if slowest["comparison"]["call"] == FASTER:
        winner += f", {last}"
    return f"{winner}. {untold}."


def axis(name: str, comparisons: Sequence[Mapping[str, Any]]) -> str:
    """What the values of an axis make of it, others equal: the fastest against each of the rest."""
    fastest = comparisons[0]["faster"]
    faster = [
        f"{_times(c)} {c['slower']}{_but(map(choice, c['but_for']))}"
        for c in comparisons
        if c["call"] == FASTER
    ]
    parts = [f"{fastest} is {enumeration(faster)}"] if faster else []
    untold = _untold(fastest, [(c["slower"], c["call"]) for c in comparisons])
    return f"{name}: {'; '.join([*parts, *([untold] if untold else [])])}."


def _but(exceptions: Iterable[str]) -> str:
    names = list(exceptions)
    return f" (but slower for {enumeration(names)})" if names else ""


def _untold(best: str, others: Sequence[tuple[str, str]]) -> str:
    """What the best is not told from, of others with their calls; "" if there is none."""
    parts = []
    for words, wanted, joint in (
        ("no difference shown between", NOT_SHOWN, "and"),
        ("too noisy to tell", TOO_NOISY, "from"),
        ("elsewhere", SLOWER, "is not faster than"),
    ):
        names = [name for name, call in others if call == wanted]
        several = f"{len(names)} others" if len(names) > NAMED else _joined(names, joint)
        if names:
            parts.append(f"{words} {best} {joint} {several}")
    return "; ".join(parts)


def _joined(names: Sequence[str], joint: str) -> str:
    # Choices of several words, with commas among them, are told apart by semicolons.
    if any(" " in name for name in names):
        return "; ".join(names)
    return enumeration(names)


def unknown_noise(unknown: int, comparisons: int) -> list[str]:
    """That comparisons have no noise floor, and what to do about it."""
    if not unknown:
        return []
    which = "the" if unknown == comparisons else f"{unknown} of the {comparisons}"
    return [
        f"Too few cells were measured twice to know the noise of {which} comparisons: "
        "set `twins` to 1 or more."
    ]


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
    noisy: bool  # whether it is too noisy to say of one of its values
    command: str
    cache: str
    but_for: tuple[str, ...] = ()  # the choices for which it is the other way round


def over_blocks(name: str, calls: Sequence[Call], blocks: int) -> str:
    """What an axis makes of all `blocks`, in a sentence; `calls` are of those that have a choice of it."""
    parts = []
    for value, noisy in dict.fromkeys(_kind(call) for call in calls):
        agreeing = [call for call in calls if _kind(call) == (value, noisy)]
        where = "everything" if len(agreeing) == blocks else _where(agreeing)
        if not value:
            parts.append(f"{TOO_NOISY if noisy else NOT_SHOWN} for {where}")
            continue
        ratios = sorted(call.ratio for call in agreeing)
        span = dict.fromkeys(significant(ratio) for ratio in (ratios[0], ratios[-1]))
        times = f"{' to '.join(span)} times as fast as the next"
        but = _but(dict.fromkeys(name for call in agreeing for name in call.but_for))
        parts.append(f"{value} is fastest for {where}, {times}{but}")
    return f"{name}: {'; '.join(parts)}."


def _kind(call: Call) -> tuple[str, bool]:
    return call.value, call.noisy and not call.value


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

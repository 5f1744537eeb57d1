"""What to choose for a mix of commands: their times, weighed, for each choice, over all that is given apart.

A choice's expected time in a round is the sum of the times of the mix's commands in that round, each times
its weight; two choices are compared round by round, as everywhere. A command that was not measured is
named, and nothing is put in its place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from vcsbench.advice.blocks import Block, Point
from vcsbench.advice.cards import DEPENDS, UNTOLD, Card
from vcsbench.advice.sentences import Sentences, factor
from vcsbench.compare.family import call_all
from vcsbench.compare.intervals import Estimate, ratio_interval
from vcsbench.metrics import DEFAULT, metric_of
from vcsbench.words import capital, enumeration, significant

Where = Mapping[str, str]
Choice = frozenset[tuple[str, str]]  # the values of all axes that are not given
# A name, the cells that it is about, and its weight.
Entry = Mapping[str, Any]
Blocks = Sequence[tuple[Where, Block]]


@dataclass(frozen=True)
class Part:
    """An entry of the mix with the block that has it, and its weight."""

    block: Block
    weight: float

    @cached_property
    def points(self) -> dict[Choice, Point]:
        """The block's choices, by the values of their axes, those included of which there is no choice."""
        fixed, axes = self.block.fixed, self.block.axes
        return {frozenset({**fixed, **axes(p)}.items()): p for p in self.block.numbers}

    def seconds(self, choice: Choice) -> dict[Any, float]:
        """What it adds to a choice's expected time, by round."""
        numbers = self.block.numbers[self.points[choice]]
        pairs = zip(self.block.rounds, numbers, strict=True)
        return {number: self.weight * seconds for number, seconds in pairs}


def weighed(blocks: Blocks, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """What to choose for the mix, for each combination of what is given but not told by its entries.

    `where`, as far as it tells the groups apart; `measured`, how much of the weights that is, in per cent;
    `missing`, the names of the entries that were not measured there; `choose`, the choices that are not
    told from the best, which comes first (empty where nothing is told); `confident`, whether something is
    told from it; `seconds`, the best's expected time of a command, the median over the rounds; `against`,
    the worst, with the best's ratio over it; `sentence`. Nothing where no entry was measured.
    """
    told = set().union(*(entry["where"] for entry in entries))
    about = [one for one in blocks if any(_has(one[0], entry["where"]) for entry in entries)]
    keys = [{a: v for a, v in where.items() if a not in told} for where, _ in about]
    found = []
    for key in _without_gaps(keys):
        of_group = [(where, block) for where, block in about if _fits(where, key)]
        parts, missing = _parts(of_group, entries)
        if parts:
            found.append((key, parts, missing))
    tell = [
        axis for key, *_ in found[:1] for axis in key if len({k.get(axis) for k, *_ in found}) > 1
    ]
    return [
        _group({a: v for a, v in key.items() if a in tell}, parts, missing, entries)
        for key, parts, missing in found
    ]


def card_of(groups: Sequence[Mapping[str, Any]], entries: Sequence[Entry]) -> Card:
    """The answer for the mix."""
    named = enumeration([f"{entry['weight']:g} % {entry['name']}" for entry in entries])
    ask = f"For your mix: {named}?"
    told = [group for group in groups if group["confident"]]
    if not groups:
        return Card("", ask, UNTOLD, UNTOLD, "Nothing of it was measured here.")
    said = [group["sentence"] for group in groups]
    if not told:
        return Card("", ask, UNTOLD, UNTOLD, "No choice is told from the others.", parts=said)
    common = [one for one in told[0]["choose"] if all(one in group["choose"] for group in told)]
    how = "By the expected time of a command, each weighed by its share of the mix"
    how += f": told in {len(told)} of {len(groups)} cases." if len(groups) > 1 else "."
    if lacking := sum(bool(group["missing"]) for group in groups):
        how += f" Of {lacking} a part of the mix was never measured."
    if not common:
        return Card("", ask, DEPENDS, DEPENDS, how, parts=said)
    answer = Sentences(metric_of(DEFAULT)).choice(common[0])
    return Card("", ask, "value", answer, how, parts=said)


def _has(where: Where, entry: Where) -> bool:
    return all(where.get(axis) == value for axis, value in entry.items())


def _fits(where: Where, key: Where) -> bool:
    """Whether cells are of a group; what an axis does not apply to is of all of its values."""
    return all(where.get(axis, "") in ("", value) for axis, value in key.items())


def _without_gaps(keys: Sequence[Where]) -> list[Where]:
    """Each once; those with an axis that does not apply only where no other has a value of it."""
    once = [key for at, key in enumerate(keys) if key not in keys[:at]]
    return [key for key in once if not any(_fits(key, other) for other in once if other != key)]


def _parts(blocks: Blocks, entries: Sequence[Entry]) -> tuple[list[Part], list[str]]:
    parts, missing = [], []
    for entry in entries:
        usable = [b for where, b in blocks if _has(where, entry["where"]) and b.numbers]
        if usable:
            parts.append(Part(usable[0], entry["weight"]))
        else:
            missing.append(entry["name"])
    return parts, missing


def _group(
    where: Where, parts: Sequence[Part], missing: Sequence[str], entries: Sequence[Entry]
) -> dict[str, Any]:
    total = sum(entry["weight"] for entry in entries)
    share = 100 * sum(part.weight for part in parts) / total
    found: dict[str, Any] = {"where": dict(where), "measured": share, "missing": list(missing)}
    found |= {"choose": [], "confident": False, "seconds": None, "against": None}
    why = _why_not(parts)
    if not why:
        found |= _compared(parts)
    return found | {"sentence": _sentence(found, parts, entries, why)}


def _why_not(parts: Sequence[Part]) -> str:
    hosts = {host for part in parts for host in part.block.hosts}
    if len(hosts) > 1:
        return f"it was measured on several machines ({enumeration(sorted(hosts))})"
    enough = parts[0].block.terms.limits.min_rounds
    if len(_rounds(parts)) < enough:
        return f"all of it was measured in {len(_rounds(parts))} rounds, and under {enough} nothing is told"
    if len(_common(parts)) < 2:
        return "no two choices were measured with all of it"
    return ""


def _rounds(parts: Sequence[Part]) -> list[Any]:
    """The rounds that all parts have."""
    return sorted(set.intersection(*(set(part.block.rounds) for part in parts)))


def _common(parts: Sequence[Part]) -> list[Choice]:
    """The choices that all parts have."""
    return sorted(set.intersection(*(set(part.points) for part in parts)), key=sorted)


def _compared(parts: Sequence[Part]) -> dict[str, Any]:
    choices, rounds = _common(parts), _rounds(parts)
    weight = sum(part.weight for part in parts)
    sums = {}
    for choice in choices:
        of_parts = [part.seconds(choice) for part in parts]
        sums[choice] = [math.fsum(one[n] for one in of_parts) / weight for n in rounds]
    best, *others = sorted(choices, key=lambda one: math.fsum(map(math.log, sums[one])))
    against = [_ratio(parts, best, other, sums) for other in others]
    block = parts[0].block
    words = block.terms.metric.words
    calls = call_all(against, block.noise.twins_known, words[:2], block.terms.limits)
    tied = [other for other, call in zip(others, calls, strict=True) if call != words.better]
    worst = against[-1]
    numbers = {"ratio": worst.value, "low": worst.low, "high": worst.high, "n": worst.n}
    held = frozenset.intersection(*choices)
    axes = {choice: _in_order(choice - held, block) for choice in choices}
    return {
        "choose": [axes[one] for one in (best, *tied)],
        "confident": len(tied) < len(others),
        "seconds": median(sums[best]),
        "against": {"axes": axes[others[-1]], "call": calls[-1], **numbers},
    }


def _in_order(choice: Choice, block: Block) -> dict[str, str]:
    known = dict(choice)
    return {axis: known[axis] for axis in block.terms.order if axis in known}


def _ratio(
    parts: Sequence[Part], best: Choice, other: Choice, sums: Mapping[Choice, list[float]]
) -> Estimate:
    """The best's ratio over another, by round; of what twins differ by, as much as the commands' shares of
    the time leave of it: each differs by its own."""
    logs = [math.log(slow / fast) for fast, slow in zip(sums[best], sums[other], strict=True)]
    times = [median(part.seconds(best).values()) for part in parts]
    shares = [one / math.fsum(times) for one in times]
    worth = 1 / math.fsum(share**2 for share in shares)
    cells = [(p.block.cells[p.points[best]], p.block.cells[p.points[other]]) for p in parts]
    return parts[0].block.noise.judged(ratio_interval(logs, worth), cells)


def _sentence(
    found: Mapping[str, Any], parts: Sequence[Part], entries: Sequence[Entry], why: str
) -> str:
    metric = parts[0].block.terms.metric
    say = Sentences(metric)
    where = say.choice(found["where"])
    if why:
        said = f"nothing is told: {why}"
    elif not found["confident"]:
        said = f"none of {len(_common(parts))} choices is told from the best"
    else:
        names = [say.choice(axes) for axes in found["choose"]]
        said = f"{' or '.join(names)}, {significant(found['seconds'])} {metric.unit} a command"
        if found["against"]["call"] == metric.words.better:
            ratio, low, high = (factor(found["against"][key]) for key in ("ratio", "low", "high"))
            worst = say.choice(found["against"]["axes"])
            said += f", {ratio} times (95 %: {low} to {high}) {metric.words.as_good} {worst}"
    if found["missing"]:
        named = list(_weights(found["missing"], entries))
        said += (
            f". Never measured here: {enumeration(named)}; what is said is of the other "
            f"{found['measured']:g} %"
        )
    return f"{where}: {said}." if where else f"{capital(said)}."


def _weights(names: Sequence[str], entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        if entry["name"] in names:
            yield f"{entry['name']} ({entry['weight']:g} %)"

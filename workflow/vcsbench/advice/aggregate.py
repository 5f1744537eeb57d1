"""One answer over all cells, for a choice that holds for all of them at once, as a build does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from vcsbench.advice import decide as rule
from vcsbench.advice.cards import Answer, Card
from vcsbench.advice.cases import BETTER, EQUAL, WORSE, Pair
from vcsbench.advice.labels import factor
from vcsbench.metrics import DEFAULT
from vcsbench.statistics.aggregation import pair_rows
from vcsbench.statistics.intervals import Estimate, ratio, ratio_interval
from vcsbench.statistics.noise import Noise
from vcsbench.statistics.variance import Variance, sum_variances

Key = tuple[str, ...]
NOTHING = Estimate(math.nan, math.nan, math.nan, 0)


@dataclass(frozen=True)
class Rounds:
    """All cells by round (reduction.by_round), the study's axes and those of a block, and the noise."""

    frame: pd.DataFrame
    axes: Sequence[str]
    block: Sequence[str]
    noise: Noise


def with_aggregate(card: Card, rounds: Rounds) -> Card:
    """Return the card with one sentence per candidate, and with the candidate to choose."""
    lines, answers = [], []
    pairs: dict[str, list[tuple[Mapping[str, str], Pair]]] = {}
    for case in card.cases:
        for pair in case.pairs:
            pairs.setdefault(pair.candidate, []).append((case.where, pair))
    for candidate, members in pairs.items():
        counts = {
            kind: sum(p.outcome == kind for _, p in members) for kind in (BETTER, WORSE, EQUAL)
        }
        baseline = members[0][1].baseline
        mean = geometric_mean(
            [where for where, _ in members], baseline, candidate, rounds, card.question.axis
        )
        effect = _counted(counts, len(members))
        answers.append((counts, candidate, f"{_mean(mean)}{effect}"))
        lines.append(f"{candidate} against {baseline}: {_mean(mean)}{effect}.")
    lines += [
        f"{one.value}: not measured in {one.cells} cells. {one.reason}." for one in card.missing
    ]
    if not answers:
        return replace(card, lines=lines)
    answer = card.answer
    if len(answers) == 1:
        counts, candidate, effect = answers[0]
        kind, short = _short(counts, candidate)
        value = candidate if kind == rule.VALUE else ""
        answer = Answer(kind, value, short, f"{candidate} {effect}.", effect)
    return replace(card, lines=lines, answer=answer)


def _short(counts: Mapping[str, int], candidate: str) -> tuple[str, str]:
    if counts[BETTER] and counts[WORSE]:
        return rule.DEPENDS, "depends"
    if counts[BETTER] or counts[WORSE]:
        return rule.VALUE if counts[BETTER] else rule.DEPENDS, "faster" if counts[
            BETTER
        ] else "slower"
    return (rule.EQUAL, "no difference") if counts[EQUAL] else (rule.UNDECIDED, "undecided")


def _counted(counts: Mapping[str, int], whole: int) -> str:
    undecided = whole - sum(counts.values())
    text = f"faster in {counts[BETTER]}, slower in {counts[WORSE]}, equal in {counts[EQUAL]} of {whole} cases"
    return f"{text}, {undecided} undecided" if undecided else text


def _mean(mean: Estimate) -> str:
    """Return the mean factor with its 95 % interval: `5 % faster on average (1.02 to 1.09), `."""
    if not math.isfinite(mean.value):
        return ""
    way = "faster" if mean.value >= 1 else "slower"
    size = factor(max(mean.value, 1 / mean.value))
    return f"{size} {way} on average (factor {mean.low:.2f} to {mean.high:.2f}), "


def geometric_mean(
    wheres: Sequence[Mapping[str, str]], baseline: str, candidate: str, rounds: Rounds, axis: str
) -> Estimate:
    """Return the geometric mean of the ratios baseline / candidate, with its interval.

    Within a block, whose cells share their rounds, each round is averaged first. Errors of blocks add up.
    """
    frame = rounds.frame
    if not wheres or frame["host"].nunique() != 1:
        return NOTHING
    others = [name for name in rounds.axes if name != axis]
    wanted = {tuple(where.get(name, "") for name in others) for where in wheres}
    pairs = pair_rows(frame, axis, (baseline, candidate), [*others, "host", "round"])
    before, after = f"{DEFAULT}_baseline", f"{DEFAULT}_candidate"
    blocks: dict[Key, dict[Key, dict[Any, float]]] = {}
    for row in pairs.to_dict("records"):
        key = tuple(str(row[name]) for name in others)
        if key in wanted:
            block = blocks.setdefault(tuple(row[name] for name in rounds.block), {})
            block.setdefault(key, {})[row["round"]] = math.log(row[before] / row[after])
    place = list(rounds.axes).index(axis)
    found = [
        _of_block(cells, place, (baseline, candidate), rounds.noise) for cells in blocks.values()
    ]
    if not found or any(one.n < 2 for one in found):
        return NOTHING
    whole = math.fsum(one.pairs for one in found)
    log = math.fsum(one.pairs * math.log(one.value) for one in found) / whole
    error = sum_variances(
        [Variance(one.error**2, one.degrees).scaled((one.pairs / whole) ** 2) for one in found]
    )
    degrees = error.degrees if error.variance else 1.0
    return ratio(log, math.sqrt(error.variance), degrees, min(one.n for one in found), whole)


def _of_block(
    cells: Mapping[Key, Mapping[Any, float]], place: int, sides: tuple[str, str], noise: Noise
) -> Estimate:
    shared = sorted(set.intersection(*(set(logs) for logs in cells.values())))
    means = [math.fsum(logs[n] for logs in cells.values()) / len(cells) for n in shared]
    pairs = [
        ((*key[:place], sides[1], *key[place:]), (*key[:place], sides[0], *key[place:]))
        for key in cells
    ]
    return noise.with_error(ratio_interval(means, len(cells)), pairs)

"""One answer over all cells, for what one decides upon for all of them at once, as a build: in how many it is
better, in how many worse, and the geometric mean of all ratios with the error of an average."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from vcsbench.advice.cards import Card, Question, Teller
from vcsbench.advice.cases import of_table
from vcsbench.advice.sentences import factor
from vcsbench.compare.decisions import NOT_SHOWN, TOO_NOISY, USUAL, Limits
from vcsbench.compare.intervals import Estimate, ratio, ratio_interval
from vcsbench.compare.noise import Noise
from vcsbench.compare.reduction import paired
from vcsbench.compare.variances import Part, summed
from vcsbench.metrics import DEFAULT, metric_of

Row = Mapping[Any, Any]
Key = tuple[str, ...]
NOTHING = Estimate(math.nan, math.nan, math.nan, 0)

TOO_FEW = "There are too few rounds for an interval."


@dataclass(frozen=True)
class Rounds:
    """All cells by round (reduction.by_round, as they are compared), the study's axes with their values,
    those that make a block, and the noise."""

    frame: pd.DataFrame
    order: Mapping[str, Sequence[str]]
    block: Sequence[str]
    noise: Noise


def card_over_all(
    question: Question, rows: Sequence[Row], rounds: Rounds, limits: Limits = USUAL
) -> Card:
    """The card of a question that is answered over all cells; `rows` are those of the table that compares its
    axis. Its `parts` have a sentence for each two values; it is told where one of two is better in some cells
    and worse in none."""
    words = metric_of(DEFAULT).words
    others = [axis for axis in rounds.order if axis != question.axis]
    counted = [row for row in rows if row["call"]]
    sides = list(dict.fromkeys((str(row["baseline"]), str(row["candidate"])) for row in counted))
    cases = of_table(counted, others, words, ())
    card = Teller(question, cases, limits=limits).card(TOO_FEW if counted and not cases else "")
    if not sides:
        return card
    said, won = [], []
    for both in sides:
        of_side = [row for row in counted if (row["baseline"], row["candidate"]) == both]
        calls = Counter(row["call"] for row in of_side)
        said.append(_sentence(both, calls, over_all(of_side, rounds, question.axis)))
        won += [both[1]] if calls[words.better] and not calls[words.worse] else []
    if len(sides) == 1 and won:
        card = replace(card, kind="value", answer=won[0])
    return replace(card, said=said[0], gain="", parts=said[1:], do=[])


def over_all(rows: Sequence[Row], rounds: Rounds, axis: str) -> Estimate:
    """The geometric mean of the ratios of the pairs of cells that some rows of a table are about, all with
    the same two sides; NOTHING over several machines.

    In a block, whose cells share their rounds, it is the average of each round, with the error of an average.
    Blocks share none, so that their errors add up. A round that lacks a cell of its block is left out."""
    frame = rounds.frame
    if not rows or frame["host"].nunique() != 1:
        return NOTHING
    sides = str(rows[0]["baseline"]), str(rows[0]["candidate"])
    others = [name for name in rounds.order if name != axis]
    wanted = {tuple(str(row.get(name, "")) for name in others) for row in rows}
    pairs = paired(frame, axis, sides, [*others, "host", "round"])
    seconds = [metric_of(DEFAULT).name + f"_{side}" for side in ("baseline", "candidate")]
    blocks: dict[Key, dict[Key, dict[Any, float]]] = {}
    for row in pairs.to_dict("records"):
        key = tuple(str(row[name]) for name in others)
        if key in wanted:
            of_block = blocks.setdefault(tuple(row[name] for name in rounds.block), {})
            before, after = (row[name] for name in seconds)
            of_block.setdefault(key, {})[row["round"]] = math.log(before / after)
    places = list(rounds.order).index(axis)
    found = [_of_block(cells, places, sides, rounds.noise) for cells in blocks.values()]
    return _together(found)


def _of_block(
    cells: Mapping[Key, Mapping[Any, float]], place: int, sides: tuple[str, str], noise: Noise
) -> Estimate:
    """The average over the pairs of a block, round by round."""
    shared = sorted(set.intersection(*(set(logs) for logs in cells.values())))
    means = [math.fsum(logs[n] for logs in cells.values()) / len(cells) for n in shared]
    pairs = [
        ((*key[:place], sides[1], *key[place:]), (*key[:place], sides[0], *key[place:]))
        for key in cells
    ]
    return noise.judged(ratio_interval(means, len(cells)), pairs)


def _together(blocks: Sequence[Estimate]) -> Estimate:
    """The average over blocks, each by how many pairs it has."""
    if not blocks or any(one.n < 2 for one in blocks):
        return NOTHING
    whole = math.fsum(one.pairs for one in blocks)
    log = math.fsum(one.pairs * math.log(one.value) for one in blocks) / whole
    parts = [Part(one.error**2, one.degrees).times((one.pairs / whole) ** 2) for one in blocks]
    error = summed(parts)
    degrees = error.degrees if error.variance else 1.0
    n = min(one.n for one in blocks)
    return ratio(log, math.sqrt(error.variance), degrees, n, whole)


def _sentence(sides: tuple[str, str], calls: Mapping[str, int], mean: Estimate) -> str:
    """`trunk: faster in 3 of 5, slower in none, 2 not told; 1.06 times as fast as system in the geometric
    mean (95 %: 1.02 to 1.10)`."""
    words = metric_of(DEFAULT).words
    whole = sum(calls.values())
    told = [
        f"{words.better} in {_none(calls[words.better])} of {whole}",
        f"{words.worse} in {_none(calls[words.worse])}",
    ]
    told += [f"no difference shown in {calls[NOT_SHOWN]}"] if calls[NOT_SHOWN] else []
    told += [f"{calls[TOO_NOISY]} not told"] if calls[TOO_NOISY] else []
    said = f"{sides[1]}: {', '.join(told)}"
    if math.isfinite(mean.value):
        value, low, high = map(factor, (mean.value, mean.low, mean.high))
        said += f"; {value} times {words.as_good} {sides[0]} in the geometric mean (95 %: {low} to {high})"
    return f"{said}."


def _none(number: int) -> str:
    return str(number) if number else "none"

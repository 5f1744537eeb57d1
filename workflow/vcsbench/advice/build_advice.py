"""Answer a question with one answer over all cells, such as a build, for each candidate.

A candidate with the baseline's binaries is a noise check (A/A test) and gets no answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pandas as pd

from vcsbench import words
from vcsbench.advice.cards import Answer, Card
from vcsbench.advice.decision import (
    BETTER,
    DEPENDS,
    EQUAL,
    UNDECIDED,
    VALUE,
    WORSE,
    Case,
    Cell,
    Pair,
    Table,
    Where,
)
from vcsbench.metrics import DEFAULT
from vcsbench.statistics.aggregation import pair_rows
from vcsbench.statistics.estimates import (
    NO_ESTIMATE,
    Estimate,
    Variance,
    ratio,
    ratio_interval,
    sum_variances,
)
from vcsbench.statistics.noise import Noise

SAME_BINARIES = "same-binaries"
# The mean over the cases `wheres` of the ratio baseline / candidate.
Mean = Callable[[Sequence[Where], tuple[str, str]], Estimate]
OUTCOMES = {WORSE: "slower", BETTER: "faster", EQUAL: "equal"}

PERCENT_BELOW = 1.1


def same_as_baseline(tables: Iterable[Table]) -> list[str]:
    known: dict[str, bool] = {}
    for row in (row for _, rows in tables for row in rows if words.is_number(row.get("ratio"))):
        is_same = SAME_BINARIES in str(row.get("flags") or "").split()
        known[str(row["candidate"])] = known.get(str(row["candidate"]), True) and is_same
    return [candidate for candidate, is_same in known.items() if is_same]


def with_candidates(card: Card, same: Sequence[str], mean: Mean) -> Card:
    """Add an answer for each candidate, and a line for each noise check (`same`)."""
    pairs: dict[str, list[tuple[Case, Pair]]] = {}
    for case in card.cases:
        for pair in case.pairs:
            pairs.setdefault(pair.candidate, []).append((case, pair))
    answers, lines = [], []
    for candidate, members in pairs.items():
        outcomes = Counter(pair.outcome for _, pair in members)
        average = mean([case.where for case, _ in members], (members[0][1].baseline, candidate))
        if candidate in same:
            differ = f"{outcomes[BETTER] + outcomes[WORSE]} of {outcomes.total()} differ"
            unknown = outcomes.total() - sum(outcomes[kind] for kind in (BETTER, WORSE, EQUAL))
            differ += f", {unknown} undecided" if unknown else ""
            text = "; ".join([differ, *_average_text(average)])
            lines.append(f"Noise check: {candidate}, the same build: {text}.")
            if outcomes[BETTER] + outcomes[WORSE]:
                lines.append("Measure again: if it differs again, the machine is too noisy.")
        else:
            of_pairs = [pair for _, pair in members]
            answers.append(_answer(candidate, of_pairs, average, card.min_effect_pct))
    for lost in card.missing:
        cells = words.count_of(lost.cells, "cell")
        lines.append(f"{lost.value}: {cells} not measured: {lost.reason.rstrip('.')}.")
    cases = [
        replace(c, pairs=tuple(p for p in c.pairs if p.candidate not in same)) for c in card.cases
    ]
    card = replace(card, cases=[case for case in cases if case.pairs], lines=lines)
    if not answers:
        text = "No other build was compared."
        return replace(card, answer=Answer(EQUAL, "", "no other build", text, text))
    return replace(card, answer=answers[0], candidates=answers)


def _answer(
    candidate: str, pairs: Sequence[Pair], average: Estimate, min_effect_pct: float
) -> Answer:
    outcomes, total = Counter(pair.outcome for pair in pairs), len(pairs)
    counts = {kind: outcomes[kind] for kind in dict.fromkeys([*OUTCOMES, *outcomes])}
    texts = {kind: f"{OUTCOMES.get(kind, kind)} in {n}" for kind, n in counts.items() if n}
    for kind in {WORSE, BETTER} & texts.keys():
        sizes = sorted(max(p.ratio, 1 / p.ratio) for p in pairs if p.outcome == kind)
        ends = dict.fromkeys([_size(sizes[0]), _size(sizes[-1])])
        texts[kind] = f"{' to '.join(ends)} {texts[kind]}"
    kind, value = UNDECIDED, ""
    if called := [texts.pop(kind) for kind in (WORSE, BETTER) if kind in texts]:
        kind = DEPENDS if counts[WORSE] else VALUE
        value = "" if counts[WORSE] else candidate
        head = f"{', '.join(called)} of {total}"
    elif counts[EQUAL]:
        kind = EQUAL
        head = f"equal within {min_effect_pct:g} % in {counts[EQUAL]} of {total}"
        del texts[EQUAL]
    else:
        head = f"undecided ({', '.join(texts.values())} of {total})"
        texts = {}
    rest = "; ".join([*filter(None, [", ".join(texts.values())]), *_average_text(average)])
    short = f"{candidate}: {head}"
    sentence = f"{rest}.".capitalize() if rest else ""
    return Answer(kind, value, short, sentence, "; ".join(filter(None, [short, rest])))


def _size(value: float) -> str:
    size = max(value, 1 / value)
    return f"{100 * (size - 1):.1f} %" if size < PERCENT_BELOW else f"{words.significant(size)}x"


def _average_text(average: Estimate) -> list[str]:
    if not math.isfinite(average.value):
        return []
    if average.low < 1 < average.high:
        slower, faster = 100 * (1 / average.low - 1), 100 * (average.high - 1)
        return [f"on average no difference shown ({slower:.1f} % slower to {faster:.1f} % faster)"]
    low, high = map(_size, sorted((average.low, average.high), key=lambda v: abs(math.log(v))))
    side = "faster" if average.value >= 1 else "slower"
    return [f"on average {_size(average.value)} {side} ({low} to {high})"]


def geometric_mean(
    rounds: pd.DataFrame,
    axis: str,
    order: Sequence[str],
    block: Sequence[str],
    noise: Noise,
    wheres: Sequence[Where],
    sides: tuple[str, str],
) -> Estimate:
    """Return the geometric mean of the ratios baseline / candidate (`sides`), with its interval.

    Each round is averaged within a block, whose cells share their rounds. Errors of blocks add up.
    """
    if not wheres or rounds["host"].nunique() != 1:
        return NO_ESTIMATE
    others = [name for name in order if name != axis]
    included = {tuple(where.get(name, "") for name in others) for where in wheres}
    blocks: dict[Cell, dict[Cell, dict[int, float]]] = {}
    for row in pair_rows(rounds, axis, sides, [*others, "host", "round"]).to_dict("records"):
        key = tuple(str(row[name]) for name in others)
        if key in included:
            of_block = blocks.setdefault(tuple(row[name] for name in block), {})
            log = math.log(row[f"{DEFAULT}_baseline"] / row[f"{DEFAULT}_candidate"])
            of_block.setdefault(key, {})[row["round"]] = log
    place, estimates = order.index(axis), []
    for cells in blocks.values():
        shared = sorted(set.intersection(*(set(logs) for logs in cells.values())))
        means = [math.fsum(logs[n] for logs in cells.values()) / len(cells) for n in shared]
        both = [tuple((*k[:place], s, *k[place:]) for s in reversed(sides)) for k in cells]
        estimates.append(noise.with_error(ratio_interval(means, len(cells)), both))  # type: ignore[arg-type]
    if not estimates or any(e.n < 2 for e in estimates):
        return NO_ESTIMATE
    whole = math.fsum(e.pairs for e in estimates)
    log = math.fsum(e.pairs * math.log(e.value) for e in estimates) / whole
    variances = [Variance(e.error**2, e.degrees).scaled((e.pairs / whole) ** 2) for e in estimates]
    error = sum_variances(variances)
    degrees = error.degrees if error.variance else 1.0
    return ratio(log, math.sqrt(error.variance), degrees, min(e.n for e in estimates), whole)

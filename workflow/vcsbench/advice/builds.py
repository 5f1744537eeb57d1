"""Answers of a question with one answer over all cells, such as a build.

A candidate with the baseline's binaries is a noise check (A/A test) and gets no answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from vcsbench.advice.cards import Answer, Card
from vcsbench.advice.decision import BETTER, DEPENDS, EQUAL, UNDECIDED, VALUE, WORSE, Pair, Where
from vcsbench.advice.labels import at_least_1, change, change_between, factor, factors, slight
from vcsbench.evidence.measurements import group_rows
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

# The mean over the cases of a list of the ratio of two values, baseline / candidate.
Mean = Callable[[Sequence[Where], tuple[str, str]], Estimate]
OUTCOMES = {WORSE: "slower", BETTER: "faster", EQUAL: "equal"}


def with_candidates(card: Card, mean: Mean) -> Card:
    """Add an answer for each candidate, and lines that compare it with each noise check."""
    compared: dict[str, list[tuple[Where, Pair]]] = {}
    for case in card.cases:
        for pair in case.pairs:
            compared.setdefault(pair.candidate, []).append((case.where, pair))
    pairs = {name: [pair for _, pair in of] for name, of in compared.items()}
    averages = {
        name: mean([where for where, _ in of], (pairs[name][0].baseline, name))
        for name, of in compared.items()
    }
    tested = [name for name, of in pairs.items() if not all(pair.is_noise_check for pair in of)]
    answers = [_answer(n, pairs[n], averages[n], card.min_effect_pct) for n in tested]
    others = {name: averages[name] for name in tested}
    checks = [name for name in pairs if name not in tested]
    lines = [line for n in checks for line in _noise_check(n, pairs[n], averages[n], others)]
    lines += [lost.sentence(lost.value) for lost in card.missing]
    if not answers:
        short = "no other build" if pairs else "no result"
        text = f"{short} was compared.".capitalize()
        return replace(card, answer=Answer(EQUAL, "", short, text, text), lines=lines)
    return replace(card, answer=answers[0], candidates=answers, lines=lines)


def _answer(
    candidate: str, pairs: Sequence[Pair], average: Estimate, min_effect_pct: float
) -> Answer:
    kinds = dict.fromkeys([*OUTCOMES, *(pair.outcome for pair in pairs)])
    ratios = {kind: [pair.ratio for pair in pairs if pair.outcome == kind] for kind in kinds}
    counts = {k: f"{OUTCOMES.get(k, k)} in {len(of)}" for k, of in ratios.items() if of}
    called = []
    for kind in (WORSE, BETTER):
        if counts.pop(kind, ""):
            sizes = [at_least_1(ratio) for ratio in ratios[kind]]
            note = slight(sizes, min_effect_pct)
            called.append(f"{factors(sizes)} {OUTCOMES[kind]}{note} in {len(sizes)}")
    if called:
        kind, head = DEPENDS if ratios[WORSE] else VALUE, ", ".join(called)
    elif counts.pop(EQUAL, ""):
        kind, head = EQUAL, f"equal within {min_effect_pct:g} % in {len(ratios[EQUAL])}"
    else:
        kind, head, counts = UNDECIDED, f"undecided ({', '.join(counts.values())}", {}
    short = f"{candidate}: {head} of {len(pairs)}{')' if kind == UNDECIDED else ''}"
    rest = "; ".join(filter(None, [", ".join(counts.values()), _average_text(average)]))
    sentence = f"{rest}.".capitalize() if rest else ""
    value = candidate if kind == VALUE else ""
    return Answer(kind, value, short, sentence, "; ".join(filter(None, [short, rest])))


def _noise_check(
    name: str, pairs: Sequence[Pair], average: Estimate, others: Mapping[str, Estimate]
) -> list[str]:
    """Return sentences on a noise check, with the averages of the other candidates."""
    outcomes = Counter(pair.outcome for pair in pairs)
    differ = outcomes[BETTER] + outcomes[WORSE]
    text = f"{differ} of {len(pairs)} differ"
    if unknown := len(pairs) - differ - outcomes[EQUAL]:
        text += f", {unknown} undecided"
    text = "; ".join(filter(None, [text, _average_text(average)]))
    lines = [f"Noise check: {name}, the same build: {text}."]
    most = max(average.high, 1 / average.low)
    for candidate, other in others.items():
        size = at_least_1(other.value)
        if math.isfinite(most + size):
            is_larger = size > most and not other.low < 1 < other.high
            verb = "exceeds" if is_larger else "does not exceed"
            why = "" if is_larger else ": it can be noise"
            line = f"The average difference of {candidate} ({factor(size)}) {verb} that of the same build"
            lines.append(f"{line} (at most {factor(most)}){why}.")
    if differ:
        lines.append("Measure again: if it differs again, the machine is too noisy.")
    return lines


def _average_text(average: Estimate) -> str:
    if not math.isfinite(average.value):
        return ""
    none = ", no difference shown" if average.low < 1 < average.high else ""
    return f"on average {change(average.value)} ({change_between(average.low, average.high)}){none}"


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
    others, place = [name for name in order if name != axis], order.index(axis)
    included = {tuple(where.get(name, "") for name in others) for where in wheres}
    pairs = pair_rows(rounds, axis, sides, [*others, "host", "round"])
    keys = [*zip(*(pairs[name] for name in others), strict=True)]
    logs = np.log(pairs[f"{DEFAULT}_baseline"] / pairs[f"{DEFAULT}_candidate"])
    pairs = pairs.assign(key=pd.Series(keys, pairs.index, dtype=object), log=logs)
    pairs = pairs[pairs["key"].isin(included)]
    if pairs.empty or rounds["host"].nunique() != 1:
        return NO_ESTIMATE
    estimates = []
    for _, of_block in group_rows(pairs, block):
        logs = of_block.pivot(index="round", columns="key", values="log").dropna().sort_index()
        both = [tuple((*k[:place], side, *k[place:]) for side in reversed(sides)) for k in logs]
        means = logs.apply(math.fsum, axis=1) / len(both)
        estimates.append(noise.with_error(ratio_interval(means, len(both)), both))  # type: ignore[arg-type]
    if any(e.n < 2 for e in estimates):
        return NO_ESTIMATE
    whole = math.fsum(e.averaged for e in estimates)
    log = math.fsum(e.averaged * math.log(e.value) for e in estimates) / whole
    variances = [
        Variance(e.error**2, e.degrees).scaled((e.averaged / whole) ** 2) for e in estimates
    ]
    error = sum_variances(variances)
    degrees = error.degrees if error.variance else 1.0
    return ratio(log, math.sqrt(error.variance), degrees, min(e.n for e in estimates), whole)

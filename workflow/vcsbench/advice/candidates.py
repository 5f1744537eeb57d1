"""One answer over all cells for each candidate, such as a build, and what noise checks say about it.

A candidate with the binaries of the baseline is a noise check (A/A test) and gets no answer.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from vcsbench.advice import labels
from vcsbench.advice.answer_texts import Answer, undecided_text
from vcsbench.advice.cards import Card
from vcsbench.advice.decision import Pair, Where
from vcsbench.codes import AnswerKind, Result
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT
from vcsbench.statistics.aggregation import pair_rows
from vcsbench.statistics.estimates import (
    NO_ESTIMATE,
    Estimate,
    Variance,
    interval,
    ratio_interval,
    sum_variances,
)
from vcsbench.statistics.noise import Noise

# The mean over the cases of a list of the ratio of two values, baseline / candidate.
Mean = Callable[[Sequence[Where], tuple[str, str]], Estimate]


def with_candidates(card: Card, mean: Mean) -> Card:
    """Add an answer for each candidate, and lines that compare it with each noise check."""
    pairs: dict[str, list[Pair]] = {}
    wheres: dict[str, list[Where]] = {}
    for case in card.cases:
        for pair in case.pairs:
            pairs.setdefault(pair.candidate, []).append(pair)
            wheres.setdefault(pair.candidate, []).append(case.where)
    averages = {}
    checks = []
    for name, compared in pairs.items():
        averages[name] = mean(wheres[name], (compared[0].baseline, name))
        if all(pair.is_noise_check for pair in compared):
            checks.append(name)
    others = {name: average for name, average in averages.items() if name not in checks}
    answers = [
        _answer(name, pairs[name], average, card.min_effect_pct) for name, average in others.items()
    ]
    lines = [
        line for name in checks for line in _noise_check(name, pairs[name], averages[name], others)
    ]
    lines += [lost.sentence(lost.value) for lost in card.missing]
    card = replace(card, notes=[], lines=[*lines, *card.notes], candidates=answers)
    if not answers:
        short = "no other build" if pairs else "no result"
        text = f"{short} was compared.".capitalize()
        return replace(card, answer=Answer(AnswerKind.EQUAL, "", short, text, text))
    return replace(card, answer=answers[0])


def _answer(
    candidate: str, pairs: Sequence[Pair], average: Estimate, min_effect_pct: float
) -> Answer:
    """Return the answer for a candidate: `new: 1.2x slower in 1, 1.1x to 1.4x faster in 5 of 8`."""
    slower = [pair.ratio for pair in pairs if pair.result == Result.DIFFERENT and pair.ratio < 1]
    faster = [pair.ratio for pair in pairs if pair.result == Result.DIFFERENT and pair.ratio > 1]
    others = Counter(undecided_text(pair) for pair in pairs if pair.result != Result.DIFFERENT)
    number_equal = sum(pair.result == Result.EQUAL for pair in pairs)

    def with_number(text: str, number: int) -> str:
        return f"{text} in {number}" if len(pairs) > 1 else text

    total = f" of {len(pairs)}" if len(pairs) > 1 else ""
    called = []
    for ratios, change in ((slower, "slower"), (faster, "faster")):
        if ratios:
            sizes = [labels.at_least_1(ratio) for ratio in ratios]
            called.append(with_number(f"{labels.factors(sizes)} {change}", len(sizes)))
    rest = [with_number(text, number) for text, number in others.items()]
    if called:
        kind = AnswerKind.DEPENDS if slower else AnswerKind.VALUE
        head = ", ".join(called) + total
    elif number_equal:
        kind = AnswerKind.EQUAL
        equal = str(Result.EQUAL)
        rest = [with_number(text, n) for text, n in others.items() if text != equal]
        head = with_number(f"equal within {min_effect_pct:g} %", number_equal) + total
    else:
        kind = AnswerKind.UNDECIDED
        head, rest = f"undecided ({', '.join(rest)}{total})", []
    short = f"{candidate}: {head}"
    remarks = "; ".join(filter(None, [", ".join(rest), _average_text(average)]))
    sentence = f"{remarks}.".capitalize() if remarks else ""
    value = candidate if kind == AnswerKind.VALUE else ""
    return Answer(kind, value, short, sentence, "; ".join(filter(None, [short, remarks])))


def _noise_check(
    name: str, pairs: Sequence[Pair], average: Estimate, others: Mapping[str, Estimate]
) -> list[str]:
    """Return sentences on a noise check, with the averages of the other candidates."""
    results = Counter(pair.result for pair in pairs)
    differ = results[Result.DIFFERENT]
    open_ = len(pairs) - differ - results[Result.EQUAL]
    parts = [f"{differ} of {len(pairs)} differ"]
    if open_:
        parts[0] += f", {open_} undecided"
    parts.append(_average_text(average))
    lines = [f"Noise check: {name}, the same build: {'; '.join(filter(None, parts))}."]
    most = max(average.high, 1 / average.low)
    for candidate, other in others.items():
        size = labels.at_least_1(other.value)
        if math.isfinite(most + size):
            is_larger = size > most and not other.low < 1 < other.high
            verb = "exceeds" if is_larger else "does not exceed"
            why = "" if is_larger else ": it can be noise"
            mean, limit = labels.factor(size), labels.factor(most)
            line = f"The average difference of {candidate} ({mean}) {verb} that of the same build"
            lines.append(f"{line} (at most {limit}){why}.")
    if differ:
        lines.append("Measure again: if it differs again, the machine is too noisy.")
    return lines


def _average_text(average: Estimate) -> str:
    if not math.isfinite(average.value):
        return ""
    none = ", no difference shown" if average.low < 1 < average.high else ""
    interval = labels.change_between(average.low, average.high)
    return f"on average {labels.change(average.value)} ({interval}){none}"


# With two rounds, 95 % intervals of averages over one block held the truth in 91 to 92 % of simulated cases.
MIN_AVERAGE_ROUNDS = 3


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
    if any(e.n < MIN_AVERAGE_ROUNDS for e in estimates):
        return NO_ESTIMATE
    whole = math.fsum(e.averaged for e in estimates)
    log = math.fsum(e.averaged * math.log(e.value) for e in estimates) / whole
    variances = [
        Variance(e.error**2, e.degrees).scaled((e.averaged / whole) ** 2) for e in estimates
    ]
    error = sum_variances(variances)
    degrees = error.degrees if error.variance else 1.0
    return interval(log, math.sqrt(error.variance), degrees, min(e.n for e in estimates), whole)

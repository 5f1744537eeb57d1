"""One answer over all cells for each candidate, such as a build, and what noise checks say about it.

A study compares the first build (the baseline) with each other build (a candidate). A candidate with the
binaries of the baseline is a noise check (A/A test) and gets no answer: any difference is noise.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from vcsbench.advice import labels
from vcsbench.advice.answer_texts import Answer, undecided_text
from vcsbench.advice.cards import Card
from vcsbench.advice.decision import Case, Pair, Where
from vcsbench.codes import AnswerKind, Result
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT_METRIC
from vcsbench.statistics.aggregation import pair_rows
from vcsbench.statistics.estimates import NO_ESTIMATE, Estimate, interval, ratio_interval
from vcsbench.statistics.noise import Noise
from vcsbench.statistics.variances import Variance, sum_variances

# The mean over the cases of a list of the ratio of two values, baseline / candidate.
Mean = Callable[[Sequence[Where], tuple[str, str]], Estimate]


@dataclass
class Candidate:
    """A candidate, such as a build, with its comparisons and their average.

    `pairs` are its comparisons with the baseline. `wheres` has, in the same order, the values of the other
    axes: {"command": "log", "cache": "cold"}. `average` is the mean ratio baseline / candidate.
    """

    name: str
    pairs: list[Pair] = field(default_factory=list)
    wheres: list[Where] = field(default_factory=list)
    average: Estimate = NO_ESTIMATE

    @property
    def is_noise_check(self) -> bool:
        return all(pair.is_noise_check for pair in self.pairs)


def with_candidates(card: Card, mean: Mean) -> Card:
    """Return the card with an answer for each candidate, and with `lines`.

    `lines` has the sentences on noise checks, on values without measurements, and the card's notes. `mean`
    returns the mean ratio of a candidate over its cases. The card has the answer of the first candidate.
    Without a candidate, its answer is a sentence: `No other build was compared.`
    """
    candidates = _group_by_candidate(card.cases, mean)
    checks = [candidate for candidate in candidates if candidate.is_noise_check]
    others = [candidate for candidate in candidates if not candidate.is_noise_check]

    lines: list[str] = []
    for check in checks:
        lines += _describe_noise_check(check, others)
    lines += [missing.sentence(missing.value) for missing in card.missing]
    # Pages print `lines` and then `notes`, so each sentence must be in one of them.
    lines += card.notes
    answers = [_answer(candidate, card.min_effect_pct) for candidate in others]
    if answers:
        answer = answers[0]
    elif checks:
        answer = _nothing_compared("no other build")
    else:
        answer = _nothing_compared("no result")
    return replace(card, notes=[], lines=lines, candidates=answers, answer=answer)


def _group_by_candidate(cases: Sequence[Case], mean: Mean) -> list[Candidate]:
    """Return the candidates of the cases, each with its comparisons and their average."""
    candidates: dict[str, Candidate] = {}
    for case in cases:
        for pair in case.pairs:
            candidate = candidates.setdefault(pair.candidate, Candidate(pair.candidate))
            candidate.pairs.append(pair)
            candidate.wheres.append(case.where)
    for candidate in candidates.values():
        # All pairs of a candidate have one baseline: such a question has one table.
        sides = (candidate.pairs[0].baseline, candidate.name)
        candidate.average = mean(candidate.wheres, sides)
    return list(candidates.values())


def _nothing_compared(short: str) -> Answer:
    sentence = f"{short.capitalize()} was compared."
    # With NOT_MEASURED, the terminal would print only the question, and a page would list the card last. But
    # a noise check is a result.
    return Answer(AnswerKind.EQUAL, "", short, sentence, sentence)


def _answer(candidate: Candidate, min_effect_pct: float) -> Answer:
    """Return the answer for a candidate: `new: 1.2x slower in 1, 1.10x to 1.40x faster in 5 of 8`.

    The head of the answer is the first of these that exists: the differences, the number of equal cells, or
    the reasons why all are undecided. Other outcomes and the average follow as remarks: `Equal in 2; on
    average 5.0 % faster (...).`

    The kind is DEPENDS if the candidate is slower somewhere, and VALUE if it is only faster. Without a
    difference, it is EQUAL if some cell is equal, otherwise UNDECIDED.
    """
    pairs = candidate.pairs
    different = [pair for pair in pairs if pair.result == Result.DIFFERENT]
    slower = [labels.at_least_1(pair.ratio) for pair in different if pair.ratio < 1]
    faster = [labels.at_least_1(pair.ratio) for pair in different if pair.ratio > 1]
    # How many of the other pairs have each outcome in words: {"equal": 2, "wide interval": 1}.
    outcomes = Counter(undecided_text(pair) for pair in pairs if pair.result != Result.DIFFERENT)
    number_equal = sum(pair.result == Result.EQUAL for pair in pairs)

    def with_number(text: str, number: int) -> str:
        """Return `1.2x slower in 3`; the only pair needs no number."""
        return f"{text} in {number}" if len(pairs) > 1 else text

    total = f" of {len(pairs)}" if len(pairs) > 1 else ""
    called = []
    # A developer looks for regressions first.
    if slower:
        called.append(with_number(f"{labels.factors(slower)} slower", len(slower)))
    if faster:
        called.append(with_number(f"{labels.factors(faster)} faster", len(faster)))
    # Outcomes that the head of the answer does not contain.
    further = [with_number(text, number) for text, number in outcomes.items()]
    if called:
        kind = AnswerKind.DEPENDS if slower else AnswerKind.VALUE
        head = ", ".join(called) + total
    elif number_equal:
        kind = AnswerKind.EQUAL
        equal = str(Result.EQUAL)
        further = [with_number(text, n) for text, n in outcomes.items() if text != equal]
        head = with_number(f"equal within {min_effect_pct:g} %", number_equal) + total
    else:
        kind = AnswerKind.UNDECIDED
        head = f"undecided ({', '.join(further)}{total})"
        further = []

    short = f"{candidate.name}: {head}"
    remarks = "; ".join(filter(None, [", ".join(further), _average_text(candidate.average)]))
    return Answer(
        kind=kind,
        value=candidate.name if kind == AnswerKind.VALUE else "",
        short=short,
        sentence=f"{remarks}.".capitalize() if remarks else "",
        effect=f"{short}; {remarks}" if remarks else short,
    )


def _describe_noise_check(check: Candidate, others: Sequence[Candidate]) -> list[str]:
    """Return sentences on a noise check, and on each other candidate in comparison with it.

    The two builds of a noise check are the same, so their average ratio shows the noise of the machine. A
    candidate's average difference is more than noise only if it is larger. Examples: `Noise check: copy, the
    same build: 0 of 8 differ; on average ...`, and `The average difference of new (1.2x) exceeds that of the
    same build (at most 2.0 %).`
    """
    pairs, average = check.pairs, check.average
    results = Counter(pair.result for pair in pairs)
    differ = results[Result.DIFFERENT]
    undecided = len(pairs) - differ - results[Result.EQUAL]
    summary = f"{differ} of {len(pairs)} differ"
    if undecided:
        summary += f", {undecided} undecided"
    average_text = _average_text(average)
    if average_text:
        summary += f"; {average_text}"
    lines = [f"Noise check: {check.name}, the same build: {summary}."]

    # The interval of the average is, for example, 0.99 to 1.02. The end that is farther from 1 is the largest
    # noise, as a factor of at least 1: 1.02. It is NaN if the average is unknown.
    largest_noise = max(average.high, 1 / average.low)
    for candidate in others:
        size = labels.at_least_1(candidate.average.value)
        # The sum is NaN if one of the averages is unknown, after too few rounds for example.
        if not math.isfinite(largest_noise + size):
            continue
        mean, limit = labels.factor(size), labels.factor(largest_noise)
        average_of = f"The average difference of {candidate.name} ({mean})"
        # A difference is shown if the interval of the candidate's average does not contain 1 (equal times).
        is_shown = not candidate.average.low < 1 < candidate.average.high
        if size > largest_noise and is_shown:
            lines.append(f"{average_of} exceeds that of the same build (at most {limit}).")
        else:
            lines.append(
                f"{average_of} does not exceed that of the same build (at most {limit}): it can be noise."
            )
    if differ:
        lines.append("Measure again: if it differs again, the machine is too noisy.")
    return lines


def _average_text(average: Estimate) -> str:
    """Return `on average 1.0 % faster (2.0 % slower to 4.0 % faster), no difference shown`, "" if unknown."""
    if not math.isfinite(average.value):
        return ""
    interval = labels.change_between(average.low, average.high)
    text = f"on average {labels.change(average.value)} ({interval})"
    return f"{text}, no difference shown" if average.low < 1 < average.high else text


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
    """Return the geometric mean of the ratios baseline / candidate over cases, with its interval.

    `sides` are the baseline and the candidate, two values of `axis`. `rounds` has a row for each cell, host
    and round (by_round); the values of the axes in `order` identify a cell. `wheres` has the values of the
    other axes of each case to average.

    Cells with equal values of the axes `block` are a block: in each round they run next to each other. In a
    block, the ratios of a round are averaged over the cases. The mean over the rounds is the block's mean
    (_block_mean). Blocks are averaged by their numbers of cases.

    Return NO_ESTIMATE, with NaN, without a common round, with several hosts, or with a block of fewer than
    three rounds.
    """
    other_axes = [name for name in order if name != axis]
    included = {tuple(where.get(name, "") for name in other_axes) for where in wheres}
    # A row for each case and round, with the time of each side: `elapsed_s_baseline`, `elapsed_s_candidate`.
    pairs = pair_rows(rounds, axis, sides, [*other_axes, "host", "round"])
    keys = [*zip(*(pairs[name] for name in other_axes), strict=True)]
    logs = np.log(pairs[f"{DEFAULT_METRIC}_baseline"] / pairs[f"{DEFAULT_METRIC}_candidate"])
    pairs = pairs.assign(key=pd.Series(keys, pairs.index, dtype=object), log=logs)
    pairs = pairs[pairs["key"].isin(included)]
    # Hosts differ in speed, so an average over several of them would describe none of them.
    if pairs.empty or rounds["host"].nunique() != 1:
        return NO_ESTIMATE
    estimates = [
        _block_mean(rows, axis, order, sides, noise) for _, rows in group_rows(pairs, block)
    ]
    # One block with few rounds would make the interval of the whole too narrow.
    if any(estimate.n < MIN_AVERAGE_ROUNDS for estimate in estimates):
        return NO_ESTIMATE
    # Each block counts by its number of cases (`averaged`).
    number = math.fsum(estimate.averaged for estimate in estimates)
    log_sum = math.fsum(estimate.averaged * math.log(estimate.value) for estimate in estimates)
    # Blocks run at different times, so their errors are independent, and the variances add up.
    variances = []
    for estimate in estimates:
        share = estimate.averaged / number
        variances.append(Variance(estimate.error**2, estimate.degrees).scaled(share**2))
    error = sum_variances(variances)
    # An error without any scatter has no degrees of freedom, and the interval is a point.
    degrees = error.degrees if error.variance else 1.0
    fewest_rounds = min(estimate.n for estimate in estimates)
    return interval(log_sum / number, math.sqrt(error.variance), degrees, fewest_rounds, number)


def _block_mean(
    pairs: pd.DataFrame, axis: str, order: Sequence[str], sides: tuple[str, str], noise: Noise
) -> Estimate:
    """Return the mean ratio in a block, over the rounds in which all its cases were measured.

    `pairs` has a row for each case and `round`: `key` has the values of the other axes as a tuple, and `log`
    the logarithm of baseline / candidate. `sides` are the baseline and the candidate.
    """
    # A row for each round, a column for each case. A round that lacks a case is dropped. It would have the
    # mean of fewer cases, which is not comparable with the means of other rounds.
    logs = pairs.pivot(index="round", columns="key", values="log").dropna().sort_index()
    position = order.index(axis)
    baseline, candidate = sides
    # The two cells of each case, the candidate first, each as its values of all axes. The noise of the ratio
    # is looked up by these. `position` is that of the sides' axis among the axes.
    cells = []
    for key in logs.columns.to_list():
        before, after = key[:position], key[position:]
        cells.append(((*before, candidate, *after), (*before, baseline, *after)))
    # One mean for each round. fsum() does not depend on the order of the cases.
    means = logs.apply(math.fsum, axis=1) / len(cells)
    return noise.with_error(ratio_interval(means, len(cells)), cells)

"""One answer over all cells for each candidate, such as a build, and what noise checks say about it.

A study compares the first build (the baseline) with each other build (a candidate). A candidate with the
binaries of the baseline is a noise check (A/A test) and gets no answer: any difference is noise.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from vcsbench.advice import labels
from vcsbench.advice.answer_texts import Answer
from vcsbench.advice.cards import Card
from vcsbench.advice.decision import Case, Pair, Sides
from vcsbench.codes import AnswerKind, Result, WhyUndecided
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT_METRIC
from vcsbench.plan.grid import AxisValues
from vcsbench.statistics import texts
from vcsbench.statistics.aggregation import pair_rows
from vcsbench.statistics.estimates import NO_ESTIMATE, Estimate, interval, ratio_interval
from vcsbench.statistics.noise import CellKey, CellPair, Noise
from vcsbench.statistics.variances import Variance, sum_variances

# The mean over cases of the ratio of two values, baseline / candidate (CaseAverages.mean).
Mean = Callable[[Sequence[AxisValues], Sides], Estimate]
# With two rounds, 95 % intervals of averages over one block held the truth in 91 to 92 % of simulated cases.
MIN_AVERAGE_ROUNDS = 3


@dataclass(frozen=True)
class Candidate:
    """A candidate, such as a build, with its comparisons with the baseline, and their mean ratio."""

    name: str
    pairs: Sequence[Pair]
    average: Estimate

    @property
    def is_noise_check(self) -> bool:
        return all(pair.is_noise_check for pair in self.pairs)


def with_candidates(card: Card, mean: Mean) -> Card:
    """Return the card with an answer for each candidate (a build that is compared with the baseline).

    A candidate that is the same build as the baseline is a noise check: its differences are noise. Sentences
    on it, instead of an answer, begin the card's new `lines`. The first answer is that of the whole card.
    """
    candidates = _candidates_of(card.cases, mean)
    checks = [candidate for candidate in candidates if candidate.is_noise_check]
    other_builds = [candidate for candidate in candidates if not candidate.is_noise_check]
    lines: list[str] = []
    for check in checks:
        lines += _describe_noise_check(check, other_builds)
    for missing in card.missing:
        # A value of this axis is the name of a build, which needs no other label.
        lines.append(missing.sentence(label=missing.value))
    # Pages print `lines` and then `notes`. The notes move to `lines`, so that they are printed once.
    lines += card.notes
    answers = [_answer(candidate, card.min_effect_pct) for candidate in other_builds]
    answer = answers[0] if answers else _answer_without_builds(has_noise_checks=bool(checks))
    return replace(card, notes=[], lines=lines, candidates=answers, answer=answer)


def _candidates_of(cases: Sequence[Case], mean: Mean) -> list[Candidate]:
    """Return the candidates of all cases, each with its pairs and their mean ratio."""
    cases_and_pairs: dict[str, list[tuple[Case, Pair]]] = {}
    for case in cases:
        for pair in case.pairs:
            cases_and_pairs.setdefault(pair.candidate, []).append((case, pair))
    candidates = []
    for name, members in cases_and_pairs.items():
        wheres = [case.where for case, _ in members]
        pairs = [pair for _, pair in members]
        # A question about builds has one table with one baseline. So all pairs here have the same sides.
        candidates.append(Candidate(name, pairs, mean(wheres, pairs[0].sides)))
    return candidates


def _answer_without_builds(has_noise_checks: bool) -> Answer:
    """Return the answer if no other build was compared with the baseline, or nothing at all."""
    short = "no other build" if has_noise_checks else "no result"
    sentence = f"{short.capitalize()} was compared."
    # The kind decides the place of the card. Pages list NOT_MEASURED last, although the card may have the
    # result of a noise check. EQUAL keeps the card in its place.
    return Answer(AnswerKind.EQUAL, short=short, sentence=sentence, effect=sentence)


def _answer(candidate: Candidate, min_effect_pct: float) -> Answer:
    """Return the answer for a candidate from its pairs, which compare it with the baseline in each case.

    Example of a candidate `new` with eight pairs:

    - short: `new: 1.2x slower in 1, 1.10x to 1.4x faster in 5 of 8`
    - sentence: `Equal in 2; on average 5.0 % faster (2.0 to 8.0 % faster).`
    - effect: `new: 1.2x slower in 1, 1.10x to 1.4x faster in 5 of 8; equal in 2; on average ...`
    """
    pairs = candidate.pairs
    total = len(pairs)
    of_total = f" of {total}" if total > 1 else ""
    ratios = [pair.ratio for pair in pairs if pair.result == Result.DIFFERENT]
    # By result, an undecided pair by its reason: {"equal": 2, "wide-interval": 1}.
    outcomes = Counter(pair.outcome for pair in pairs if pair.result != Result.DIFFERENT)
    # The outcomes that the short text does not name.
    other_outcomes: Mapping[Result | WhyUndecided, int] = {}
    if ratios:
        # `1.2x slower in 1, 1.10x to 1.4x faster in 5 of 8`. A build that is slower in any pair (DEPENDS) is
        # not recommended.
        kind = AnswerKind.DEPENDS if min(ratios) < 1 else AnswerKind.VALUE
        summary = f"{_describe_differences(ratios, total)}{of_total}"
        other_outcomes = outcomes
    elif Result.EQUAL in outcomes:
        # `equal within 10 % in 5 of 8`
        kind = AnswerKind.EQUAL
        equal_text = f"equal within {min_effect_pct:g} %"
        summary = f"{_with_number(equal_text, outcomes[Result.EQUAL], total)}{of_total}"
        other_outcomes = {
            outcome: number for outcome, number in outcomes.items() if outcome != Result.EQUAL
        }
    else:
        # `undecided (wide interval in 6, too small to compare in 2 of 8)`
        kind = AnswerKind.UNDECIDED
        summary = f"undecided ({_describe_outcomes(outcomes, total)}{of_total})"
    remarks = [_describe_outcomes(other_outcomes, total), _average_text(candidate.average)]
    remark = "; ".join(text for text in remarks if text)
    short = f"{candidate.name}: {summary}"
    return Answer(
        kind=kind,
        value=candidate.name if kind == AnswerKind.VALUE else "",
        short=short,
        sentence=f"{remark}.".capitalize() if remark else "",
        effect=f"{short}; {remark}" if remark else short,
    )


def _describe_differences(ratios: Sequence[float], total: int) -> str:
    """Return `1.2x slower in 1, 1.10x to 1.4x faster in 5` for the ratios of pairs that differ.

    `total` is the number of all pairs.
    """
    slower = [1 / ratio for ratio in ratios if ratio < 1]
    faster = [ratio for ratio in ratios if ratio > 1]
    texts_of_sides = []
    # A developer looks for regressions first.
    for word, factors in (("slower", slower), ("faster", faster)):
        if factors:
            text = f"{labels.range_of_factors(factors)} {word}"
            texts_of_sides.append(_with_number(text, len(factors), total))
    return ", ".join(texts_of_sides)


def _describe_outcomes(outcomes: Mapping[Result | WhyUndecided, int], total: int) -> str:
    """Return `equal in 2, wide interval in 1`, "" without an outcome."""
    return ", ".join(
        _with_number(texts.outcome_text(outcome), number, total)
        for outcome, number in outcomes.items()
    )


def _with_number(text: str, number: int, total: int) -> str:
    """Return `1.2x slower in 3`. The only pair of all needs no number."""
    return f"{text} in {number}" if total > 1 else text


def _average_text(average: Estimate) -> str:
    """Return `on average 1.0 % faster (2.0 % slower to 4.0 % faster), no difference shown`, "" if unknown."""
    if not math.isfinite(average.value):
        return ""
    bounds = labels.change_between(average.low, average.high)
    text = f"on average {labels.change(average.value)} ({bounds})"
    return text if _is_shown(average) else f"{text}, no difference shown"


def _is_shown(average: Estimate) -> bool:
    """Return True if the interval of an average ratio does not contain 1 (equal times)."""
    return not average.low < 1 < average.high


def _describe_noise_check(check: Candidate, other_builds: Sequence[Candidate]) -> list[str]:
    """Return sentences on a noise check, and on each of the other builds in comparison with it.

    Example of the first one: `Noise check: copy, the same build: 0 of 8 differ; on average ...`.
    """
    results = Counter(pair.result for pair in check.pairs)
    differ = results[Result.DIFFERENT]
    # All other results count as undecided, such as `too small`.
    undecided = len(check.pairs) - differ - results[Result.EQUAL]
    summary = f"{differ} of {len(check.pairs)} differ"
    if undecided:
        summary += f", {undecided} undecided"
    average_text = _average_text(check.average)
    if average_text:
        summary += f"; {average_text}"
    lines = [f"Noise check: {check.name}, the same build: {summary}."]
    lines += [_compare_with_noise(build, check.average) for build in other_builds]
    if differ:
        lines.append("Measure again: if it differs again, the noise of the machine is too high.")
    # The sentence on a build is "" if a mean is unknown.
    return [line for line in lines if line]


def _compare_with_noise(candidate: Candidate, noise: Estimate) -> str:
    """Return a sentence on whether a candidate's average difference is more than noise, "" if unknown.

    `noise` is the mean ratio of a noise check. Example: `The average difference of new (1.2x) exceeds that of
    the same build (at most 2.0 %).`
    """
    # The end of the interval that is farther from 1, as a factor of at least 1.
    largest_noise = max(noise.high, 1 / noise.low)
    difference = labels.at_least_1(candidate.average.value)
    # A mean ratio is NaN after too few rounds.
    if not (math.isfinite(largest_noise) and math.isfinite(difference)):
        return ""
    subject = f"The average difference of {candidate.name} ({labels.factor(difference)})"
    same_build = f"that of the same build (at most {labels.factor(largest_noise)})"
    # The interval of the candidate must also show a difference, and not only the mean.
    if difference > largest_noise and _is_shown(candidate.average):
        return f"{subject} exceeds {same_build}."
    return f"{subject} does not exceed {same_build}: it can be noise."


@dataclass(frozen=True)
class CaseAverages:
    """The rounds of a study, from which the ratio of two values of an axis is averaged over cases.

    `rounds` has a row for each cell, host and round (by_round). The axes in `order` identify a cell, and the
    axes `block` its block.
    """

    rounds: pd.DataFrame
    axis: str
    order: Sequence[str]
    block: Sequence[str]
    noise: Noise

    def mean(self, wheres: Sequence[AxisValues], sides: Sides) -> Estimate:
        """Return the geometric mean of the ratios baseline / candidate over cases, with its interval.

        `wheres` has the values of the other axes of each case: {"command": "log", "cache": "cold"}. Return
        NO_ESTIMATE (NaN) if no round has both sides, if there are several hosts, or if a block has fewer than
        MIN_AVERAGE_ROUNDS (3) rounds with all its cases.
        """
        ratios = self._ratios_by_round(wheres, sides)
        # Hosts differ in speed, so an average over several of them would describe none of them.
        if ratios.empty or self.rounds["host"].nunique() != 1:
            return NO_ESTIMATE
        blocks = [self._block_mean(rows, sides) for _, rows in group_rows(ratios, self.block)]
        # With few rounds in a block, the interval of the mean over all blocks would be too narrow.
        if any(block.n < MIN_AVERAGE_ROUNDS for block in blocks):
            return NO_ESTIMATE
        return _mean_of_blocks(blocks)

    def _ratios_by_round(self, wheres: Sequence[AxisValues], sides: Sides) -> pd.DataFrame:
        """Return a row for each case of `wheres` and each round that both `sides` have.

        A row has the axes except the compared one, `round`, and two new columns. `key` has the values of
        these axes as a tuple, ("log", "cold"). `log` is the logarithm of the ratio baseline / candidate.
        """
        other_axes = [name for name in self.order if name != self.axis]
        pairs = pair_rows(self.rounds, self.axis, sides, [*other_axes, "host", "round"])
        keys = list(zip(*(pairs[name] for name in other_axes), strict=True))
        logs = np.log(pairs[f"{DEFAULT_METRIC}_baseline"] / pairs[f"{DEFAULT_METRIC}_candidate"])
        ratios = pairs.assign(key=pd.Series(keys, pairs.index, dtype=object), log=logs)
        included = {tuple(where.get(name, "") for name in other_axes) for where in wheres}
        return ratios[ratios["key"].isin(included)]

    def _block_mean(self, ratios: pd.DataFrame, sides: Sides) -> Estimate:
        """Return the geometric mean ratio in a block, over the rounds in which all its cases were measured.

        `ratios` has the block's rows of _ratios_by_round().
        """
        # A row for each round, a column for each case. A round that lacks a case is dropped: the mean of
        # fewer cases is not comparable with the means of other rounds.
        logs = ratios.pivot(index="round", columns="key", values="log").dropna().sort_index()
        case_keys = [tuple(key) for key in logs.columns]
        # fsum() does not depend on the order of the cases.
        means_of_rounds = logs.apply(math.fsum, axis=1) / len(case_keys)
        estimate = ratio_interval(means_of_rounds, averaged=len(case_keys))
        # The interval of this estimate rests on the scatter of a few rounds. with_error() returns one that
        # also uses the noise of these cells and of the whole study.
        cell_pairs = [self._cells_of_case(key, sides) for key in case_keys]
        return self.noise.with_error(estimate, cell_pairs)

    def _cells_of_case(self, key: CellKey, sides: Sides) -> CellPair:
        """Return the keys of the two cells that a case compares, the candidate's first.

        A case has no value of the compared axis, a cell has: ("log", "cold") gives ("log", "new", "cold") and
        ("log", "old", "cold").
        """
        baseline, candidate = sides
        position = self.order.index(self.axis)
        before, after = key[:position], key[position:]
        return (*before, candidate, *after), (*before, baseline, *after)


def _mean_of_blocks(blocks: Sequence[Estimate]) -> Estimate:
    """Return the geometric mean of the mean ratios of blocks, each weighted by its number of cases."""
    # `averaged` is the number of cases that the ratio of a block averages.
    case_count = math.fsum(block.averaged for block in blocks)
    log_sum = math.fsum(block.averaged * math.log(block.value) for block in blocks)
    # Blocks run at different times, so their errors are independent. The variance of the mean is then the sum
    # of each block's variance times its squared share.
    variances = []
    for block in blocks:
        share = block.averaged / case_count
        variances.append(Variance(block.error**2, block.degrees).scaled(share**2))
    mean_variance = sum_variances(variances)
    # Without any scatter, the error is 0 with infinite degrees of freedom. The interval is then a point with
    # any number of degrees, so 1 will do.
    degrees = mean_variance.degrees if mean_variance.variance else 1.0
    fewest_rounds = min(block.n for block in blocks)
    mean_log = log_sum / case_count
    error = math.sqrt(mean_variance.variance)
    return interval(mean_log, error, degrees, fewest_rounds, case_count)

"""The texts of a card on candidates, such as builds: an answer for each, and what noise checks show."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from vcsbench.advice import labels
from vcsbench.advice.candidates import Candidate, list_candidates
from vcsbench.advice.cards import AverageRatio, Card
from vcsbench.codes import Result, WhyUndecided
from vcsbench.report.answer_texts import AnswerText
from vcsbench.statistics import texts


def describe_candidates(card: Card) -> list[AnswerText]:
    """Return the texts of the answer for each candidate; a noise check has none."""
    candidates = list_candidates(card)
    return [
        _describe_candidate(candidate, card.min_effect_pct)
        for candidate in candidates
        if not candidate.is_noise_check
    ]


def describe_noise_checks(card: Card) -> list[str]:
    """Return sentences on each noise check of a card, and on the other candidates compared with it."""
    candidates = list_candidates(card)
    other_builds = [candidate for candidate in candidates if not candidate.is_noise_check]
    sentences = []
    for candidate in candidates:
        if candidate.is_noise_check:
            sentences += _describe_noise_check(candidate, other_builds)
    return sentences


def describe_no_candidate(card: Card) -> AnswerText:
    """Return the texts of an answer if no other build was compared with the baseline, or nothing at all."""
    short = "no other build" if list_candidates(card) else "no result"
    sentence = f"{short.capitalize()} was compared."
    return AnswerText(short, sentence, effect=sentence)


def _describe_candidate(candidate: Candidate, min_effect_pct: float) -> AnswerText:
    """Return the texts for a candidate from its pairs, which compare it with the baseline in each case.

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
        # `1.2x slower in 1, 1.10x to 1.4x faster in 5 of 8`
        summary = f"{_describe_differences(ratios, total)}{of_total}"
        other_outcomes = outcomes
    elif Result.EQUAL in outcomes:
        # `equal within 10 % in 5 of 8`
        equal_text = f"equal within {min_effect_pct:g} %"
        summary = f"{_with_number(equal_text, outcomes[Result.EQUAL], total)}{of_total}"
        other_outcomes = {
            outcome: number for outcome, number in outcomes.items() if outcome != Result.EQUAL
        }
    else:
        # `undecided (wide interval in 6, too small to compare in 2 of 8)`
        summary = f"undecided ({_describe_outcomes(outcomes, total)}{of_total})"
    remarks = [_describe_outcomes(other_outcomes, total), _average_text(candidate.average)]
    remark = "; ".join(text for text in remarks if text)
    short = f"{candidate.name}: {summary}"
    return AnswerText(
        short,
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


def _average_text(average: AverageRatio) -> str:
    """Return `on average 1.0 % faster (2.0 % slower to 4.0 % faster), no difference shown`, "" if unknown."""
    if not math.isfinite(average.value):
        return ""
    bounds = labels.change_between(average.low, average.high)
    text = f"on average {labels.change(average.value)} ({bounds})"
    return text if _is_shown(average) else f"{text}, no difference shown"


def _is_shown(average: AverageRatio) -> bool:
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


def _compare_with_noise(candidate: Candidate, noise: AverageRatio) -> str:
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

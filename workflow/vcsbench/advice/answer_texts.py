"""The texts of answers: what to choose, by how much it is faster, and where it is slower.

A question asks for the best value of an axis, such as the format. A case compares its values for one
combination of the other axes, such as the cold log over http. A group is a kind of case: `cold log`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vcsbench.advice import decision, labels
from vcsbench.advice.decision import Case, Pair, Where
from vcsbench.advice.questions import CardQuestion
from vcsbench.advice.rules import Rule, find_rule
from vcsbench.axis_names import ACCESS_AXIS, COMMAND_AXIS
from vcsbench.codes import AnswerKind, Result
from vcsbench.statistics import texts
from vcsbench.statistics.comparisons import DIFFERENCES, Limits
from vcsbench.words import enumeration

# The commands of svnbench: null-log and null-export.
BENCHMARK_ONLY = "null-"
LESS_CLIENT_WORK = "over svn, its client does less work"
MAX_WORDS = 25
NO_DECISION = {
    AnswerKind.NOT_MEASURED: "No case of this question has a result.",
    AnswerKind.NOT_COMPARED: "Its cells were measured, but cannot be compared.",
}


@dataclass(frozen=True)
class Answer:
    """An answer: its kind, one or two words (`short`), a sentence, and a short effect for the terminal.

    `value` is the value to choose, "" without a decision. Example: short `f7`, sentence `Choose f7: cold log
    2.0x faster.`, effect `cold log 2.0x faster`.
    """

    kind: AnswerKind = AnswerKind.NOT_MEASURED
    value: str = ""
    short: str = ""
    sentence: str = ""
    effect: str = ""


NO_ANSWER = Answer()


@dataclass(frozen=True)
class AnswerSettings:
    """What an answer depends on besides its cases.

    `reference` is the value that stays if nothing is changed. `current` is the value that the reader has, ""
    if it is unknown. `has_workload`: the cases are weighted by the user's workload.
    """

    reference: str
    current: str
    min_effect_pct: float
    has_workload: bool


class CaseOutcome(StrEnum):
    """The outcome of a value in one case, against the best other value, in the order of texts."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUAL = "equal"
    BOUNDED = "bounded"
    TOO_SMALL = "too small"
    UNDECIDED = "undecided"
    # The case compares other values only.
    NOT_COMPARED = "not compared"


# Outcomes with the same words as the result of a comparison.
RESULT_OUTCOMES = {
    CaseOutcome.EQUAL: Result.EQUAL,
    CaseOutcome.BOUNDED: Result.BOUNDED,
    CaseOutcome.TOO_SMALL: Result.TOO_SMALL,
    CaseOutcome.UNDECIDED: Result.UNDECIDED,
}


@dataclass(frozen=True)
class CaseEffect:
    """The outcome of a value in one case.

    `gain` is how many times as fast it is as the value that it is compared with, None if it is not faster.
    `regret` is how many times as long it takes as the best value of the case, None if it is the best. A value
    can have both: better than the reference, and worse than the best.
    """

    outcome: CaseOutcome
    gain: float | None = None
    regret: float | None = None


def effect_in_case(value: str, case: Case, against: str) -> CaseEffect:
    """Return the effect of a value in a case, compared with the value `against`.

    If both are the same value, it is compared with the slowest other value instead. Example with the times f6
    3 s, f7 1.5 s and f8 1 s: f7 against f6 is FASTER, with the gain 2.0 and the regret 1.5.

    - NOT_COMPARED: the case decides other values only.
    - FASTER: it is faster than the other value.
    - SLOWER: it is not faster than the other value, and slower than the best one.
    - EQUAL: it is the best value, and the other one is as fast.
    - TOO_SMALL, BOUNDED or UNDECIDED: the case does not decide the two values.
    """
    # The time of each decided value as a multiple of the best one: {"f6": 3, "f7": 1.5, "f8": 1}.
    costs = case.costs
    if value not in costs:
        if case.is_decided:
            return CaseEffect(CaseOutcome.NOT_COMPARED)
        return CaseEffect(_outcome_without_decision(case))
    cost = costs[value]
    if against != value:
        # None if the case does not decide the other value.
        other_cost = costs.get(against)
    else:
        # The advice is to keep the reference. Against itself, it has no gain. So the text says by how much it
        # is faster than the slowest value.
        other_costs = [costs[other] for other in costs if other != value]
        other_cost = max(other_costs, default=None)
    # The best value of the case has the cost 1.
    regret = cost if cost > 1 + decision.SAME else None
    if other_cost is not None and other_cost > cost * (1 + decision.SAME):
        return CaseEffect(CaseOutcome.FASTER, other_cost / cost, regret)
    if regret is not None:
        return CaseEffect(CaseOutcome.SLOWER, regret=regret)
    if other_cost is not None:
        return CaseEffect(CaseOutcome.EQUAL)
    return CaseEffect(_outcome_without_decision(case))


def _outcome_without_decision(case: Case) -> CaseOutcome:
    if case.is_small:
        return CaseOutcome.TOO_SMALL
    is_bounded = any(pair.result == Result.BOUNDED for pair in case.pairs)
    return CaseOutcome.BOUNDED if is_bounded else CaseOutcome.UNDECIDED


@dataclass(frozen=True)
class Effect:
    """The effect of a value over cases.

    `gains` and `regrets` have the factors of its CaseEffects by group: `{"cold log": [2.4, 6.9]}`. The group
    with the largest factor comes first. Groups of svnbench's commands come last, because nobody runs these at
    work. `counts` are the numbers of cases by outcome.
    """

    gains: Mapping[str, Sequence[float]]
    regrets: Mapping[str, Sequence[float]]
    counts: Counter[CaseOutcome]
    min_effect_pct: float

    @property
    def most(self) -> float:
        """Return the largest gain of the first group, 1 without any."""
        first_gains = next(iter(self.gains.values()), [1.0])
        return max(first_gains)

    @property
    def wins(self) -> str:
        """Return `cold log 2.4x to 6.9x faster`, or `cold log 2.4x, others 1.2x to 1.9x faster`.

        The first group, with the largest gain, is named. Further groups share one range of factors. Return ""
        without a gain.
        """
        if not self.gains:
            return ""
        first_group, *other_groups = self.gains
        first_gains = self.gains[first_group]
        first_text = f"{first_group} {labels.factors(first_gains)}".strip()
        if not other_groups:
            return f"{first_text} faster{labels.slight(first_gains, self.min_effect_pct)}"
        other_gains = [gain for group in other_groups for gain in self.gains[group]]
        slight = labels.slight(other_gains, self.min_effect_pct)
        # Groups with the same range need no names: `1.2x to 1.9x faster`.
        if labels.factors(other_gains) == labels.factors(first_gains):
            return f"{labels.factors(first_gains)} faster{slight}"
        others = other_groups[0] if len(other_groups) == 1 else "others"
        return f"{first_text}, {others} {labels.factors(other_gains)} faster{slight}"

    @property
    def losses(self) -> str:
        """Return `cold log 5.0 to 8.0 % slower` if all losses are in one group, or `at most 5.0 % slower`.

        Return `slower in no case measured` without a loss.
        """
        if not self.regrets:
            return "slower in no case measured"
        regrets = [regret for group in self.regrets.values() for regret in group]
        slight = labels.slight(regrets, self.min_effect_pct)
        group, *other_groups = self.regrets
        if group and not other_groups:
            return f"{group} {labels.factors(regrets)} slower{slight}"
        return f"at most {labels.factor(max(regrets))} slower{slight}"

    @property
    def outcomes(self) -> str:
        """Return the numbers of cases by outcome: `of 24 cases 17 faster, 0 slower, 7 undecided`."""
        parts = []
        for outcome in CaseOutcome:
            number = self.counts[outcome]
            # A reader looks for these two, also if their number is 0.
            if number or outcome in (CaseOutcome.FASTER, CaseOutcome.SLOWER):
                result = RESULT_OUTCOMES.get(outcome)
                name = texts.RESULTS[result] if result else str(outcome)
                parts.append(f"{number} {name}")
        return f"of {self.counts.total()} cases {', '.join(parts)}"


def combine_effects(
    value: str, cases: Sequence[Case], against: str, min_effect_pct: float
) -> Effect:
    """Return the effect of a value over cases, compared with the value `against` (effect_in_case).

    The factors are collected by group: `{"cold log": [2.4, 6.9]}`. A case without a gain or a regret only
    counts in `counts`. `min_effect_pct`, such as 10, is the smallest effect worth noting.
    """
    gains: dict[str, list[float]] = {}
    regrets: dict[str, list[float]] = {}
    counts: Counter[CaseOutcome] = Counter()
    for case in cases:
        group = labels.group_label(case.where)
        effect = effect_in_case(value, case, against)
        counts[effect.outcome] += 1
        if effect.gain is not None:
            gains.setdefault(group, []).append(effect.gain)
        if effect.regret is not None:
            regrets.setdefault(group, []).append(effect.regret)
    return Effect(_largest_first(gains), _largest_first(regrets), counts, min_effect_pct)


def _largest_first(factors: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Return the groups in the order of their largest factor, groups of svnbench's commands last."""

    def rank(group: str) -> tuple[bool, float]:
        return BENCHMARK_ONLY in group, -max(factors[group])

    return {group: factors[group] for group in sorted(factors, key=rank)}


def in_cases(number: int, total: int) -> str:
    """Return ` in 2 of 3 cases`, "" for the only case."""
    return f" in {number} of {total} cases" if total > 1 else ""


def answer_without_choice(
    kind: AnswerKind, value: str, cases: Sequence[Case], settings: AnswerSettings
) -> Answer:
    """Return the answer if no value can be chosen: equal, undecided, or without a result.

    - NOT_MEASURED, NOT_COMPARED: a fixed sentence. Its value is "".
    - EQUAL: `Within 10 % in 3 of 4 cases.`
    - UNDECIDED: the most frequent reason, such as `Wide interval in 2 of 3 cases.`

    `value` is the value to keep, "" if nothing is decided.
    """
    short = str(kind)
    if kind in NO_DECISION:
        sentence = NO_DECISION[kind]
        clause = sentence.rstrip(".")
        return Answer(kind, "", short, sentence, clause[0].lower() + clause[1:])
    if kind == AnswerKind.EQUAL:
        number = sum(case.decides(settings.current) for case in cases)
        text = f"within {settings.min_effect_pct:g} %{in_cases(number, len(cases))}"
    else:
        reasons: Counter[str] = Counter()
        for case in cases:
            # Every case compares the reader's value (cards.Card.answer_for).
            pair = next(pair for pair in case.pairs if pair.compares(settings.current))
            reasons[undecided_text(pair)] += 1
        reason, number = reasons.most_common(1)[0]
        text = reason + in_cases(number, len(cases))
    return Answer(kind, value, short, f"{text[0].upper()}{text[1:]}.", text)


def undecided_text(pair: Pair) -> str:
    """Return why a pair is not decided (`wide interval`), or the outcome of a decided one (`equal`)."""
    if pair.result == Result.UNDECIDED and pair.why_undecided:
        return texts.UNDECIDED_TEXTS[pair.why_undecided]
    return texts.RESULTS[pair.result]


def answer_with_choice(
    question: CardQuestion,
    kind: AnswerKind,
    value: str,
    cases: Sequence[Case],
    settings: AnswerSettings,
) -> Answer:
    """Return the answer that recommends a value. `kind` is VALUE or DEPENDS.

    A reader who has picked a `current` value keeps it if the recommended one is faster in no case. Examples:
    - DEPENDS: `Choose f7 for cold log, f6 for export; f7 if you must choose one: ...`
    - VALUE, and the reader has f7: `You have f7: keep it if you change only this.`
    - VALUE: `Choose f7: cold log 2.0x faster (of 4 cases 3 faster, 0 slower, 1 equal).`
    """
    current, min_effect_pct = settings.current, settings.min_effect_pct
    # The recommended value is compared with the reader's current value. If that is unknown, or is the
    # recommended value itself, it is compared with the reference.
    against = settings.reference
    if current and current != value:
        against = current
    effect = combine_effects(value, cases, against, min_effect_pct)
    if current and not effect.gains:
        # The recommended value is faster than the current one in no case, so a change is not worth it.
        value = current
        effect = combine_effects(current, cases, settings.reference, min_effect_pct)
    if kind == AnswerKind.DEPENDS:
        text = _choice_that_depends(question.axis, value, cases, effect, settings)
        return Answer(kind, value, str(kind), f"Choose {text}.", text)

    label = labels.value_label(question.axis, value)
    short = label
    # A question such as "Pack the repository?" has the answer yes or no.
    if question.yes_value:
        short = "yes" if value == question.yes_value else "no"
    text = _effect_text(effect)
    if current == value:
        sentence = f"You have {label}: keep it if you change only this."
    elif settings.has_workload:
        sentence = f"For your workload choose {label}: {text}."
    else:
        sentence = f"Choose {label}: {text}."
    return Answer(kind, value, short, sentence, text)


def answer_of_cost(axis: str, cases: Sequence[Case], reference: str) -> Answer:
    """Return the answer that names the cost of each value against the reference, and recommends none.

    Example: `https: warm export 1.3x slower, warm log equal.`, in short `up to 1.3x slower`. A value that is
    faster somewhere is named, too: `short_circuit: warm log 1.8x faster`.
    """
    # The factors of each value by group, such as {"https": {"warm export": [1.3], "warm log": [1.0]}}.
    costs: dict[str, dict[str, list[float]]] = {}
    for case in cases:
        # A case that does not decide the reference shows no cost against it.
        if reference not in case.costs:
            continue
        for value, cost in case.costs.items():
            if value != reference:
                groups = costs.setdefault(value, {})
                group = labels.group_label(case.where)
                groups.setdefault(group, []).append(cost / case.costs[reference])
    clauses = []
    largest = 1.0
    for value, groups in costs.items():
        parts = []
        for group, factors in groups.items():
            largest = max(largest, *factors)
            parts.append(f"{group} {_cost_text(factors)}".strip())
        clauses.append(f"{labels.value_label(axis, value)}: {', '.join(parts)}")
    text = "; ".join(clauses)
    is_cost = largest > 1 + decision.SAME
    short = f"up to {labels.factor(largest)} slower" if is_cost else "no cost"
    return Answer(AnswerKind.COST, "", short, f"{text[0].upper()}{text[1:]}.", text)


def _cost_text(factors: Sequence[float]) -> str:
    """Return the times of a value against the reference: `1.2x to 1.3x slower`, `equal`, `1.1x faster`."""
    slower = [factor for factor in factors if factor > 1 + decision.SAME]
    faster = [1 / factor for factor in factors if factor < 1 - decision.SAME]
    parts = []
    if slower:
        parts.append(f"{labels.factors(slower)} slower{_in_part(len(slower), len(factors))}")
    if faster:
        parts.append(f"{labels.factors(faster)} faster{_in_part(len(faster), len(factors))}")
    return " and ".join(parts) or "equal"


def _in_part(number: int, total: int) -> str:
    """Return ` in 2 of 3`, "" if it is all of them."""
    return f" in {number} of {total}" if number < total else ""


def _effect_text(effect: Effect) -> str:
    """Return `cold log 2.0x faster, at most 5.0 % slower (sure but small; of 4 cases 3 faster, 1 slower)`.

    A single case needs no numbers in brackets.
    """
    parts = []
    if effect.gains:
        parts.append(effect.wins)
    if effect.regrets:
        parts.append(effect.losses)
    text = ", ".join(parts)
    if effect.counts.total() == 1:
        return text
    # Two brackets in a row become one.
    if text.endswith(")"):
        return f"{text.removesuffix(')')}; {effect.outcomes})"
    return f"{text} ({effect.outcomes})"


def _choice_that_depends(
    axis: str, value: str, cases: Sequence[Case], effect: Effect, settings: AnswerSettings
) -> str:
    """Return the text of an answer that depends: the rule by kind of case, and the value for all cases.

    A reader of the rule can choose a value for each kind of case. `value` is for readers who cannot. The text
    has no rule if there is none, or if it would be too long (_rule_text).

    Example: `f7 for cold log, f6 for export; f7 if you must choose one: at most 1.3x slower, up to 1.9x
    faster. Decided: 2 of 3 cases`
    """
    label = labels.value_label(axis, value)
    most = labels.factor(effect.most)
    single_choice = f"{label} if you must choose one: {effect.losses}, up to {most} faster"
    rule = find_rule(cases, value, settings.reference, Limits(settings.min_effect_pct))
    # The text of the single choice only counts towards MAX_WORDS there.
    rule_text = _rule_text(axis, value, rule, single_choice)
    text = f"{rule_text}; {single_choice}" if rule_text else single_choice
    # A case that does not decide the reader's current value shows nothing about a change from it. Without a
    # current value (""), any decided case counts.
    decided = [case for case in cases if case.decides(settings.current)]
    if len(decided) < len(cases):
        text += f". Decided: {len(decided)} of {len(cases)} cases"
    return text


def _rule_text(axis: str, value: str, rule: Rule, later_text: str) -> str:
    """Return the text of a rule: `f7 for cold log, f6 for export`.

    `rule` has the groups of cases by the value to choose in them. `value` is the choice for all cases. If the
    sentence has more than MAX_WORDS words, the text names only the exceptions from it: `f6 for export,
    otherwise f7`. The sentence ends with the `later_text`. Return "" without a rule, or if also the second
    text is too long.
    """
    if not rule:
        return ""
    parts = {}
    for choice, names in rule.items():
        label = labels.value_label(axis, choice)
        # `f7 over http and svn`, but `f7 for log`.
        if all(name.startswith("over ") for name in names):
            accesses = [name.removeprefix("over ") for name in names]
            parts[choice] = f"{label} over {enumeration(accesses)}"
        else:
            parts[choice] = f"{label} for {enumeration(names)}"
    whole = ", ".join(parts.values())
    exceptions = ", ".join(text for choice, text in parts.items() if choice != value)
    shorter = f"{exceptions}, otherwise {labels.value_label(axis, value)}"
    # Readers do not finish longer sentences.
    for text in (whole, shorter):
        if len(f"Choose {text} {later_text}".split()) <= MAX_WORDS:
            return text
    return ""


def is_benchmark(where: Where) -> bool:
    """Return True for a command of svnbench, which nobody runs at work."""
    return where.get(COMMAND_AXIS, "").startswith(BENCHMARK_ONLY)


def has_less_client_work(axis: str, where: Where) -> bool:
    """Return True if LESS_CLIENT_WORK holds for a comparison of values of `axis`."""
    return axis == ACCESS_AXIS and is_benchmark(where)


def pair_text(axis: str, pair: Pair, min_effect_pct: float, of_candidate: bool = False) -> str:
    """Return the outcome of a pair: `f6 1.3x faster`, or `equal`.

    The faster side is named. With `of_candidate` it is always the candidate: `f7 1.3x slower`, or
    `wide interval (f7 2.0 % slower)`. If start-up hides a part of the difference: `f6 at least 1.2x faster`.
    """
    candidate = labels.value_label(axis, pair.candidate)
    if pair.call not in DIFFERENCES:
        outcome = pair_outcome(pair)
        return f"{outcome} ({candidate} {labels.change(pair.ratio)})" if of_candidate else outcome
    note = labels.slight([pair.ratio], min_effect_pct)
    ratio, at_least = pair.ratio, ""
    # Start-up takes the same time on both sides, so the ratio without it is larger. The end of the interval
    # that is nearer to 1 is certain.
    if pair.is_at_least:
        ratio, at_least = pair.near_end, "at least "
    if of_candidate:
        return f"{candidate} {at_least}{labels.change(ratio)}{note}"
    winner = candidate if pair.ratio >= 1 else labels.value_label(axis, pair.baseline)
    return f"{winner} {at_least}{labels.factor(labels.at_least_1(ratio))} faster{note}"


def pair_outcome(pair: Pair) -> str:
    """Return the outcome of a pair without a difference, with the largest possible difference if it is known.

    Examples: `at most 8.0 % apart` (bounded), `undecided: at most 1.3x apart`, `equal`.
    """
    # `within` is the largest possible factor between both times, 0 if it is unknown.
    if pair.result in (Result.BOUNDED, Result.UNDECIDED) and pair.within > 1:
        bound = f"at most {labels.factor(pair.within)} apart"
        return bound if pair.result == Result.BOUNDED else f"undecided: {bound}"
    return undecided_text(pair)

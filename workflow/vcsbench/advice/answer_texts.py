"""The texts of answers: what to choose, by how much it is faster, and where it is slower."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vcsbench.advice import decision, labels
from vcsbench.advice.decision import Case, Pair, Where
from vcsbench.advice.labels import CardQuestion
from vcsbench.advice.rules import find_rule
from vcsbench.codes import AnswerKind, Result
from vcsbench.statistics import texts
from vcsbench.statistics.comparisons import DIFFERENCES, Limits
from vcsbench.words import enumeration

BENCHMARK_ONLY = "null-"
ACCESS = "ra"
LESS_WORK = "over svn, its client does less work"
MAX_WORDS = 25
# In the counts of an answer: its value against the best other one.
FASTER, SLOWER = "faster", "slower"
NO_DECISION = {
    AnswerKind.NOT_MEASURED: "No case of this question has a result.",
    AnswerKind.NOT_COMPARED: "Its cells were measured, but cannot be compared.",
}


@dataclass(frozen=True)
class Answer:
    """An answer: its kind, one or two words, a sentence, and a short effect for the terminal.

    `value` is "" without a decision.
    """

    kind: AnswerKind = AnswerKind.NOT_MEASURED
    value: str = ""
    short: str = ""
    sentence: str = ""
    effect: str = ""


NO_ANSWER = Answer()


def in_cases(number: int, total: int) -> str:
    """Return ` in 2 of 3 cases`, "" for the only case."""
    return f" in {number} of {total} cases" if total > 1 else ""


def answer_without_choice(
    kind: AnswerKind, value: str, cases: Sequence[Case], current: str, min_effect_pct: float
) -> Answer:
    """Return the answer if there is nothing to choose: equal, undecided, or without a result."""
    short = str(kind)
    if kind in NO_DECISION:
        sentence = NO_DECISION[kind]
        effect = sentence.rstrip(".")
        return Answer(kind, "", short, sentence, effect[0].lower() + effect[1:])
    if kind == AnswerKind.EQUAL:
        number = sum(case.decides(current) for case in cases)
        text = f"within {min_effect_pct:g} %{in_cases(number, len(cases))}"
    else:
        reasons: Counter[str] = Counter()
        for case in cases:
            pair = next(p for p in case.pairs if current in ("", p.baseline, p.candidate))
            reasons[undecided_text(pair)] += 1
        reason, number = reasons.most_common(1)[0]
        text = reason + in_cases(number, len(cases))
    return Answer(kind, value, short, f"{text[0].upper()}{text[1:]}.", text)


def undecided_text(pair: Pair) -> str:
    """Return why a pair is not decided, or the outcome of a decided one."""
    if pair.result == Result.UNDECIDED and pair.why_undecided:
        return texts.UNDECIDED[pair.why_undecided]
    return texts.RESULTS[pair.result]


def answer_with_choice(
    question: CardQuestion,
    kind: AnswerKind,
    value: str,
    cases: Sequence[Case],
    reference: str,
    current: str,
    min_effect_pct: float,
    has_workload: bool,
) -> Answer:
    """Return the answer that recommends a value, for a reader who has the value `current` ("" if unknown)."""
    axis = question.axis
    against = current if current and current != value else reference
    effect = Effect.of(value, cases, against, min_effect_pct)
    if current and not effect.gains:
        # Of equal values the reader keeps the current one.
        value, effect = current, Effect.of(current, cases, reference, min_effect_pct)
    label = labels.value_label(axis, value)
    if kind == AnswerKind.DEPENDS:
        decided = [case for case in cases if case.decides(current)]
        most = labels.factor(effect.most)
        single = f"{label} if you must choose one: {effect.losses}, up to {most} faster"
        rule = find_rule(decided, value, reference, Limits(min_effect_pct))
        rule_text = _rule_text(axis, value, rule, single)
        text = f"{rule_text}; {single}" if rule_text else single
        if len(decided) < len(cases):
            text += f". Decided: {len(decided)} of {len(cases)} cases"
        return Answer(kind, value, str(kind), f"Choose {text}.", text)
    short = label
    if question.yes_value:
        short = "yes" if value == question.yes_value else "no"
    parts = [effect.wins]
    if effect.regrets:
        parts.append(effect.losses)
    text = ", ".join(filter(None, parts))
    if len(cases) > 1:
        # Two brackets in a row become one.
        head, note = (text[:-1], "; ") if text.endswith(")") else (text, " (")
        text = f"{head}{note}{effect.outcomes})"
    sentence = f"{'For your workload choose' if has_workload else 'Choose'} {label}: {text}."
    if current == value:
        sentence = f"You have {label}: keep it if you change only this."
    return Answer(kind, value, short, sentence, text)


@dataclass(frozen=True)
class Effect:
    """The factors by which a value is faster (`gains`) and slower (`regrets`), by group of cases, and the
    number of cases of each result (`counts`).

    A gain is against the reference, or against the slowest value if this is the reference. A regret is
    against the best value. A case without a gain is `slower` with a regret, `undecided` without the other
    value. The group with the largest factor comes first, of commands that people run if there are any.
    """

    gains: Mapping[str, Sequence[float]]
    regrets: Mapping[str, Sequence[float]]
    counts: Counter[str]
    min_effect_pct: float

    @classmethod
    def of(cls, value: str, cases: Sequence[Case], against: str, min_effect_pct: float) -> Effect:
        gains: dict[str, list[float]] = {}
        regrets: dict[str, list[float]] = {}
        counts: Counter[str] = Counter()
        for case in cases:
            costs, group = case.costs, labels.group_label(case.where)
            result = str(case_result(case))
            if value in costs:
                others = [cost for other, cost in costs.items() if other != value]
                other = costs.get(against) if against != value else max(others, default=None)
                if costs[value] > 1 + decision.SAME:
                    regrets.setdefault(group, []).append(costs[value])
                if other and other > costs[value] * (1 + decision.SAME):
                    gains.setdefault(group, []).append(other / costs[value])
                    result = FASTER
                elif costs[value] > 1 + decision.SAME:
                    result = SLOWER
                elif other:
                    result = str(Result.EQUAL)
            elif case.is_decided:
                result = str(AnswerKind.NOT_COMPARED)
            counts[result] += 1

        def rank(group: tuple[str, list[float]]) -> tuple[bool, float]:
            return BENCHMARK_ONLY in group[0], -max(group[1])

        first, second = (dict(sorted(of.items(), key=rank)) for of in (gains, regrets))
        return cls(first, second, counts, min_effect_pct)

    @property
    def most(self) -> float:
        return max(next(iter(self.gains.values()), [1.0]))

    @property
    def wins(self) -> str:
        """Return `cold log 2.4x to 6.9x faster`, or `cold log 2.4x, others 1.2x to 1.9x faster`."""
        if not self.gains:
            return ""
        (group, gains), *rest = self.gains.items()
        others = [gain for _, of in rest for gain in of]
        text = f"{group} {labels.factors(gains)}".strip()
        if rest and labels.factors(others) == labels.factors(gains):
            text = labels.factors(gains)
        elif rest:
            text += f", {rest[0][0] if len(rest) == 1 else 'others'} {labels.factors(others)}"
        return f"{text} faster{labels.slight(others or gains, self.min_effect_pct)}"

    @property
    def losses(self) -> str:
        """Return `cold log 7 to 12 % slower` if all losses are in one group, or `at most 12 % slower`."""
        if not self.regrets:
            return "slower in no case measured"
        all_ = [regret for of in self.regrets.values() for regret in of]
        (group, *rest), note = self.regrets, labels.slight(all_, self.min_effect_pct)
        if group and not rest:
            return f"{group} {labels.factors(all_)} slower{note}"
        return f"at most {labels.factor(max(all_))} slower{note}"

    @property
    def outcomes(self) -> str:
        """Return `of 24 cases 17 faster, 0 slower, 3 undecided`."""
        shown = [f"{self.counts[name]} {name}" for name in (FASTER, SLOWER)]
        others = (Result.EQUAL, Result.BOUNDED, Result.TOO_SMALL, Result.UNDECIDED)
        for result in others:
            if self.counts[result]:
                shown.append(f"{self.counts[result]} {texts.RESULTS[result]}")
        not_compared = self.counts[AnswerKind.NOT_COMPARED]
        if not_compared:
            shown.append(f"{not_compared} {AnswerKind.NOT_COMPARED}")
        return f"of {self.counts.total()} cases {', '.join(shown)}"


def case_result(case: Case) -> Result:
    """Return the result of a case without a decision about a value."""
    if case.is_small:
        return Result.TOO_SMALL
    is_bounded = any(pair.result == Result.BOUNDED for pair in case.pairs)
    return Result.BOUNDED if is_bounded else Result.UNDECIDED


def is_benchmark(where: Where) -> bool:
    """Return True for a command of svnbench, which nobody runs at work."""
    return where.get("command", "").startswith(BENCHMARK_ONLY)


def has_less_work(axis: str, where: Where) -> bool:
    """Return True if LESS_WORK holds for a comparison of values of `axis`."""
    return axis == ACCESS and is_benchmark(where)


def _rule_text(axis: str, value: str, rule: Mapping[str, Sequence[str]], rest: str) -> str:
    """Return `f7 for cold log, f6 for export`, shorter if the sentence with `rest` is too long."""
    if not rule:
        return ""
    parts = {}
    for choice, names in rule.items():
        is_access = all(name.startswith("over ") for name in names)
        before = "over " if is_access else "for "
        groups = enumeration([name.removeprefix("over ") if is_access else name for name in names])
        parts[choice] = f"{labels.value_label(axis, choice)} {before}{groups}"
    whole = ", ".join(parts.values())
    others = ", ".join(text for choice, text in parts.items() if choice != value)
    shorter = f"{others}, otherwise {labels.value_label(axis, value)}"
    for text in (whole, shorter):
        if len(f"Choose {text} {rest}".split()) <= MAX_WORDS:
            return text
    return ""


def pair_text(axis: str, pair: Pair, min_effect_pct: float, of_candidate: bool = False) -> str:
    """Return `f6 1.3x faster`, or with `of_candidate` always the candidate: `f7 1.3x slower`."""
    note = labels.slight([pair.ratio], min_effect_pct)
    is_called = pair.call in DIFFERENCES
    if not is_called:
        outcome = pair_outcome(pair)
        if not of_candidate:
            return outcome
        return f"{outcome} ({labels.value_label(axis, pair.candidate)} {labels.change(pair.ratio)})"
    at_least = "at least " if pair.is_at_least else ""
    ratio = pair.near_end if pair.is_at_least else pair.ratio
    if of_candidate:
        change = labels.change(ratio)
        return f"{labels.value_label(axis, pair.candidate)} {at_least}{change}{note}"
    won = pair.candidate if pair.ratio >= 1 else pair.baseline
    factor = labels.factor(labels.at_least_1(ratio))
    return f"{labels.value_label(axis, won)} {at_least}{factor} faster{note}"


def pair_outcome(pair: Pair) -> str:
    """Return the outcome of a pair without a difference, with its bound: `at most 13 % apart`."""
    if pair.result in (Result.BOUNDED, Result.UNDECIDED) and pair.within > 1:
        bound = f"at most {labels.factor(pair.within)} apart"
        return bound if pair.result == Result.BOUNDED else f"undecided: {bound}"
    return undecided_text(pair)

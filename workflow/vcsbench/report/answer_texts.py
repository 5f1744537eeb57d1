"""The texts of answers: what to choose, by how much it is faster, and where it is slower."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vcsbench.advice import labels
from vcsbench.advice.answers import (
    AnswerBasis,
    Recommendation,
    compared_in_case,
    recommend_value,
    shows_no_difference,
)
from vcsbench.advice.cards import LessWork
from vcsbench.advice.case_groups import CaseGroup, group_of_case
from vcsbench.advice.decision import ROUNDING, Case, Pair
from vcsbench.advice.effects import (
    CombinedEffect,
    collect_losses,
    combine_effects,
    effect_in_case,
)
from vcsbench.advice.rules import Rule, find_rule
from vcsbench.axis_names import ACCESS_AXIS
from vcsbench.codes import AnswerKind, Call, Result, WhyUndecided
from vcsbench.metrics import DEFAULT_METRIC, METRICS
from vcsbench.statistics import texts
from vcsbench.statistics.comparisons import Limits
from vcsbench.words import enumeration

# Why comparisons of svnbench's commands between accesses do not count (effects.has_less_client_work).
LESS_CLIENT_WORK = "over svn, the client does less work"
# Names that begin with a small letter, also at the beginning of a sentence.
LOWER_CASE_NAMES = ("http", "svn", "git")
# What a value is compared with if readers may have it already.
SLOWEST = "the slowest other"
SLOWEST_OR_FASTEST = "the slowest other (where it is slower: the fastest)"
NO_DIFFERENCE = "no difference is shown"
# Readers do not finish longer sentences.
MAX_WORDS = 25
# The outcomes of cases in the order in which texts count them.
COUNTED_CALLS = (
    Call.FASTER,
    Call.SLOWER,
    Call.EQUAL,
    Call.BOUNDED,
    Call.TOO_SMALL,
    Call.UNDECIDED,
    Call.NOT_COMPARED,
)
# The answers of questions without a comparison.
NO_DECISION = {
    AnswerKind.NOT_MEASURED: "no case of this question has a result",
    AnswerKind.NOT_COMPARED: "its cells were measured, but cannot be compared",
}


class Comparative(NamedTuple):
    """The words for a value that is better or worse than another one: faster and slower, or less and more."""

    better: str
    worse: str


OF_TIMES = Comparative("faster", "slower")
OF_AMOUNTS = Comparative("less", "more")


class EffectClause(NamedTuple):
    """The gains or the losses of a value in words, such as `cold log 1.06x faster`.

    `is_slight` is True if all of these factors are certain, and below the smallest effect.
    """

    text: str
    is_slight: bool = False

    def with_notes(self, *notes: str) -> str:
        """Return the text with its notes in one pair of brackets: `... (sure but small; of 4 cases ...)`."""
        all_notes = [labels.SLIGHT, *notes] if self.is_slight else notes
        return f"{self.text} ({'; '.join(all_notes)})" if all_notes else self.text


@dataclass(frozen=True)
class AnswerText:
    """The texts of an answer: its short form (mostly one word), a sentence, and an effect for the terminal.

    Example: short `f7`, sentence `Choose f7: cold log 2.0x faster.`, effect `cold log 2.0x faster`. `against`
    names what the value is compared with, "" without a gain.
    """

    short: str
    sentence: str
    effect: str
    against: str = ""


def _sentence(text: str) -> str:
    """Return a text as a sentence. capitalize() would change the letters after the first one, too."""
    if text.startswith(LOWER_CASE_NAMES):
        return f"{text}."
    return f"{text[0].upper()}{text[1:]}."


def in_cases(number: int, total: int) -> str:
    """Return ` in 2 of 3 cases`, "" for the only case."""
    return f" in {number} of {total} cases" if total > 1 else ""


def describe_answer(basis: AnswerBasis) -> AnswerText:
    """Return the texts of the answer for the reader of the basis (answers.make_answer)."""
    if basis.kind not in (AnswerKind.VALUE, AnswerKind.DEPENDS):
        return _text_without_choice(basis)
    if basis.question.is_cost:
        return _text_of_cost(basis)
    return _text_with_choice(basis)


def _label(value: str, basis: AnswerBasis) -> str:
    return labels.value_label(basis.question.axis, value)


def comparative_of(metric: str) -> Comparative:
    """Return the words of comparisons by a metric: `faster` for the elapsed time, `less` for any other."""
    return OF_TIMES if metric == DEFAULT_METRIC else OF_AMOUNTS


def describe_less_work(less: LessWork) -> str:
    """Return `packed: 2.4x to 3.0x fewer reads than not packed in 4 of 6 cases.`"""
    value = labels.value_label(less.axis, less.value)
    other = labels.value_label(less.axis, less.other)
    quantity = METRICS[less.metric].quantity
    share = in_cases(len(less.factors), less.cases)
    return f"{value}: {labels.range_of_factors(less.factors)} fewer {quantity} than {other}{share}."


def _text_without_choice(basis: AnswerBasis) -> AnswerText:
    """Return the texts of an answer that chooses no value: equal, undecided, or without a result.

    Examples of sentences: `Within 10 % in 3 of 4 cases.` (EQUAL), and `Wide interval in 2 of 3 cases.`
    (UNDECIDED).
    """
    kind, cases = basis.kind, basis.cases
    short = str(kind)
    if kind in NO_DECISION:
        text = NO_DECISION[kind]
    elif kind == AnswerKind.EQUAL:
        # A case counts if decided comparisons show how fast the reader's value is. If that value is unknown
        # (""), each case with a decided comparison counts.
        equal_cases = [case for case in cases if case.decides(basis.current)]
        text = f"within {basis.min_effect_pct:g} %{in_cases(len(equal_cases), len(cases))}"
    else:
        text = _most_frequent_outcome(cases, basis.current)
        # BOUNDED: a test shows that the difference is smaller than 1.5 margins. If all comparisons show that,
        # the short answer is `nearly equal` in place of `undecided`.
        if all(pair.result == Result.BOUNDED for case in cases for pair in case.pairs):
            short = texts.outcome_text(Result.BOUNDED)
    return AnswerText(short, sentence=_sentence(text), effect=text)


def _most_frequent_outcome(cases: Sequence[Case], current: str) -> str:
    """Return the most frequent outcome of undecided cases: `wide interval in 2 of 3 cases`.

    Each case counts with the outcome of its first comparison of the reader's value, `current`. If that value
    is unknown (""), it is the first comparison of all. There is at least one case, and each has such a pair.
    """
    outcomes: Counter[Result | WhyUndecided] = Counter()
    for case in cases:
        pair = next(pair for pair in case.pairs if pair.compares(current))
        outcomes[pair.outcome] += 1
    outcome, number = outcomes.most_common(1)[0]
    return texts.outcome_text(outcome) + in_cases(number, len(cases))


def _text_with_choice(basis: AnswerBasis) -> AnswerText:
    """Return the texts of an answer that recommends a value.

    The kind is VALUE (one value for all cases) or DEPENDS (other values are better for some kinds of cases).
    Examples of sentences: `Choose f7: cold log 2.0x faster (of 4 cases ...).`, `Choose f7 for cold log, f6
    for export; f7 if you must choose one: ...`, and for a reader who has f7 `You have f7: keep it if you
    change only this.`
    """
    if shows_no_difference(basis):
        counts = _text_without_effect(basis)
        return AnswerText(NO_DIFFERENCE, _sentence(f"{NO_DIFFERENCE}: {counts}"), effect=counts)
    recommendation = recommend_value(basis)
    chosen, against, effect = recommendation
    compared = _name_compared(recommendation, basis)
    if basis.kind == AnswerKind.DEPENDS:
        text = _choice_that_depends(chosen, effect, basis)
        return AnswerText(str(basis.kind), f"Choose {text}.", effect=text, against=compared)
    if against == basis.reference:
        # Some cases may lack the reference. So they have clauses of their own.
        text = _text_over_reference(chosen, basis)
    else:
        text = _effect_text(effect, basis)
    sentence = _sentence_of_choice(chosen, text, basis)
    return AnswerText(_short_choice(chosen, basis), sentence, effect=text, against=compared)


def _name_compared(recommendation: Recommendation, basis: AnswerBasis) -> str:
    """Return what a recommended value is compared with: `f6`, or `the slowest other`."""
    value, against, effect = recommendation
    if against != value:
        return _label(against, basis)
    # The reference itself is recommended. So the effect compares it with the other values.
    other_values = _other_values(value, basis.cases)
    if len(other_values) != 1:
        return _slowest_or_fastest(effect)
    return _label(other_values.pop(), basis)


def _short_choice(value: str, basis: AnswerBasis) -> str:
    """Return the short form of an answer that recommends a value: `f7`; `yes` to `Pack the repository?`."""
    if basis.question.yes_value:
        return "yes" if value == basis.question.yes_value else "no"
    return _label(value, basis)


def _sentence_of_choice(value: str, effect_text: str, basis: AnswerBasis) -> str:
    """Return the sentence of an answer that recommends a value: `Choose f7: cold log 2.0x faster.`"""
    label = _label(value, basis)
    if value == basis.current:
        return f"You have {label}: keep it if you change only this."
    if basis.has_workload:
        return f"For your workload choose {label}: {effect_text}."
    return f"Choose {label}: {effect_text}."


def _text_without_effect(basis: AnswerBasis) -> str:
    """Return the numbers of cases by effect, of a value without a gain or a loss in any of them.

    Example: `of 4 cases 1 equal, 3 undecided`.
    """
    counts: Counter[Call] = Counter()
    for case in basis.cases:
        compared = compared_in_case(basis.value, case, basis.reference)
        counts[effect_in_case(basis.value, case, compared).effect] += 1
    # No effect is named whose number of cases is 0.
    return _counts_text(counts, basis, always=())


def _text_over_reference(value: str, basis: AnswerBasis) -> str:
    """Return the effect of `value` in words: a clause for each value that it is compared with.

    Example: `clone 2.5x faster; against one pack: log 8.6x faster`. A clause without `against` is over
    the reference, the value that most readers have, such as many packs. Some cases lack the reference. They
    compare `value` with their own baseline, here one pack (compared_in_case).
    """
    # The reference comes first, and has no cases if all cases lack it.
    cases_by_compared: dict[str, list[Case]] = {basis.reference: []}
    for case in basis.cases:
        compared = compared_in_case(value, case, basis.reference)
        cases_by_compared.setdefault(compared, []).append(case)
    # Clauses with gains come before all others.
    clauses_with_gains = []
    other_clauses = []
    for compared, cases_of_compared in cases_by_compared.items():
        if not cases_of_compared:
            continue
        effect = combine_effects(value, cases_of_compared, compared)
        clause = _clause_against(compared, value, effect, basis)
        if effect.gains:
            clauses_with_gains.append(clause)
        else:
            other_clauses.append(clause)
    return "; ".join(clauses_with_gains + other_clauses)


def _clause_against(compared: str, value: str, effect: CombinedEffect, basis: AnswerBasis) -> str:
    """Return the effect of `value` over `compared`: `against one pack: log 8.6x faster`.

    The reference is not named, because the whole text is for a reader who has the reference.
    """
    text = _effect_text(effect, basis)
    if compared == basis.reference:
        return text
    # `value` can be the baseline itself. Then its effect is over the slowest or the fastest other value.
    other = _slowest_or_fastest(effect) if value == compared else _label(compared, basis)
    return f"against {other}: {text}"


def _other_values(value: str, cases: Sequence[Case]) -> set[str]:
    return {other for case in cases for other in case.times if other != value}


def _slowest_or_fastest(effect: CombinedEffect) -> str:
    """Return what the effect of a value against itself is compared with: losses are against the fastest."""
    return SLOWEST_OR_FASTEST if effect.losses else SLOWEST


def _text_of_cost(basis: AnswerBasis) -> AnswerText:
    """Return the texts of an answer that recommends no value: the cost of each value against the reference.

    Example: the sentence `https: warm export 1.3x slower, warm log equal.`, and in short `up to 1.3x slower`.
    A case counts if decided comparisons show how fast the reference is, such as http. The caller guarantees
    one such case, because the text would be empty otherwise.
    """
    cases, reference = basis.cases, basis.reference
    margin = 1 + basis.min_effect_pct / 100
    clauses = []
    # The reference itself has the factor 1.
    all_factors = [1.0]
    for value, groups in _cost_factors(cases, reference).items():
        parts = []
        for group, case_factors in groups.items():
            name = labels.group_label(group)
            parts.append(f"{name} {_cost_text(case_factors, margin)}".strip())
            all_factors += [factor for _, factor in case_factors]
        clauses.append(f"{_label(value, basis)}: {', '.join(parts)}")
    largest = max(all_factors)
    # A factor that differs from 1 by rounding only is no cost.
    short = f"up to {labels.factor(largest)} slower" if largest > 1 + ROUNDING else "no cost"
    costs = "; ".join(clauses) + _uncertainty_note(cases, reference)
    return AnswerText(
        short,
        # A page prints the costs as a sentence, and the terminal in a cell of a table.
        sentence=_sentence(costs),
        effect=costs,
        against=_label(reference, basis),
    )


def _uncertainty_note(cases: Sequence[Case], reference: str) -> str:
    """Return ` (of 12 comparisons 3 show no certain difference)`, "" if all comparisons are decided.

    Only comparisons of the reference count.
    """
    # A noise check compares equal builds, so it is no comparison of a cost.
    compared = []
    for case in cases:
        for pair in case.pairs:
            if pair.compares(reference) and not pair.is_noise_check:
                compared.append(pair)
    uncertain = [pair for pair in compared if not pair.is_decided]
    if not uncertain:
        return ""
    verb = "shows" if len(uncertain) == 1 else "show"
    return f" (of {len(compared)} comparisons {len(uncertain)} {verb} no certain difference)"


def _cost_factors(
    cases: Sequence[Case], reference: str
) -> dict[str, dict[CaseGroup, list[labels.CaseFactor]]]:
    """Return how many times as long as the reference each other value takes, by value and kind of case.

    Example: {"https": {warm export: [({"format": "f7", ...}, 1.3)], warm log: [...]}}. Each factor has the
    values of its case. A case without a decided comparison of the reference is left out.
    """
    factors: dict[str, dict[CaseGroup, list[labels.CaseFactor]]]
    factors = defaultdict(lambda: defaultdict(list))
    for case in cases:
        if reference not in case.losses:
            continue
        for value, loss in case.losses.items():
            if value != reference:
                # A loss is a time divided by the best time of the case.
                factor = loss / case.losses[reference]
                factors[value][group_of_case(case.where)].append((case.where, factor))
    return factors


def _cost_text(case_factors: Sequence[labels.CaseFactor], margin: float) -> str:
    """Return the times of a value against the reference: `1.2x to 1.3x slower`, `equal`, `1.1x faster`.

    `case_factors` has each case with the time of the value as a multiple of the reference's time:
    [({"access_rules": "0"}, 2.0), ({"access_rules": "10"}, 9.0)]. Here, the values of an axis have factors
    that are far apart. So each of them gets its own range: `(no access rules 2.0x, 10 access rules 9.0x)
    slower`. Far apart are ranges with a factor of `margin` squared or more between them.
    """
    # A case whose factor is 1, apart from rounding, is equal.
    slower = [(where, factor) for where, factor in case_factors if factor > 1 + ROUNDING]
    # 0.5 times the time is 2 times as fast.
    faster = [(where, 1 / factor) for where, factor in case_factors if factor < 1 - ROUNDING]
    parts = []
    for different, word in ((slower, "slower"), (faster, "faster")):
        if different:
            ranges = labels.explained_ranges(different, margin)
            text = f"({', '.join(ranges)})" if len(ranges) > 1 else ranges[0]
            text += f" {word}"
            if len(different) < len(case_factors):
                text += f" in {len(different)} of {len(case_factors)}"
            parts.append(text)
    return " and ".join(parts) or "equal"


def _effect_text(effect: CombinedEffect, basis: AnswerBasis) -> str:
    """Return an effect in words: `cold log 2.0x faster, export 1.3x slower (of 4 cases 3 faster, 1 slower)`.

    A single case needs no numbers of cases in brackets. Without a gain, and without a loss of the margin or
    more, return the numbers alone: `of 4 cases 0 faster, 0 slower, 4 undecided`.
    """
    margin = 1 + basis.min_effect_pct / 100
    # Gains below the margin are named only if there are no larger ones. Losses below it are only counted.
    gains = _from_margin(effect.gains, margin) or effect.gains
    losses = _from_margin(effect.losses, margin)
    clauses = []
    if gains:
        clauses.append(_gains_clause(gains, basis))
    if losses:
        clauses.append(_losses_clause(losses, basis))
    counts_text = _counts_text(effect.counts, basis)
    if not clauses:
        return counts_text
    *first_clauses, last_clause = clauses
    parts = [clause.with_notes() for clause in first_clauses]
    notes = [counts_text] if effect.counts.total() > 1 else []
    parts.append(last_clause.with_notes(*notes))
    return ", ".join(parts)


def _from_margin(
    factors: Mapping[CaseGroup, Sequence[float]], margin: float
) -> dict[CaseGroup, list[float]]:
    """Return only the factors from the margin on, by group. A group without such a factor is left out."""
    large = {}
    for group, factors_of_group in factors.items():
        large_factors = [factor for factor in factors_of_group if factor >= margin]
        if large_factors:
            large[group] = large_factors
    return large


def _gains_clause(gains: Mapping[CaseGroup, Sequence[float]], basis: AnswerBasis) -> EffectClause:
    """Return `cold log 2.4x faster`, or `cold log 2.4x, others 1.2x to 1.9x faster` for several groups.

    `gains` has at least one group, the most important one first: {cold log: [2.4], export: [1.2], update:
    [1.9]}. The clause is slight if all gains of the last range are below `basis.min_effect_pct`.
    """
    better = comparative_of(basis.metric).better
    min_effect_pct = basis.min_effect_pct
    first_group, *other_groups = gains.keys()
    first_range = labels.range_of_factors(gains[first_group])
    # Cases without a command and a state of caches are in a group without a name.
    first_text = f"{labels.group_label(first_group)} {first_range}".strip()
    if not other_groups:
        is_slight = labels.is_slight(gains[first_group], min_effect_pct)
        return EffectClause(f"{first_text} {better}", is_slight)
    other_gains = [gain for group in other_groups for gain in gains[group]]
    other_range = labels.range_of_factors(other_gains)
    is_slight = labels.is_slight(other_gains, min_effect_pct)
    # Groups with the same range need no names: `1.2x to 1.9x faster`.
    if other_range == first_range:
        return EffectClause(f"{first_range} {better}", is_slight)
    other_name = labels.group_label(other_groups[0]) if len(other_groups) == 1 else "others"
    return EffectClause(f"{first_text}, {other_name} {other_range} {better}", is_slight)


def _losses_clause(
    losses: Mapping[CaseGroup, Sequence[float]], basis: AnswerBasis, than: str = ""
) -> EffectClause:
    """Return `cold log 1.2x to 1.5x slower`, or `at most 1.5x slower` for losses in several groups.

    `than` follows the word `slower`, such as ` than the best`. The clause is slight if all losses are below
    `basis.min_effect_pct`. Return `slower in no case measured` without a loss.
    """
    worse = comparative_of(basis.metric).worse
    if not losses:
        return EffectClause(f"{worse} in no case measured")
    factors = [loss for losses_of_group in losses.values() for loss in losses_of_group]
    is_slight = labels.is_slight(factors, basis.min_effect_pct)
    group, *other_groups = losses.keys()
    name = labels.group_label(group)
    if name and not other_groups:
        text = f"{name} {labels.range_of_factors(factors)} {worse}{than}"
    else:
        text = f"at most {labels.factor(max(factors))} {worse}{than}"
    return EffectClause(text, is_slight)


def _counts_text(
    counts: Counter[Call],
    basis: AnswerBasis,
    always: Sequence[Call] = (Call.FASTER, Call.SLOWER),
) -> str:
    """Return the numbers of cases by effect: `of 24 cases 17 faster, 0 slower, 7 undecided`.

    The effects `always` are named even if their number is 0, because a reader looks for them.
    """
    names = {effect: texts.outcome_text(effect) for effect in COUNTED_CALLS}
    names[Call.FASTER], names[Call.SLOWER] = comparative_of(basis.metric)
    parts = []
    for effect, name in names.items():
        if counts[effect] or effect in always:
            parts.append(f"{counts[effect]} {name}")
    return f"of {counts.total()} cases {', '.join(parts)}"


def _choice_that_depends(value: str, effect: CombinedEffect, basis: AnswerBasis) -> str:
    """Return the text of an answer that depends: the rule by kind of case, and one value for all cases.

    Example: `f7 for cold log, f6 for export; f7 if you must choose one: export 1.3x slower, up to 1.9x
    faster. Decided: 2 of 3 cases`. The part before the semicolon is `rule_text`, which is left out if it
    would be too long. The next part is `single_choice`: what a reader loses and gains with `value`, here f7,
    in all cases. Its losses are against the best value of each case, and its gains are those in `effect`.
    """
    cases = basis.cases
    # With two values, a loss can only be against the other one, so ` than the best` is left out.
    than = " than the best" if len(_other_values(value, cases)) > 1 else ""
    losses = _losses_clause(collect_losses(value, cases), basis, than).with_notes()
    single_choice = f"{_label(value, basis)} if you must choose one: {losses}"
    all_gains = [gain for gains in effect.gains.values() for gain in gains]
    if all_gains:
        single_choice += (
            f", up to {labels.factor(max(all_gains))} {comparative_of(basis.metric).better}"
        )
    rule = find_rule(cases, value, basis.reference, Limits(basis.min_effect_pct))
    rule_text = _rule_text(rule, value, basis, later_text=single_choice)
    text = f"{rule_text}; {single_choice}" if rule_text else single_choice
    # A case decides a value if its decided comparisons show how fast the value is. Other cases do not show
    # the effect of a change from the reader's value. If that is unknown (""), each decided case counts.
    decided = [case for case in cases if case.decides(basis.current)]
    if len(decided) < len(cases):
        text += f". Decided: {len(decided)} of {len(cases)} cases"
    return text


def _rule_text(rule: Rule, best: str, basis: AnswerBasis, later_text: str) -> str:
    """Return the text of a rule: `f7 for cold log, f6 for export`, or `f6 for export, otherwise f7`.

    `best` is the value for all cases, here f7. The second text is shorter if `best` has many groups of cases.
    Return the first of the two texts that has at most MAX_WORDS words together with `later_text`, which
    follows in the same sentence. Return "" if both texts are too long, or without a rule.
    """
    if not rule:
        return ""
    text_by_value = {}
    for value, groups in rule.items():
        label = _label(value, basis)
        # Groups by access share the word `over`: `f7 over http and svn`.
        if all(group.axis == ACCESS_AXIS for group in groups):
            accesses = [group.value for group in groups]
            text_by_value[value] = f"{label} over {enumeration(accesses)}"
        else:
            names = [labels.group_label(group) for group in groups]
            text_by_value[value] = f"{label} for {enumeration(names)}"
    exceptions = [text for value, text in text_by_value.items() if value != best]
    complete = ", ".join(text_by_value.values())
    shorter = f"{', '.join(exceptions)}, otherwise {_label(best, basis)}"
    for text in (complete, shorter):
        if len(f"Choose {text} {later_text}".split()) <= MAX_WORDS:
            return text
    return ""


def describe_pair_difference(pair: Pair, min_effect_pct: float) -> str:
    """Return the difference of a pair for its candidate: `1.3x slower`, or `at least 1.2x slower`.

    The text is `at least` if start-up hides a part of the difference. A difference below `min_effect_pct` has
    the note `(sure but small)`.
    """
    note = labels.slight_note([pair.ratio], min_effect_pct)
    if pair.is_at_least:
        # Only the end of the interval nearer to 1 is certain.
        return f"at least {labels.change(pair.near_end)}{note}"
    return f"{labels.change(pair.ratio)}{note}"


def pair_outcome(pair: Pair) -> str:
    """Return the outcome of a pair without a difference, with the far end of its interval if it is known.

    Examples: `nearly equal: at most 8.0 % apart`, `undecided: at most 1.3x apart`, `equal`.
    """
    is_open = pair.result in (Result.BOUNDED, Result.UNDECIDED)
    # A reader sees the interval in the same row. So the text does not have the bound `within`, by which
    # answers are decided: it is from a one-sided test, and nearer to 1.
    if is_open and pair.has_interval:
        return f"{texts.outcome_text(pair.result)}: at most {labels.factor(pair.far_end)} apart"
    return texts.outcome_text(pair.outcome)

"""The texts of answers: what to choose, by how much it is faster, and where it is slower."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vcsbench.advice import labels
from vcsbench.advice.decision import ROUNDING, Case, Pair
from vcsbench.advice.effects import (
    ChangeEffect,
    CombinedEffect,
    collect_losses,
    combine_effects,
    effect_in_case,
)
from vcsbench.advice.questions import CardQuestion
from vcsbench.advice.rules import ACCESS_GROUP_PREFIX, Rule, find_rule
from vcsbench.codes import AnswerKind, Result
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


@dataclass(frozen=True)
class Answer:
    """An answer: its kind, its short form (mostly one word), a sentence, and an effect for the terminal.

    `value` is the value to choose, "" without a decision. Example: short `f7`, sentence `Choose f7: cold log
    2.0x faster.`, effect `cold log 2.0x faster`. `against` names what it is compared with, "" without a gain.
    """

    kind: AnswerKind = AnswerKind.NOT_MEASURED
    value: str = ""
    short: str = ""
    sentence: str = ""
    effect: str = ""
    against: str = ""


NO_ANSWER = Answer()


@dataclass(frozen=True)
class AnswerContext:
    """The facts on which an answer depends besides its cases.

    `reference` is the value that most readers have (Card.reference). Gains are over it, unless `current` is
    known: the value that the reader has, "" if it is unknown. `has_workload`: the cases are weighted by the
    user's workload. `comparative` has the words for the metric that is compared.
    """

    question: CardQuestion
    reference: str
    current: str
    min_effect_pct: float
    has_workload: bool
    comparative: Comparative = OF_TIMES

    def label(self, value: str) -> str:
        return labels.value_label(self.question.axis, value)


def _sentence(text: str) -> str:
    """Return a text as a sentence. capitalize() would change the letters after the first one, too."""
    if text.startswith(LOWER_CASE_NAMES):
        return f"{text}."
    return f"{text[0].upper()}{text[1:]}."


def in_cases(number: int, total: int) -> str:
    """Return ` in 2 of 3 cases`, "" for the only case."""
    return f" in {number} of {total} cases" if total > 1 else ""


def answer_without_choice(
    kind: AnswerKind, value: str, cases: Sequence[Case], context: AnswerContext
) -> Answer:
    """Return the answer if no value can be chosen: equal, undecided, or without a result.

    A case has the comparisons (pairs) for one combination of the other axes, such as the cold log over http.
    It decides a value if a pair shows that this value differs from another one, or is equal to it. `value` is
    the value to keep, "" if nothing is decided. Examples of sentences: `Within 10 % in 3 of 4 cases.`, and
    `Wide interval in 2 of 3 cases.` for the most frequent reason of UNDECIDED.
    """
    short = str(kind)
    if kind in NO_DECISION:
        text = NO_DECISION[kind]
    elif kind == AnswerKind.EQUAL:
        # All values are equal in the cases that decide the reader's value. If this value is unknown (""), any
        # decided case counts. All other cases show nothing.
        equal_cases = [case for case in cases if case.decides(context.current)]
        text = f"within {context.min_effect_pct:g} %{in_cases(len(equal_cases), len(cases))}"
    else:
        # UNDECIDED: the most frequent reason of the cases. A case has the reason of its first pair with the
        # reader's value. The caller passes only cases with such a pair, and at least one case.
        reasons: Counter[str] = Counter()
        for case in cases:
            # compares("") is True: if the reader's value is unknown, the first of all pairs counts.
            pair = next(pair for pair in case.pairs if pair.compares(context.current))
            reasons[undecided_text(pair)] += 1
        reason, number = reasons.most_common(1)[0]
        text = reason + in_cases(number, len(cases))
        # If every difference is shown to be small, `undecided` would be too weak: `nearly equal`.
        if all(pair.result == Result.BOUNDED for case in cases for pair in case.pairs):
            short = texts.RESULTS[Result.BOUNDED]
    return Answer(kind, value, short, sentence=_sentence(text), effect=text)


def answer_with_choice(
    kind: AnswerKind, value: str, cases: Sequence[Case], context: AnswerContext
) -> Answer:
    """Return the answer that recommends `value`, or the reader's current value if `value` is never faster.

    `kind` is VALUE (one value for all cases) or DEPENDS (other values are better for some kinds of cases).
    Examples of sentences: `Choose f7: cold log 2.0x faster (of 4 cases ...).`, `Choose f7 for cold log, f6
    for export; f7 if you must choose one: ...`, and for a reader who has f7 `You have f7: keep it if you
    change only this.`

    The gain is over `context.current`, the reader's value, if a change from it is recommended. Otherwise it
    is over `context.reference`, the value that most readers have. In a case that does not compare the
    reference, the gain is over the baseline of the case (_text_over_reference).
    """
    # First the choice between `value` and the reader's value, which is "" if it is unknown.
    current = context.current
    is_change = current not in ("", value)
    chosen = value
    against = current if is_change else context.reference
    effect = combine_effects(chosen, cases, against)
    if is_change and not effect.gains:
        # `value` is faster than the reader's value in no case. So the reader's value is chosen.
        chosen = current
        against = context.reference
        effect = combine_effects(chosen, cases, against)
    # If `against` is `chosen` itself, combine_effects() compares it with the slowest or fastest other value.
    compared = context.label(against)
    if against == chosen:
        compared = _name_others(chosen, cases, effect, context)

    # The text of an answer that depends has a value for each kind of case, and `chosen` for all cases.
    if kind == AnswerKind.DEPENDS:
        text = _choice_that_depends(chosen, cases, effect, context)
        sentence = f"Choose {text}."
        return Answer(kind, chosen, str(kind), sentence, effect=text, against=compared)

    # Without a gain or a loss in any case, nothing shows that the choice matters. So no value is recommended
    # to a reader whose value is unknown. With a gain or a loss in some case, this text is "".
    text_without_effect = _text_without_effect(chosen, cases, context)
    if text_without_effect and not current:
        sentence = _sentence(f"{NO_DIFFERENCE}: {text_without_effect}")
        return Answer(kind, "", NO_DIFFERENCE, sentence, effect=text_without_effect)

    # The text of an answer with one value for all cases. Some cases may not compare the reference. For them,
    # _text_over_reference() adds a clause on the effect over their own baseline.
    if against == context.reference:
        text = _text_over_reference(chosen, cases, context)
    else:
        text = _effect_text(effect, context)
    label = context.label(chosen)
    if chosen == current:
        sentence = f"You have {label}: keep it if you change only this."
    elif context.has_workload:
        sentence = f"For your workload choose {label}: {text}."
    else:
        sentence = f"Choose {label}: {text}."
    if context.question.yes_value:
        # A question such as "Pack the repository?" has the answer yes or no.
        short = "yes" if chosen == context.question.yes_value else "no"
    else:
        short = label
    return Answer(kind, chosen, short, sentence, effect=text, against=compared)


def _compared_in_case(value: str, case: Case, reference: str) -> str:
    """Return the value with which `value` is compared in a case: the reference, or the case's baseline.

    `reference` is the value that most readers have, such as many packs. A case without a comparison of it has
    `value` compared with its baseline, such as one pack. A case without a comparison of `value` shows nothing
    about it, and counts as one of the reference.
    """
    has_baseline_only = case.compares(value) and not case.compares(reference)
    return case.baseline if has_baseline_only else reference


def _text_without_effect(value: str, cases: Sequence[Case], context: AnswerContext) -> str:
    """Return the numbers of cases by effect if `value` is faster or slower in none of them, otherwise "".

    Example: `of 4 cases 1 equal, 3 undecided`.
    """
    counts: Counter[ChangeEffect] = Counter()
    for case in cases:
        compared = _compared_in_case(value, case, context.reference)
        effect = effect_in_case(value, case, compared)
        if effect.gain is not None or effect.loss is not None:
            return ""
        counts[effect.effect] += 1
    # No effect is named whose number of cases is 0.
    return _counts_text(counts, context, always=())


def _text_over_reference(value: str, cases: Sequence[Case], context: AnswerContext) -> str:
    """Return the effect of choosing `value` for a reader who has the reference, such as many packs.

    Only some cases may compare the reference. The other cases have a clause on the effect over their
    baseline, such as one pack: `clone 2.5x faster; against one pack: log 8.6x faster`.
    """
    reference = context.reference
    # The cases by the value with which `value` is compared there. The reference is put in first, so that its
    # clause comes before the others. It may have no case.
    cases_by_compared: dict[str, list[Case]] = {reference: []}
    for case in cases:
        compared = _compared_in_case(value, case, reference)
        cases_by_compared.setdefault(compared, []).append(case)
    # Each clause with its effect.
    clauses: list[tuple[str, CombinedEffect]] = []
    for compared, cases_of_compared in cases_by_compared.items():
        if not cases_of_compared:
            continue
        effect = combine_effects(value, cases_of_compared, compared)
        text = _effect_text(effect, context)
        if compared != reference:
            # If `value` is the baseline itself, combine_effects() compares it with the slowest or the fastest
            # other value.
            other = _slowest_or_fastest(effect) if value == compared else context.label(compared)
            text = f"against {other}: {text}"
        clauses.append((text, effect))
    # Clauses with gains come first, because False sorts before True. Otherwise sort() keeps the order.
    clauses.sort(key=lambda clause: not clause[1].gains)
    return "; ".join(text for text, _ in clauses)


def _name_others(
    value: str, cases: Sequence[Case], effect: CombinedEffect, context: AnswerContext
) -> str:
    """Return the label of the only other value in the cases: `loose refs`, otherwise `the slowest other`.

    `effect` is that of the value, which combine_effects() does not compare with itself.
    """
    other_values = _other_values(value, cases)
    return context.label(*other_values) if len(other_values) == 1 else _slowest_or_fastest(effect)


def _other_values(value: str, cases: Sequence[Case]) -> set[str]:
    return {other for case in cases for other in case.times if other != value}


def _slowest_or_fastest(effect: CombinedEffect) -> str:
    """Return what the effect of a value against itself is compared with: losses are against the fastest."""
    return SLOWEST_OR_FASTEST if effect.losses else SLOWEST


def answer_of_cost(cases: Sequence[Case], context: AnswerContext) -> Answer:
    """Return the answer that names the cost of each value against the reference, and recommends none.

    The reference is the value without the cost, such as http. Example: the sentence `https: warm export 1.3x
    slower, warm log equal.`, the same without its full stop as `effect`, and in short `up to 1.3x slower`. A
    case counts if it decides the reference: a comparison shows that the reference differs from another value,
    or is equal to it. The caller guarantees one such case, because the text would be empty otherwise.
    """
    margin = 1 + context.min_effect_pct / 100
    clauses = []
    # The factor of a value is its time divided by the reference's time. That of the reference itself is 1.
    all_factors = [1.0]
    # By value, then by group (kind of case): {"https": {"warm export": [({"format": "f7"}, 1.3)]}}.
    for value, groups in _cost_factors(cases, context.reference).items():
        parts = []
        for group, case_factors in groups.items():
            parts.append(f"{group} {_cost_text(case_factors, margin)}".strip())
            all_factors += [factor for _, factor in case_factors]
        clauses.append(f"{context.label(value)}: {', '.join(parts)}")
    largest = max(all_factors)
    # A factor that differs from 1 by rounding only is no cost.
    short = f"up to {labels.factor(largest)} slower" if largest > 1 + ROUNDING else "no cost"
    text = "; ".join(clauses) + _uncertainty_note(cases, context.reference)
    return Answer(
        AnswerKind.COST,
        value="",
        short=short,
        sentence=_sentence(text),
        effect=text,
        against=context.label(context.reference),
    )


def _uncertainty_note(cases: Sequence[Case], reference: str) -> str:
    """Return ` (of 12 comparisons 3 show no certain difference)`, "" if all comparisons are decided.

    Only comparisons of the reference count. One is decided if it shows a difference, or equality.
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
) -> dict[str, dict[str, list[labels.CaseFactor]]]:
    """Return how many times as long as the reference each other value takes, by value and kind of case.

    Example: `{"https": {"warm export": [({"format": "f7", ...}, 1.3)], "warm log": [...]}}`. Each factor has
    the values of its case. A case without a decided comparison of the reference is left out.
    """
    factors: dict[str, dict[str, list[labels.CaseFactor]]] = defaultdict(lambda: defaultdict(list))
    for case in cases:
        if reference not in case.losses:
            continue
        for value, loss in case.losses.items():
            if value != reference:
                # A loss is a time divided by the best time of the case.
                factor = loss / case.losses[reference]
                factors[value][labels.group_label(case.where)].append((case.where, factor))
    return factors


def _cost_text(case_factors: Sequence[labels.CaseFactor], margin: float) -> str:
    """Return the times of a value against the reference: `1.2x to 1.3x slower`, `equal`, `1.1x faster`.

    `case_factors` has for each case the values of its axes, and the value's time as a multiple of the
    reference's: [({"access_rules": "0"}, 2.0), ({"access_rules": "10"}, 9.0)]. If an axis explains why the
    factors are far apart, by `margin` such as 1.1, each of its values has its own range: `(no access rules
    2.0x, 10 access rules 9.0x) slower`.
    """
    # A factor of 0.5 is printed as `2.0x faster`, so the factors of both lists are above 1. A factor that
    # differs from 1 by rounding only is in neither list.
    slower = [(where, factor) for where, factor in case_factors if factor > 1 + ROUNDING]
    faster = [(where, 1 / factor) for where, factor in case_factors if factor < 1 - ROUNDING]
    parts = []
    for changed, word in ((slower, "slower"), (faster, "faster")):
        if changed:
            ranges = labels.explained_ranges(changed, margin)
            text = f"({', '.join(ranges)})" if len(ranges) > 1 else ranges[0]
            text += f" {word}"
            if len(changed) < len(case_factors):
                text += f" in {len(changed)} of {len(case_factors)}"
            parts.append(text)
    return " and ".join(parts) or "equal"


def _effect_text(effect: CombinedEffect, context: AnswerContext) -> str:
    """Return an effect in words: `cold log 2.0x faster, export 1.3x slower (of 4 cases 3 faster, 1 slower)`.

    `effect` has the gains and losses by group (kind of case): {"cold log": [2.0]}. A single case needs no
    numbers of cases in brackets. Without a gain, and without a loss of the margin or more, return the numbers
    alone: `of 4 cases 0 faster, 0 slower, 4 undecided`.
    """
    margin = 1 + context.min_effect_pct / 100
    # Gains below the margin, such as 1.1, are named only if there are no larger ones. Losses below the margin
    # do not matter, and are only counted.
    gains = _from_margin(effect.gains, margin) or effect.gains
    losses = _from_margin(effect.losses, margin)
    parts = []
    if gains:
        parts.append(_gains_text(gains, context))
    if losses:
        parts.append(_losses_text(losses, context))
    text = ", ".join(parts)
    counts_text = _counts_text(effect.counts, context)
    if not text:
        return counts_text
    if effect.counts.total() == 1:
        return text
    # Two brackets in a row become one: `(sure but small; of 4 cases 3 faster, 1 slower)`.
    if text.endswith(")"):
        return f"{text.removesuffix(')')}; {counts_text})"
    return f"{text} ({counts_text})"


def _from_margin(factors: Mapping[str, Sequence[float]], margin: float) -> dict[str, list[float]]:
    """Return only the factors from the margin on, by group. A group without such a factor is left out."""
    large = {}
    for group, factors_of_group in factors.items():
        large_factors = [factor for factor in factors_of_group if factor >= margin]
        if large_factors:
            large[group] = large_factors
    return large


def _gains_text(gains: Mapping[str, Sequence[float]], context: AnswerContext) -> str:
    """Return `cold log 2.4x faster`, or `cold log 2.4x, others 1.2x to 1.9x faster` for several groups.

    `gains` has factors by group (kind of case), at least one group, the most important one first: {"cold
    log": [2.4], "export": [1.2], "update": [1.9]}. The first group is named, and all other groups share one
    range. A text has the note `(sure but small)` once at most: at its end, if all gains of the last range are
    below `context.min_effect_pct`.
    """
    better = context.comparative.better
    min_effect_pct = context.min_effect_pct
    first_group, *other_groups = gains.keys()
    first_range = labels.range_of_factors(gains[first_group])
    # Cases without a command and a state of caches are in the group "".
    first_text = f"{first_group} {first_range}".strip()
    if not other_groups:
        return f"{first_text} {better}{labels.slight_note(gains[first_group], min_effect_pct)}"
    other_gains = [gain for group in other_groups for gain in gains[group]]
    other_range = labels.range_of_factors(other_gains)
    slight = labels.slight_note(other_gains, min_effect_pct)
    # Groups with the same range need no names: `1.2x to 1.9x faster`.
    if other_range == first_range:
        return f"{first_range} {better}{slight}"
    # A single further group is named, too.
    other_name = other_groups[0] if len(other_groups) == 1 else "others"
    return f"{first_text}, {other_name} {other_range} {better}{slight}"


def _losses_text(
    losses: Mapping[str, Sequence[float]], context: AnswerContext, than: str = ""
) -> str:
    """Return `cold log 1.2x to 1.5x slower`, or `at most 1.5x slower` for losses in several groups.

    `losses` has factors by group (kind of case): {"cold log": [1.2, 1.5]}. `than` follows the word `slower`,
    such as ` than the best`. If all losses are below `context.min_effect_pct`, the text has the note `(sure
    but small)`. Return `slower in no case measured` without a loss.
    """
    worse = context.comparative.worse
    if not losses:
        return f"{worse} in no case measured"
    factors = [loss for losses_of_group in losses.values() for loss in losses_of_group]
    slight = labels.slight_note(factors, context.min_effect_pct)
    group, *other_groups = losses.keys()
    # Cases without a command and a state of caches are in the group "", which has no name to print.
    if group and not other_groups:
        return f"{group} {labels.range_of_factors(factors)} {worse}{than}{slight}"
    return f"at most {labels.factor(max(factors))} {worse}{than}{slight}"


def _counts_text(
    counts: Counter[ChangeEffect],
    context: AnswerContext,
    always: Sequence[ChangeEffect] = (ChangeEffect.FASTER, ChangeEffect.SLOWER),
) -> str:
    """Return the numbers of cases by effect: `of 24 cases 17 faster, 0 slower, 7 undecided`.

    The effects `always` are named even if their number is 0, because a reader looks for them.
    """
    # The names are in the order of ChangeEffect. Most effects are their own names, and the names of four of
    # them are replaced. `comparative` has two words, such as faster and slower, or less and more.
    names = {effect: str(effect) for effect in ChangeEffect}
    names[ChangeEffect.BOUNDED] = texts.RESULTS[Result.BOUNDED]
    names[ChangeEffect.TOO_SMALL] = texts.RESULTS[Result.TOO_SMALL]
    names[ChangeEffect.FASTER], names[ChangeEffect.SLOWER] = context.comparative
    parts = []
    for effect, name in names.items():
        if counts[effect] or effect in always:
            parts.append(f"{counts[effect]} {name}")
    return f"of {counts.total()} cases {', '.join(parts)}"


def _choice_that_depends(
    value: str, cases: Sequence[Case], effect: CombinedEffect, context: AnswerContext
) -> str:
    """Return the text of an answer that depends: the rule by kind of case, and one value for all cases.

    Example: `f7 for cold log, f6 for export; f7 if you must choose one: export 1.3x slower, up to 1.9x
    faster. Decided: 2 of 3 cases`. The rule is the part before the semicolon. It is left out if there is
    none, or if it would be too long. `value` is the one value for all cases, here f7, and `effect` has its
    gains. Its losses are against the best value of each case, because that is the price of one value for all.
    """
    # With two values, a loss can only be against the other one, so ` than the best` is left out.
    than = " than the best" if len(_other_values(value, cases)) > 1 else ""
    losses = _losses_text(collect_losses(value, cases), context, than)
    # The largest gain may be in any group, because the groups with a server come first (CombinedEffect).
    all_gains = [gain for gains in effect.gains.values() for gain in gains]
    single_choice = f"{context.label(value)} if you must choose one: {losses}"
    if all_gains:
        single_choice += f", up to {labels.factor(max(all_gains))} {context.comparative.better}"
    # In a case that shows nothing about a value, the value counts as if it took as long as the reference.
    rule = find_rule(cases, value, context.reference, Limits(context.min_effect_pct))
    # The rule must be short enough for a sentence with `single_choice`.
    rule_text = _rule_text(rule, value, context, later_text=single_choice)
    text = f"{rule_text}; {single_choice}" if rule_text else single_choice
    # A case decides the current value if a comparison shows that it differs from another value, or is equal.
    # Only these cases show the effect of a change. If the current value is unknown (""), a case with any
    # decided comparison counts.
    decided = [case for case in cases if case.decides(context.current)]
    if len(decided) < len(cases):
        text += f". Decided: {len(decided)} of {len(cases)} cases"
    return text


def _rule_text(rule: Rule, best: str, context: AnswerContext, later_text: str) -> str:
    """Return the text of a rule: `f7 for cold log, f6 for export`, or `f6 for export, otherwise f7`.

    `rule` has the groups of cases of each value: {"f7": ["cold log"], "f6": ["export"]}. `best` is the value
    for all cases, here f7. The second text is shorter if `best` has many groups, because it names only the
    groups of the other values. `later_text` follows in the same sentence. Return the first of the two texts
    that has at most MAX_WORDS words together with `later_text`. Return "" if both texts are too long, or
    without a rule.
    """
    if not rule:
        return ""
    text_by_value = {}
    for value, groups in rule.items():
        label = context.label(value)
        # Groups by access are `over http` and `over svn`. The text is `f7 over http and svn`.
        if all(group.startswith(ACCESS_GROUP_PREFIX) for group in groups):
            accesses = [group.removeprefix(ACCESS_GROUP_PREFIX) for group in groups]
            text_by_value[value] = f"{label} over {enumeration(accesses)}"
        else:
            text_by_value[value] = f"{label} for {enumeration(groups)}"
    exceptions = [text for value, text in text_by_value.items() if value != best]
    complete = ", ".join(text_by_value.values())
    shorter = f"{', '.join(exceptions)}, otherwise {context.label(best)}"
    for text in (complete, shorter):
        if len(f"Choose {text} {later_text}".split()) <= MAX_WORDS:
            return text
    return ""


def undecided_text(pair: Pair) -> str:
    """Return why a pair is not decided (`wide interval`), or the outcome of a decided one (`equal`)."""
    if pair.result == Result.UNDECIDED and pair.why_undecided:
        return texts.UNDECIDED_TEXTS[pair.why_undecided]
    return texts.RESULTS[pair.result]


def describe_pair_difference(pair: Pair, min_effect_pct: float) -> str:
    """Return the difference of a pair for its candidate: `1.3x slower`, or `at least 1.2x slower`.

    A pair is a comparison of two values, the baseline and the candidate. The text is `at least` if start-up
    hides a part of the difference. A difference below `min_effect_pct` has the note `(sure but small)`.
    """
    note = labels.slight_note([pair.ratio], min_effect_pct)
    # A ratio is baseline / candidate. If start-up is a large part of both times, the work itself differs by
    # a larger, unknown factor (is_at_least). Only the end of the interval nearer to 1 is then certain.
    if pair.is_at_least:
        return f"at least {labels.change(pair.near_end)}{note}"
    return f"{labels.change(pair.ratio)}{note}"


def pair_outcome(pair: Pair) -> str:
    """Return the outcome of a pair without a difference, with the largest possible difference if it is known.

    Examples: `nearly equal: at most 8.0 % apart`, `undecided: at most 1.3x apart`, `equal`.
    """
    is_open = pair.result in (Result.BOUNDED, Result.UNDECIDED)
    # `within` is the largest possible factor between both times, 0 if it is unknown.
    if is_open and pair.within > 1:
        return f"{texts.RESULTS[pair.result]}: at most {labels.factor(pair.within)} apart"
    return undecided_text(pair)

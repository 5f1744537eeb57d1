"""The texts of answers: what to choose, by how much it is faster, and where it is slower."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vcsbench.advice import labels
from vcsbench.advice.decision import ROUNDING, Case, Pair
from vcsbench.advice.effects import ChangeEffect, CombinedEffect, combine_effects
from vcsbench.advice.questions import CardQuestion
from vcsbench.advice.rules import Rule, find_rule
from vcsbench.codes import AnswerKind, Result
from vcsbench.statistics import texts
from vcsbench.statistics.comparisons import DIFFERENCES, Limits
from vcsbench.words import enumeration

# Why comparisons of svnbench's commands between accesses do not count (effects.has_less_client_work).
LESS_CLIENT_WORK = "over svn, its client does less work"
# Names that begin with a small letter, also at the begin of a sentence.
LOWER_CASE_NAMES = ("http", "svn", "git")
# What a value is compared with if readers may have it already.
SLOWEST = "the slowest other"
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

    `reference` is the value that stays if nothing is changed. Gains are over the value `start`. `current` is
    the value that the reader has, "" if it is unknown. `has_workload`: the cases are weighted by the user's
    workload. `comparative` has the words for the metric that is compared.
    """

    question: CardQuestion
    reference: str
    start: str
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

    `value` is the value to keep, "" if nothing is decided. Examples of sentences: `Within 10 % in 3 of 4
    cases.`, and `Wide interval in 2 of 3 cases.` for the most frequent reason of UNDECIDED.
    """
    if kind in NO_DECISION:
        text = NO_DECISION[kind]
    elif kind == AnswerKind.EQUAL:
        # A case may also be undecided.
        equal_cases = [case for case in cases if case.decides(context.current)]
        text = f"within {context.min_effect_pct:g} %{in_cases(len(equal_cases), len(cases))}"
    else:
        # UNDECIDED: the most frequent reason of the cases. A case has the reason of its first comparison
        # (pair) of the value that the reader has. Every case has such a pair (cards.Card.answer_for).
        reasons: Counter[str] = Counter()
        for case in cases:
            # compares("") is True: without a value of the reader, the first of all pairs counts.
            pair = next(pair for pair in case.pairs if pair.compares(context.current))
            reasons[undecided_text(pair)] += 1
        reason, number = reasons.most_common(1)[0]
        text = reason + in_cases(number, len(cases))
    return Answer(kind, value, short=str(kind), sentence=_sentence(text), effect=text)


def answer_with_choice(
    kind: AnswerKind, value: str, cases: Sequence[Case], context: AnswerContext
) -> Answer:
    """Return the answer that recommends `value`, or the reader's current value if `value` is never faster.

    `kind` is VALUE or DEPENDS. Examples of sentences: `Choose f7: cold log 2.0x faster (of 4 cases ...).`,
    `Choose f7 for cold log, f6 for export; f7 if you must choose one: ...`, and for a reader who has f7 `You
    have f7: keep it if you change only this.`
    """
    # "" if the reader's value is unknown.
    current = context.current
    # The gain is over the reader's value if a change from it is recommended, otherwise over the value to
    # start from.
    against = context.start if current in ("", value) else current
    effect = combine_effects(value, cases, against)
    if current and not effect.gains:
        # `value` is faster than the reader's value in no case. So the reader's value replaces it.
        value = current
        against = context.start
        effect = combine_effects(value, cases, against)
    # combine_effects() compares a value with the slowest other one, instead of with itself.
    compared = _name_others(value, cases, context) if against == value else context.label(against)
    if kind == AnswerKind.DEPENDS:
        text = _choice_that_depends(value, cases, effect, context)
        sentence = f"Choose {text}."
        return Answer(kind, value, str(kind), sentence, effect=text, against=compared)

    if against == context.start and context.start != context.reference:
        # Some cases may not compare this start. They get a clause of their own.
        text = _text_from_start(value, cases, context)
    else:
        text = _effect_text(effect, context)
    label = context.label(value)
    if current == value:
        sentence = f"You have {label}: keep it if you change only this."
    elif context.has_workload:
        sentence = f"For your workload choose {label}: {text}."
    else:
        sentence = f"Choose {label}: {text}."
    if context.question.yes_value:
        # A question such as "Pack the repository?" has the answer yes or no.
        short = "yes" if value == context.question.yes_value else "no"
    else:
        short = label
    return Answer(kind, value, short, sentence, effect=text, against=compared)


def _text_from_start(value: str, cases: Sequence[Case], context: AnswerContext) -> str:
    """Return the effect of a value over `context.start`, the value to start from, such as many packs.

    Cases that do not compare the start have a clause on the effect over the reference: `clone 2.5x faster;
    against one pack: log 8.6x faster`.
    """
    with_start = [case for case in cases if case.compares(context.start)]
    without_start = [case for case in cases if not case.compares(context.start)]
    # Each clause with its effect.
    clauses: list[tuple[str, CombinedEffect]] = []
    if with_start:
        effect = combine_effects(value, with_start, context.start)
        clauses.append((_effect_text(effect, context), effect))
    if without_start:
        effect = combine_effects(value, without_start, context.reference)
        # combine_effects() compares a value with the slowest other one, instead of with itself.
        other = SLOWEST if value == context.reference else context.label(context.reference)
        clauses.append((f"against {other}: {_effect_text(effect, context)}", effect))
    # A clause with gains comes first. sort() keeps the order of equal ones.
    clauses.sort(key=lambda clause: not clause[1].gains)
    return "; ".join(text for text, _ in clauses)


def _name_others(value: str, cases: Sequence[Case], context: AnswerContext) -> str:
    """Return the label of the only other value in the cases: `loose refs`, otherwise `the slowest other`."""
    others = {other for case in cases for other in case.times if other != value}
    return context.label(others.pop()) if len(others) == 1 else SLOWEST


def answer_of_cost(cases: Sequence[Case], context: AnswerContext) -> Answer:
    """Return the answer that names the cost of each value against the reference, and recommends none.

    Example: `https: warm export 1.3x slower, warm log equal.`, in short `up to 1.3x slower`. Only cases count
    in which a comparison of the reference is decided (Case.decides). There must be one.
    """
    margin = 1 + context.min_effect_pct / 100
    clauses = []
    # The times of all values as multiples of the reference's. Its own multiple is 1.
    all_factors = [1.0]
    for value, groups in _cost_factors(cases, context.reference).items():
        parts = []
        # A member of a group, such as `warm export`, is a case with the factor of the value in it.
        for group, members in groups.items():
            parts.append(f"{group} {_cost_text(members, margin)}".strip())
            all_factors += [factor for _, factor in members]
        clauses.append(f"{context.label(value)}: {', '.join(parts)}")
    largest = max(all_factors)
    short = f"up to {labels.factor(largest)} slower" if largest > 1 + ROUNDING else "no cost"
    text = "; ".join(clauses) + _count_uncertain(cases, context.reference)
    sentence = _sentence(text)
    against = context.label(context.reference)
    return Answer(AnswerKind.COST, "", short, sentence, effect=text, against=against)


def _count_uncertain(cases: Sequence[Case], reference: str) -> str:
    """Return ` (of 5 comparisons 2 show no certain difference)`, "" if all of the reference are decided."""
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

    Example: `{"https": {"warm export": [({"format": "f7", ...}, 1.3)], "warm log": [...]}}`. A case without a
    decided comparison of the reference is left out.
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


def _cost_text(members: Sequence[labels.CaseFactor], margin: float) -> str:
    """Return the times of a value against the reference: `1.2x to 1.3x slower`, `equal`, `1.1x faster`.

    If an axis explains a range (by `margin`, such as 1.1), the ranges of its values have brackets: `(no
    access rules 2.0x, 10 access rules 9x) slower`. A factor of `members` is the value's time as a multiple of
    the reference's.
    """
    # Both have factors above 1: of the time, or of the speed.
    slower = [(where, factor) for where, factor in members if factor > 1 + ROUNDING]
    faster = [(where, 1 / factor) for where, factor in members if factor < 1 - ROUNDING]
    parts = []
    for changed, word in ((slower, "slower"), (faster, "faster")):
        if changed:
            ranges = labels.explained_ranges(changed, margin)
            text = f"({', '.join(ranges)})" if len(ranges) > 1 else ranges[0]
            text += f" {word}"
            if len(changed) < len(members):
                text += f" in {len(changed)} of {len(members)}"
            parts.append(text)
    return " and ".join(parts) or "equal"


def _effect_text(effect: CombinedEffect, context: AnswerContext) -> str:
    """Return `cold log 2.0x faster, export 1.3x slower (of 4 cases 3 faster, 1 slower)`.

    A single case needs no numbers of cases in brackets. Without a gain, and without a loss from the margin
    on, return only the numbers: `of 4 cases 0 faster, 0 slower, 4 undecided`.
    """
    margin = 1 + context.min_effect_pct / 100
    # Gains below the margin are named if there are no larger ones. Losses below the margin are only counted.
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
    """Return the factors by group without those below the margin, and without groups that have no other."""
    large = {}
    for group, factors_of_group in factors.items():
        kept = [factor for factor in factors_of_group if factor >= margin]
        if kept:
            large[group] = kept
    return large


def _gains_text(gains: Mapping[str, Sequence[float]], context: AnswerContext) -> str:
    """Return `cold log 2.4x faster`, or `cold log 2.4x, others 1.2x to 1.9x faster` for several groups.

    `gains` has factors by group (kind of case), in the order of CombinedEffect: {"cold log": [2.4], "export":
    [1.2], "update": [1.9]}. The first group is named, and all other groups share one range. The note `(sure
    but small)` is on the range at the end.
    """
    better, min_effect_pct = context.comparative.better, context.min_effect_pct
    first_group, *other_groups = gains.keys()
    first_range = labels.range_of_factors(gains[first_group])
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
    others = other_groups[0] if len(other_groups) == 1 else "others"
    return f"{first_text}, {others} {other_range} {better}{slight}"


def _losses_text(losses: Mapping[str, Sequence[float]], context: AnswerContext) -> str:
    """Return `cold log 1.2x to 1.5x slower`, or `at most 1.5x slower` for losses in several groups.

    `losses` has factors by group (kind of case): {"cold log": [1.2, 1.5]}. Small losses have the note `(sure
    but small)`. Return `slower in no case measured` without a loss.
    """
    worse = context.comparative.worse
    if not losses:
        return f"{worse} in no case measured"
    factors = [loss for losses_of_group in losses.values() for loss in losses_of_group]
    slight = labels.slight_note(factors, context.min_effect_pct)
    group, *other_groups = losses.keys()
    # Cells without a command and a state of caches are in the group "", which has no name to print.
    if group and not other_groups:
        return f"{group} {labels.range_of_factors(factors)} {worse}{slight}"
    return f"at most {labels.factor(max(factors))} {worse}{slight}"


def _counts_text(counts: Counter[ChangeEffect], context: AnswerContext) -> str:
    """Return the numbers of cases by effect: `of 24 cases 17 faster, 0 slower, 7 undecided`."""
    names = {effect: str(effect) for effect in ChangeEffect}
    names[ChangeEffect.BOUNDED] = texts.RESULTS[Result.BOUNDED]
    names[ChangeEffect.TOO_SMALL] = texts.RESULTS[Result.TOO_SMALL]
    names[ChangeEffect.FASTER], names[ChangeEffect.SLOWER] = context.comparative
    parts = []
    for effect, name in names.items():
        # A reader looks for these two, also if their number is 0.
        if counts[effect] or effect in (ChangeEffect.FASTER, ChangeEffect.SLOWER):
            parts.append(f"{counts[effect]} {name}")
    return f"of {counts.total()} cases {', '.join(parts)}"


def _choice_that_depends(
    value: str, cases: Sequence[Case], effect: CombinedEffect, context: AnswerContext
) -> str:
    """Return the text of an answer that depends: the rule by kind of case, and one value for all cases.

    Example: `f7 for cold log, f6 for export; f7 if you must choose one: export 1.3x slower, up to 1.9x
    faster. Decided: 2 of 3 cases`. `value` is the one value, and `effect` has its gains and losses. The rule
    is left out if there is none, or if it would be too long.
    """
    losses = _losses_text(effect.losses, context)
    # The groups are sorted (CombinedEffect): the largest gain that matters to most users is in the first one.
    # Without a gain, the factor is 1.
    first_gains = next(iter(effect.gains.values()), [1.0])
    gain = labels.factor(max(first_gains))
    better = context.comparative.better
    single_choice = (
        f"{context.label(value)} if you must choose one: {losses}, up to {gain} {better}"
    )
    rule = find_rule(cases, value, context.reference, Limits(context.min_effect_pct))
    rule_text = _rule_text(rule, value, context, later_text=single_choice)
    text = f"{rule_text}; {single_choice}" if rule_text else single_choice
    # Only a decided comparison of the reader's current value shows the effect of a change from this value.
    # Without a current value (""), a case with any decided comparison counts.
    decided = [case for case in cases if case.decides(context.current)]
    if len(decided) < len(cases):
        text += f". Decided: {len(decided)} of {len(cases)} cases"
    return text


def _rule_text(rule: Rule, value: str, context: AnswerContext, later_text: str) -> str:
    """Return the text of a rule: `f7 for cold log, f6 for export`, or `f6 for export, otherwise f7`.

    `rule` has the groups of cases of each value: {"f7": ["cold log"], "f6": ["export"]}. The second text
    names only the exceptions from `value`, the choice for all cases (here f7). It is used if the first text
    and `later_text`, which follows it, have more than MAX_WORDS words. Return "" without a rule, or if the
    second text is too long, too.
    """
    if not rule:
        return ""
    parts = {choice: _part_of_rule(context.label(choice), names) for choice, names in rule.items()}
    exceptions = [text for choice, text in parts.items() if choice != value]
    complete = ", ".join(parts.values())
    shorter = f"{', '.join(exceptions)}, otherwise {context.label(value)}"
    for text in (complete, shorter):
        if len(f"Choose {text} {later_text}".split()) <= MAX_WORDS:
            return text
    return ""


def _part_of_rule(label: str, groups: Sequence[str]) -> str:
    """Return `f7 for log and export`, or `f7 over http and svn`."""
    if all(name.startswith("over ") for name in groups):
        return f"{label} over {enumeration([name.removeprefix('over ') for name in groups])}"
    return f"{label} for {enumeration(groups)}"


def undecided_text(pair: Pair) -> str:
    """Return why a pair is not decided (`wide interval`), or the outcome of a decided one (`equal`)."""
    if pair.result == Result.UNDECIDED and pair.why_undecided:
        return texts.UNDECIDED_TEXTS[pair.why_undecided]
    return texts.RESULTS[pair.result]


def pair_text(axis: str, pair: Pair, min_effect_pct: float, of_candidate: bool = False) -> str:
    """Return the outcome of a pair from its faster side: `f6 1.3x faster`, or `equal`.

    With `of_candidate`, it is the outcome of the candidate: `f7 1.3x slower`, or `wide interval (f7 2.0 %
    slower)`. If start-up hides a part of the difference: `f6 at least 1.2x faster`. `axis` is the compared
    axis, whose labels name the values. A difference below `min_effect_pct` has a note.
    """
    candidate = labels.value_label(axis, pair.candidate)
    if pair.call not in DIFFERENCES:
        outcome = pair_outcome(pair)
        if not of_candidate:
            return outcome
        return f"{outcome} ({candidate} {labels.change(pair.ratio)})"
    note = labels.slight_note([pair.ratio], min_effect_pct)
    # baseline / candidate: above 1, the candidate is faster. Start-up is part of both times, so the times
    # without it differ by a larger factor (is_at_least). The end of the interval nearer to 1 is certain.
    ratio = pair.near_end if pair.is_at_least else pair.ratio
    at_least = "at least " if pair.is_at_least else ""
    if of_candidate:
        return f"{candidate} {at_least}{labels.change(ratio)}{note}"
    winner = candidate if pair.ratio >= 1 else labels.value_label(axis, pair.baseline)
    return f"{winner} {at_least}{labels.factor(labels.at_least_1(ratio))} faster{note}"


def pair_outcome(pair: Pair) -> str:
    """Return the outcome of a pair without a difference, with the largest possible difference if it is known.

    Examples: `at most 8.0 % apart` (bounded), `undecided: at most 1.3x apart`, `equal`.
    """
    is_open = pair.result in (Result.BOUNDED, Result.UNDECIDED)
    # `within` is the largest possible factor between both times, 0 if it is unknown.
    if is_open and pair.within > 1:
        bound = f"at most {labels.factor(pair.within)} apart"
        return bound if pair.result == Result.BOUNDED else f"undecided: {bound}"
    return undecided_text(pair)

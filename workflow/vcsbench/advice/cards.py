"""Cards: one answer per question of a study, with its effect, its cases and the command to apply it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pydantic import TypeAdapter

from vcsbench.advice import decision, labels
from vcsbench.advice.decision import Case, Missing, Pair, Row, Where, Withheld
from vcsbench.advice.labels import CardQuestion
from vcsbench.config.study import matches_cell
from vcsbench.words import count_of, enumeration

BENCHMARK_ONLY = "null-"
ACCESS = "ra"
LESS_WORK = "over svn, its client does less work"
MAX_WORDS = 25


@dataclass(frozen=True)
class Answer:
    """An answer: its kind (decision.py), one or two words, a sentence, and a short effect for the
    terminal. `value` is "" without a decision."""

    kind: str = ""
    value: str = ""
    short: str = ""
    sentence: str = ""
    effect: str = ""


@dataclass(frozen=True)
class Card:
    """A question with its answer over all cases.

    `reference` is the value that stays if nothing is changed, `shown` axes distinguish the cases. An
    aggregate has `candidates` with an answer each, and `lines`.
    """

    question: CardQuestion
    reference: str
    shown: Sequence[str]
    cases: Sequence[Case]
    answer: Answer = Answer()
    min_effect_pct: float = 10.0
    weights: Sequence[float] = ()
    missing: Sequence[Missing] = ()
    candidates: Sequence[Answer] = ()
    lines: Sequence[str] = ()
    notes: Sequence[str] = ()
    withheld: Sequence[Withheld] = ()

    def answer_for(self, picks: Where) -> Answer:
        """Return the answer over the cases that fit `picks`, which may include the reader's current value.

        Cases that do not compare the current value are left out. Those that do not decide it count as
        undecided. Commands of svnbench alone decide nothing if there are others, and never between
        accesses: over svn, its client does less work.
        """
        current = picks.get(self.question.axis, "")
        chosen = [
            i
            for i, case in enumerate(self.cases)
            if fits(case.where, picks) and any(has_side(pair, current) for pair in case.pairs)
        ]
        for_work = [i for i in chosen if not is_benchmark(self.cases[i].where)]
        is_undecided = for_work and not any(self.cases[i].decides(current) for i in for_work)
        chosen = for_work if is_undecided or self.question.axis == ACCESS else chosen
        cases = [self.cases[i] for i in chosen]
        known = [i for i in chosen if current in ("", *self.cases[i].costs)]
        weights = [self.weights[i] for i in known] if self.weights else []
        kind, value = decision.recommend(
            [self.cases[i] for i in known], self.reference, self.min_effect_pct, weights
        )
        if kind == decision.NOT_MEASURED:
            withheld = (c for c in self.withheld if fits(c.where, picks) and has_side(c, current))
            if cases:
                kind = decision.UNDECIDED
            elif any(withheld):
                kind = decision.NOT_COMPARED
        return _answer(self, kind, value, cases, current)


@dataclass(frozen=True)
class Choice:
    """A choice of values with its mean in `seconds`; `ratio` is over the best time.

    Without the call "equal" or "slower", a comparison with the best choice is undecided.
    """

    values: Where
    seconds: float
    ratio: float = 1.0
    is_slower: bool = False
    is_equal: bool = False

    @property
    def call(self) -> str:
        return (
            "slower" if self.is_slower else decision.EQUAL if self.is_equal else decision.UNDECIDED
        )


@dataclass(frozen=True)
class Situation:
    """The choices in the cells of one scenario, the best one first.

    `why_not` is the reason for no answer, `other_work` maps choices that did other work to the reason.
    """

    where: Where
    choices: Sequence[Choice] = ()
    why_not: str = ""
    other_work: Sequence[tuple[Where, str]] = ()

    @property
    def best(self) -> Choice | None:
        return self.choices[0] if self.choices else None

    @property
    def gain(self) -> float | None:
        last = self.choices[-1] if self.choices else None
        return last.ratio if last and last.is_slower else None

    @property
    def not_slower(self) -> list[Choice]:
        return [choice for choice in self.choices[1:] if not choice.is_slower]


@dataclass(frozen=True)
class Advice:
    """Advice on a study, written and read as JSON by ADVICE. `workload` has weight, name and where."""

    cards: Sequence[Card] = ()
    situations: Sequence[Situation] = ()
    less_work: Sequence[str] = ()
    min_effect_pct: float = 10.0
    workload: Sequence[Row] = ()


ADVICE = TypeAdapter(Advice)


# An axis that a case lacks fits any value.
fits = partial(matches_cell, fits_empty=True)


def has_side(comparison: Pair | Withheld, value: str) -> bool:
    """Return True if a comparison is one of a value, or the value is ""."""
    return value in ("", comparison.baseline, comparison.candidate)


def card_of(
    question: CardQuestion,
    reference: str,
    axes: Sequence[str],
    cases: Sequence[Case],
    min_effect_pct: float,
    workload: Sequence[Row] = (),
    missing: Sequence[Missing] = (),
    withheld: Sequence[Withheld] = (),
) -> Card:
    """Return a card; `axes` are the study's, `workload` has weight, name and where.

    The cases that match an operation share its weight.
    """
    shown = [a for a in axes if len({case.where.get(a, "") for case in cases}) > 1]
    weights, notes = [0.0] * len(cases if workload else ()), []
    for operation in workload:
        matching = [n for n, case in enumerate(cases) if fits(case.where, operation["where"])]
        for n in matching:
            weights[n] += operation["weight"] / len(matching)
        if not any(cases[n].is_decided for n in matching):
            name = f"{operation['name']} ({operation['weight']:g} %)"
            notes.append(f"Your workload's {name} has no result here.")
    reasons = Counter(comparison.reason for comparison in withheld)
    for reason, number in reasons.most_common(1):
        of = f" ({number} of them)" if len(reasons) > 1 else ""
        notes.append(f"{count_of(len(withheld), 'comparison')} left out{of}: {reason}")
    settings = (Answer(), min_effect_pct, weights, missing)
    card = Card(question, reference, shown, cases, *settings, notes=notes, withheld=withheld)
    return replace(card, answer=card.answer_for({}))


def in_cases(number: int, total: int) -> str:
    """Return ` in 2 of 3 cases`, "" for the only case."""
    return f" in {number} of {total} cases" if total > 1 else ""


def _answer(card: Card, kind: str, value: str, cases: Sequence[Case], current: str) -> Answer:
    axis, text = card.question.axis, ""
    decided = [case for case in cases if case.decides(current)]
    if kind == decision.NOT_MEASURED:
        return Answer(kind, "", kind, "No case of this question has a result.", kind)
    if kind == decision.NOT_COMPARED:
        text = "its cells were measured, but cannot be compared"
    elif kind == decision.UNDECIDED:
        reasons = Counter(
            next(pair.outcome for pair in case.pairs if has_side(pair, current)) for case in cases
        )
        most, number = reasons.most_common(1)[0]
        text = most + in_cases(number, len(cases))
    elif kind == decision.EQUAL:
        text = f"within {card.min_effect_pct:g} %{in_cases(len(decided), len(cases))}"
    if text:
        return Answer(kind, value, kind, f"{text}.".capitalize(), text)
    against = current if current and current != value else card.reference
    effect = Effect.of(value, cases, against, card.min_effect_pct)
    if current and not effect.gains:
        # Of equal values the reader keeps the current one.
        value, effect = current, Effect.of(current, cases, card.reference, card.min_effect_pct)
    label = labels.value_label(axis, value)
    if kind == decision.DEPENDS:
        most = labels.factor(effect.most)
        single = f"{label} if you must choose one: {effect.losses}, up to {most} faster"
        rule = _rule_text(axis, value, find_rule(decided, card), single)
        text = f"{rule}; {single}" if rule else single
        if len(decided) < len(cases):
            text += f". Decided: {len(decided)} of {len(cases)} cases"
        return Answer(kind, value, kind, f"Choose {text}.", text)
    short = label
    if card.question.yes_value:
        short = "yes" if value == card.question.yes_value else "no"
    text = ", ".join(filter(None, [effect.wins, effect.losses if effect.regrets else ""]))
    if len(cases) > 1:
        head, note = (text[:-1], "; ") if text.endswith(")") else (text, " (")
        text = f"{head}{note}{effect.outcomes})"
    sentence = f"{'For your workload choose' if card.weights else 'Choose'} {label}: {text}."
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
            result = decision.SMALL if case.is_small else decision.UNDECIDED
            if value in costs:
                others = [cost for other, cost in costs.items() if other != value]
                other = costs.get(against) if against != value else max(others, default=None)
                if costs[value] > 1 + decision.SAME:
                    regrets.setdefault(group, []).append(costs[value])
                if other and other > costs[value] * (1 + decision.SAME):
                    gains.setdefault(group, []).append(other / costs[value])
                    result = "faster"
                elif costs[value] > 1 + decision.SAME:
                    result = "slower"
                elif other:
                    result = decision.EQUAL
            elif case.is_decided:
                result = decision.NOT_COMPARED
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
        always = ("faster", "slower")
        others = (decision.EQUAL, decision.SMALL, decision.UNDECIDED, decision.NOT_COMPARED)
        shown = [
            f"{self.counts[n]} {n}" for n in (*always, *others) if self.counts[n] or n in always
        ]
        return f"of {self.counts.total()} cases {', '.join(shown)}"


def is_benchmark(where: Where) -> bool:
    """Return True for a command of svnbench, which nobody runs at work."""
    return where.get("command", "").startswith(BENCHMARK_ONLY)


def has_less_work(axis: str, where: Where) -> bool:
    """Return True if LESS_WORK holds for a comparison of values of `axis`."""
    return axis == ACCESS and is_benchmark(where)


def find_rule(cases: Sequence[Case], card: Card) -> dict[str, list[str]]:
    """Return the groups of cases in which to choose each value: `{"f7": ["cold log"], "f6": ["export"]}`.

    The simplest grouping wins whose groups each have a value that loses at most the smallest effect
    worth noting; otherwise the grouping with the smallest worst regret.
    """
    decided, limit = [case for case in cases if case.is_decided], 1 + card.min_effect_pct / 100
    axes = dict.fromkeys(axis for case in decided for axis in case.where)
    groupings: list[Callable[[Where], str]] = [
        lambda where: where.get("command", ""),
        lambda where: labels.group_label({**where, "command": ""}),
        *(partial(_axis_group, axis) for axis in axes if axis not in ("command", "cache")),
        labels.group_label,
    ]
    rules = []
    for grouping in groupings:
        groups: dict[str, list[Case]] = {}
        for case in decided:
            groups.setdefault(grouping(case.where), []).append(case)
        chosen: dict[str, list[str]] = {}
        worst = 1.0
        for name, members in groups.items():
            best, regrets = decision.smallest_regret(members, card.reference)
            chosen.setdefault(best, []).append(name)
            worst = max(worst, regrets[best])
        if len(chosen) > 1:
            rules.append((max(0.0, worst - limit - decision.SAME), chosen))
    return _without_temperature(min(rules, key=lambda rule: rule[0])[1]) if rules else {}


def _axis_group(axis: str, where: Where) -> str:
    value = where.get(axis, "")
    return f"over {value}" if axis == "ra" and value else labels.value_label(axis, value)


def _without_temperature(rule: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    merged = {}
    for value, names in rule.items():
        commands = [name.partition(" ")[2] for name in names]
        both = {c for c in commands if {f"cold {c}", f"warm {c}"} <= {*names}}
        pairs = zip(names, commands, strict=True)
        merged[value] = list(dict.fromkeys(c if c in both else name for name, c in pairs))
    return merged


def _rule_text(axis: str, value: str, rule: Mapping[str, Sequence[str]], rest: str) -> str:
    texts = {}
    for choice, names in rule.items():
        before = "over " if all(name.startswith("over ") for name in names) else ""
        groups = enumeration([name.removeprefix(before) for name in names])
        texts[choice] = f"{labels.value_label(axis, choice)} {before or 'for '}{groups}"
    others = ", ".join(text for choice, text in texts.items() if choice != value)
    for text in (
        ", ".join(texts.values()),
        f"{others}, otherwise {labels.value_label(axis, value)}",
    ):
        if rule and len(f"Choose {text} {rest}".split()) <= MAX_WORDS:
            return text
    return ""


def pair_text(axis: str, pair: Pair, min_effect_pct: float, of_candidate: bool = False) -> str:
    """Return `f6 1.3x faster`, or with `of_candidate` always the candidate: `f7 1.3x slower`."""
    is_same = pair.outcome == decision.EQUAL or not pair.is_decided
    note = labels.slight([pair.ratio], min_effect_pct)
    if of_candidate:
        text = f"{labels.value_label(axis, pair.candidate)} {labels.change(pair.ratio)}"
        return f"{pair.outcome} ({text})" if is_same else text + note
    if is_same:
        return pair.outcome
    won = pair.candidate if pair.ratio >= 1 else pair.baseline
    return f"{labels.value_label(axis, won)} {labels.factor(labels.at_least_1(pair.ratio))} faster{note}"

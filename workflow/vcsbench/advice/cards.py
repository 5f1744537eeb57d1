"""The cards: one answer per question of a study, with its effect, its cases and the command to apply it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from vcsbench.advice import decide as rule
from vcsbench.advice.cases import Case, Missing, Pair
from vcsbench.advice.decide import Decision
from vcsbench.advice.labels import (
    Where,
    axis_label,
    case_label,
    factor,
    factors,
    group_label,
    seconds,
    value_label,
)
from vcsbench.words import enumeration

SHORT = {"packing": "Pack?", "config": "Settings?", "format": "Format?", "build": "Build?"}
# The default of a study that names no smallest effect.
MIN_EFFECT_PCT = 10.0
# A sentence of a card has at most this many words.
MOST_WORDS = 25


@dataclass(frozen=True)
class Question:
    """A question of a study: its axis, its text, and what the study's file says about the values.

    `yes_value` makes the answer yes or no, `actions` has the command and the note of a value, `measure`
    the same for a question that this run cannot answer, `aggregate` asks for one answer over all cells.
    """

    axis: str
    text: str
    values: Sequence[str] = ()
    yes_value: str = ""
    actions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    measure: Mapping[str, str] = field(default_factory=dict)
    aggregate: bool = False
    vs_baseline: bool = False

    @property
    def short(self) -> str:
        """Return the question in one or two words."""
        if self.values:
            return f"{'/'.join(self.values)}?"
        return SHORT.get(self.axis, f"{axis_label(self.axis).capitalize()}?")


@dataclass(frozen=True)
class Answer:
    """An answer: its kind (decide.py), one or two words, a sentence, and a short effect for the terminal.

    `value` is the value to choose, "" without a decision.
    """

    kind: str
    value: str
    short: str
    sentence: str
    effect: str


@dataclass(frozen=True)
class Card:
    """A question with its answer over all cases.

    `reference` is the value that stays if nothing is changed, `told` the axes that distinguish the cases,
    `weights` the workload's share of each case, `lines` one sentence per candidate of an aggregate.
    """

    question: Question
    reference: str
    told: Sequence[str]
    cases: Sequence[Case]
    answer: Answer
    min_effect_pct: float = MIN_EFFECT_PCT
    weights: Sequence[float] = ()
    missing: Sequence[Missing] = ()
    lines: Sequence[str] = ()
    notes: Sequence[str] = ()

    def answer_for(self, picks: Where) -> Answer:
        """Return the answer over the cases that fit `picks`, which may include the reader's own value."""
        chosen = [i for i, case in enumerate(self.cases) if fits(case.where, picks)]
        weights = [self.weights[i] for i in chosen] if self.weights else []
        cases = [self.cases[i] for i in chosen]
        have = picks.get(self.question.axis, "")
        decision = rule.decide(cases, self.reference, self.min_effect_pct, weights)
        return answer_of(self.question, decision, cases, self, have)


def fits(where: Where, picks: Where) -> bool:
    """Return True if a case has the picked values; an axis that it lacks fits any value."""
    return all(where.get(axis, "") in ("", value) for axis, value in picks.items() if value)


def card_of(
    question: Question,
    reference: str,
    axes: Sequence[str],
    cases: Sequence[Case],
    min_effect_pct: float = MIN_EFFECT_PCT,
    workload: Sequence[Mapping[str, Any]] = (),
    missing: Sequence[Missing] = (),
) -> Card:
    """Return the card of a question; `axes` are the study's, `workload` has weight, name and where."""
    told = [a for a in axes if len({case.where.get(a, "") for case in cases}) > 1]
    weights, notes = weights_of(cases, workload)
    decision = rule.decide(cases, reference, min_effect_pct, weights)
    unanswered = Answer(decision.kind, "", "", "", "")
    card = Card(
        question, reference, told, cases, unanswered, min_effect_pct, weights, missing, notes=notes
    )
    answer = answer_of(question, decision, cases, card)
    return Card(**{**vars(card), "answer": answer})


def weights_of(
    cases: Sequence[Case], workload: Sequence[Mapping[str, Any]]
) -> tuple[list[float], list[str]]:
    """Return each case's weight, and a note for each part of the workload without a case."""
    if not workload:
        return [], []
    weights, notes = [0.0] * len(cases), []
    for part in workload:
        where = part["where"]
        matching = [i for i, c in enumerate(cases) if where.items() <= c.where.items()]
        for i in matching:
            weights[i] += part["weight"] / len(matching)
        if not any(cases[i].is_decided for i in matching):
            notes.append(
                f"Your workload's {part['name']} ({part['weight']:g} %) has no result here."
            )
    return weights, notes


def answer_of(
    question: Question, decision: Decision, cases: Sequence[Case], card: Card, have: str = ""
) -> Answer:
    """Return the words of a decision; `have` is the value that the reader has now."""
    axis = question.axis
    if decision.kind == rule.NOT_MEASURED:
        text = "No case of this question was measured."
        return Answer(decision.kind, "", "not measured", text, "not measured")
    if decision.kind == rule.UNDECIDED:
        text = _undecided(cases)
        return Answer(decision.kind, "", "undecided", f"{text}.".capitalize(), text)
    if decision.kind == rule.EQUAL:
        of = f" in {decision.decided} of {decision.cases} cases" if len(cases) > 1 else ""
        none = f"no difference of {card.min_effect_pct:g} %"
        return Answer(decision.kind, decision.value, "either", f"{none.capitalize()}{of}.", none)
    label = value_label(axis, decision.value)
    reference = have if have and have != decision.value else card.reference
    effect = Effect.of(decision.value, cases, reference, card.reference)
    if decision.kind == rule.DEPENDS:
        one = (
            f"{label} if you must choose one: {effect.losses()}, up to {factor(effect.most)} faster"
        )
        parts = _rule_text(axis, decision, one)
        sentence = f"Choose {parts}; {one}." if parts else f"Choose {one}."
        return Answer(decision.kind, decision.value, "depends", sentence, parts or one)
    short = label
    if question.yes_value:
        short = "yes" if decision.value == question.yes_value else "no"
    terminal = ", ".join(filter(None, [effect.wins(), effect.losses()]))
    if have and (text := _for_reader(axis, decision.value, cases, have)):
        return Answer(decision.kind, decision.value, short, text, terminal)
    sentence = f"Choose {label}: {terminal}"
    if card.weights:
        sentence = f"For your workload choose {label}: {terminal}"
    if len(cases) > 1:
        undecided = f", {n} undecided" if (n := decision.cases - decision.decided) else ""
        sentence += f" (faster in {len(effect.gains)} of {len(cases)} cases{undecided})"
    return Answer(decision.kind, decision.value, short, f"{sentence}.", terminal)


def _rule_text(axis: str, decision: Decision, rest: str) -> str:
    """Return the rule in one line, in the shortest form that leaves the sentence readable; "" for none."""
    parts = {v: f"{value_label(axis, v)} {_joined(of)}" for v, of in decision.rule.items()}
    others = [text for value, text in parts.items() if value != decision.value]
    otherwise = f"{', '.join(others)}, otherwise {value_label(axis, decision.value)}"
    for text in (", ".join(parts.values()), otherwise):
        if decision.rule and len(f"Choose {text} {rest}".split()) <= MOST_WORDS:
            return text
    return ""


def _joined(names: Sequence[str]) -> str:
    """Return `for cold logs and exports`, `over http and svn`."""
    before = "over " if all(name.startswith("over ") for name in names) else ""
    bare = [name.removeprefix(before) for name in names]
    return f"{before or 'for '}{enumeration(bare)}"


def _undecided(cases: Sequence[Case]) -> str:
    """Return why no case is decided: `too noisy in 3 of 4 cases`."""
    reasons = [pair.outcome for case in cases for pair in case.pairs[:1]]
    most = max(set(reasons), key=reasons.count)
    return f"{most} in {reasons.count(most)} of {len(cases)} cases"


def _for_reader(axis: str, value: str, cases: Sequence[Case], have: str) -> str:
    """Return the gain of a reader who has one value: `packed is 2.4x faster for you, 0.47 s → 0.20 s`."""
    if have == value:
        return f"You have {value_label(axis, value)}: keep it."
    parts = []
    for case in cases:
        for pair in case.pairs:
            if {pair.baseline, pair.candidate} == {have, value} and pair.is_decided:
                times = case.pair_times(pair)
                both = {} if not times else {pair.baseline: times[0], pair.candidate: times[1]}
                parts.append((case, _change(pair, value), both))
    if len(parts) != 1:
        return ""
    case, text, times_of = parts[0]
    change = f", {seconds(times_of[have])} → {seconds(times_of[value])}" if times_of else ""
    name = case_label(case.where, ["command", "cache", "ra"])
    return f"{value_label(axis, value).capitalize()} is {text} for you{change} ({name})."


def _change(pair: Pair, value: str) -> str:
    if pair.outcome == "equal":
        return "no different"
    ratio = pair.ratio if pair.candidate == value else 1 / pair.ratio
    return f"{factor(ratio)} faster" if ratio > 1 else f"{factor(1 / ratio)} slower"


@dataclass(frozen=True)
class Effect:
    """The factors by which a value is faster (`gains`) and slower (`regrets`), by case.

    A gain is against the reference, or against the slowest other value if the value is the reference.
    """

    gains: Sequence[tuple[Case, float]]
    regrets: Sequence[tuple[Case, float]]

    @classmethod
    def of(cls, value: str, cases: Sequence[Case], against: str, reference: str) -> Effect:
        """Return the effect of a value over the decided cases that have it."""
        gains, regrets = [], []
        for case in cases:
            costs = case.costs
            if value not in costs:
                continue
            others = [cost for other, cost in costs.items() if other != value]
            other = costs.get(against) if against != value else max(others, default=None)
            if other and other > costs[value] * (1 + 1e-9):
                gains.append((case, other / costs[value]))
            if costs[value] > 1 + 1e-9:
                regrets.append((case, costs[value]))
        return cls(gains, regrets)

    @property
    def most(self) -> float:
        """Return the largest gain."""
        return max((gain for _, gain in self.gains), default=1.0)

    def wins(self) -> str:
        """Return `cold log 2.4x to 6.9x faster` if most gains are in one group, or `up to 2.9x faster`."""
        if not self.gains:
            return ""
        most, _ = max(self.gains, key=lambda gain: gain[1])
        group = group_label(most.where)
        gains = [gain for case, gain in self.gains if group_label(case.where) == group]
        if group and 2 * len(gains) >= len(self.gains):
            return f"{group} {factors(gains)} faster"
        return f"up to {factor(self.most)} faster"

    def losses(self) -> str:
        """Return `never slower` or `at most 8 % slower`."""
        if not self.regrets:
            return "never slower"
        return f"at most {factor(max(regret for _, regret in self.regrets))} slower"


def markdown_of(title: str, cards: Iterable[Card]) -> str:
    """Return the cards as Markdown."""
    blocks = [f"# {title}"]
    for card in cards:
        blocks += [f"## {card.question.text}", f"**{card.answer.short}**: {card.answer.sentence}"]
        blocks += [f"- {line}" for line in (*card.lines, *card.notes)]
        if action := action_of(card, card.answer.value):
            blocks.append(f"`{action['command']}` {action['note']}".strip())
    return "\n\n".join(blocks) + "\n"


def action_of(card: Card, value: str) -> dict[str, str]:
    """Return the command and the note for a value; {} if there is nothing to do or to type."""
    found = card.question.actions.get(value) or (card.question.measure if not value else {})
    command, note = (str(found.get(key) or "") for key in ("command", "note"))
    return {"command": command, "note": note} if command or note else {}


def card_data(card: Card) -> dict[str, Any]:
    """Return a card as plain data for JSON."""
    return asdict(card)


def card_from(data: Mapping[str, Any]) -> Card:
    """Return a card from card_data()."""
    cases = [
        Case(case["where"], tuple(Pair(**pair) for pair in case["pairs"]), case["times"])
        for case in data["cases"]
    ]
    parts = {
        "question": Question(**data["question"]),
        "answer": Answer(**data["answer"]),
        "cases": cases,
        "missing": [Missing(**one) for one in data["missing"]],
    }
    return Card(**{**data, **parts})

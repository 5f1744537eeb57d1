"""The cards of a page: each question's answers for all choices of the reader, and its forest plot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from vcsbench.advice import decide as rule
from vcsbench.advice.cards import Answer, Card, Effect, action_of, card_from, fits
from vcsbench.advice.cases import BETTER, EQUAL, SMALL, WORSE, Case, Pair
from vcsbench.advice.labels import (
    PICTOGRAMS,
    axis_label,
    case_label,
    factor,
    factors,
    seconds,
    value_label,
)
from vcsbench.report import svg
from vcsbench.report.records import grouped_by
from vcsbench.report.results import Results

# The axes of "My case" are the study's others than these, which a reader does not have but does.
NOT_PICKED = ("cache", "clients", "build")
# The page offers fewer choices rather than hold more answers than this.
MOST_ANSWERS = 6000
OUTCOMES = {BETTER: "candidate", WORSE: "reference", EQUAL: "equal", SMALL: "small"}


@dataclass(frozen=True)
class Pick:
    """An axis of "My case": its values with their labels, and the preset one."""

    axis: str
    label: str
    values: Sequence[tuple[str, str]]
    preset: str


@dataclass(frozen=True)
class ForestRow:
    """A case in a forest plot: `where` for the filter, the drawing, the factor and the times as text."""

    where: Mapping[str, str]
    label: str
    drawing: str
    text: str
    times: str
    outcome: str


@dataclass(frozen=True)
class CardView:
    """A card as the page shows it; `left` and `right` name the sides of its forest plot."""

    card: Card
    anchor: str
    rows: Sequence[ForestRow]
    axis_drawing: str
    left: str
    right: str
    actions: Sequence[tuple[str, str, Mapping[str, str]]]
    lines: Sequence[str]

    @property
    def answer(self) -> Answer:
        """Return the answer over all cases."""
        return self.card.answer


@dataclass(frozen=True)
class Square:
    """One square of the overview: a text, a colour, and a title."""

    text: str
    style: str
    title: str


@dataclass(frozen=True)
class Overview:
    """For each question a row of squares per command, in a column per cache."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, str, Sequence[Square]]]


def cards_of(results: Results) -> list[CardView]:
    """Return the cards of a study's advice, decided ones first."""
    cards = [card_from(data) for data in results.advice.get("cards", [])]
    ranks = (rule.VALUE, rule.DEPENDS, rule.EQUAL, rule.UNDECIDED, rule.NOT_MEASURED)
    cards.sort(key=lambda card: ranks.index(card.answer.kind))
    return [_view(card) for card in cards]


def _view(card: Card) -> CardView:
    pairs = [(case, pair) for case in card.cases for pair in case.pairs]
    ends = [v for _, p in pairs for v in (p.ratio, p.low, p.high)]
    axis = svg.Axis.over(ends)
    candidates = list(dict.fromkeys(pair.candidate for _, pair in pairs))
    baselines = list(dict.fromkeys(pair.baseline for _, pair in pairs))
    name = card.question.axis
    pairs.sort(key=lambda one: (not one[1].is_decided, -abs(math.log(one[1].ratio))))
    rows = [_row(card, case, pair, axis, len(candidates) > 1) for case, pair in pairs]
    values = dict.fromkeys(value for case in card.cases for value in case.times)
    actions = [
        (value, value_label(name, value) if value else "To find out", action)
        for value in ("", *values)
        if (action := action_of(card, value))
    ]
    lines = [*card.lines, *card.notes]
    if not card.question.aggregate:
        lines += [
            f"{value_label(name, m.value)}: {m.cells} cells not measured: {m.reason}."
            for m in card.missing
        ]
    right = " or ".join(value_label(name, c) for c in candidates)
    left = " or ".join(value_label(name, b) for b in baselines)
    return CardView(card, f"card-{name}", rows, svg.forest_axis(axis), left, right, actions, lines)


def _row(card: Card, case: Case, pair: Pair, axis: svg.Axis, several: bool) -> ForestRow:
    label, name = case_label(case.where, card.told), card.question.axis
    if several:
        label = f"{value_label(name, pair.candidate)}: {label}"
    style = OUTCOMES.get(pair.outcome, "")
    text = pair_text(name, pair)
    times = case.pair_times(pair)
    said = f"{seconds(times[0])} → {seconds(times[1])}" if times else ""
    band = 1 + card.min_effect_pct / 100
    drawing = svg.forest_row(
        axis, pair.ratio, pair.low, pair.high, style or "undecided", band, f"{label}: {text}"
    )
    where = {axis_: value for axis_, value in case.where.items() if value}
    return ForestRow(where, label, drawing, text, said, style)


def pair_text(axis: str, pair: Pair) -> str:
    """Return `packed 2.4x faster`, `equal`, `too noisy`."""
    if pair.outcome == EQUAL:
        return "equal"
    if not pair.is_decided:
        return pair.outcome
    won = pair.candidate if pair.ratio >= 1 else pair.baseline
    return f"{value_label(axis, won)} {factor(max(pair.ratio, 1 / pair.ratio))} faster"


def picks_of(results: Results, cards: Sequence[CardView]) -> list[Pick]:
    """Return the axes of "My case" with several values; preset for a repository of the reader's own."""
    study = results.study
    left_out = {*NOT_PICKED, study.command_axis, *study.axes_of("repositories")}
    found, answers = [], 1
    for axis, known in results.order.items():
        present = {row.get(axis) for row in results.grid if not row.get("skip")}
        values = [value for value in known if value in present]
        if axis in left_out or len(values) < 2 or not cards:
            continue
        answers *= len(values) + 1
        if answers > MOST_ANSWERS:
            break
        preset = values[0] if results.own and axis != "ra" else ""
        labels = [(value, value_label(axis, value)) for value in values]
        found.append(Pick(axis, axis_label(axis), labels, preset))
    return found


def answers_by_picks(cards: Sequence[CardView], picks: Sequence[Pick]) -> dict[str, Any]:
    """Return for each card its different answers, and which of them holds for which picks.

    Picks are joined by `|` in the order of the picker, "" for any value.
    """
    found = {}
    for view in cards:
        if view.card.question.aggregate:
            continue
        answers: dict[Answer, int] = {}
        known: dict[Any, Answer] = {}
        by = {}
        for values in product(*(["", *(v for v, _ in pick.values)] for pick in picks)):
            chosen = {p.axis: v for p, v in zip(picks, values, strict=True) if v}
            have = chosen.get(view.card.question.axis, "")
            others = {a: v for a, v in chosen.items() if a != view.card.question.axis}
            key = (have, *_places(view.card, others))
            if key not in known:
                known[key] = view.card.answer_for(chosen) if chosen else view.answer
            by["|".join(values)] = answers.setdefault(known[key], len(answers))
        found[view.anchor] = {
            "by": by,
            "answers": [[a.kind, a.short, a.sentence, a.value] for a in answers],
        }
    return found


def _places(card: Card, picks: Mapping[str, str]) -> Iterator[int]:
    return (place for place, case in enumerate(card.cases) if fits(case.where, picks))


def overview_of(cards: Sequence[CardView], order: Mapping[str, Sequence[str]]) -> Overview | None:
    """Return the overview of all questions: command by cache; None without any card that has both."""
    usable = [v for v in cards if not v.card.question.aggregate and v.card.cases]
    where = [case.where for view in usable for case in view.card.cases]
    commands = _present(where, "command", order)
    caches = _present(where, "cache", order)
    if not (commands and caches):
        return None
    rows = []
    for view in usable:
        groups = grouped_by(
            view.card.cases, lambda c: (c.where.get("command", ""), c.where.get("cache", ""))
        )
        for command in commands:
            squares = [_square(view.card, groups.get((command, cache), [])) for cache in caches]
            if any(square.style != "none" for square in squares):
                rows.append((view.card.question.short, command, squares))
    columns = [(PICTOGRAMS.get(cache, ""), value_label("cache", cache)) for cache in caches]
    return Overview(columns, rows)


def _present(
    where: Sequence[Mapping[str, str]], axis: str, order: Mapping[str, Sequence[str]]
) -> list[str]:
    present = {one.get(axis, "") for one in where} - {""}
    return [value for value in order.get(axis, ()) if value in present]


def _square(card: Card, cases: Sequence[Case]) -> Square:
    if not cases:
        return Square("", "none", "not measured")
    decision = rule.decide(cases, card.reference, card.min_effect_pct)
    name = card.question.axis
    if decision.kind in (rule.EQUAL, rule.UNDECIDED):
        return Square(
            decision.kind, decision.kind, f"{decision.decided} of {decision.cases} cases decided"
        )
    label = value_label(name, decision.value)
    style = "reference" if decision.value == card.reference else "candidate"
    effect = Effect.of(decision.value, cases, card.reference, card.reference)
    gains = [gain for _, gain in effect.gains]
    text = f"{label} {factors(gains)}" if gains else label
    if decision.kind == rule.DEPENDS:
        return Square(f"depends, {text}", "depends", f"in {decision.decided} cases")
    return Square(text, style, f"faster in {len(gains)} of {len(cases)} cases")

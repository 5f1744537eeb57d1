"""The answers of a page: cards with forest plots, "My case", the overview, and situations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from vcsbench.advice import decision as rule
from vcsbench.advice.cards import (
    PICTOGRAMS,
    Answer,
    Card,
    Effect,
    Situation,
    axis_label,
    case_label,
    factors,
    fits,
    pair_text,
    seconds,
    value_label,
)
from vcsbench.advice.decision import BETTER, EQUAL, SMALL, WORSE, Case, Pair, Row, Where
from vcsbench.evidence.measurements import FLAGGED_SHARE
from vcsbench.report import charts
from vcsbench.report.results import Results, grouped_by, unique, varying

# Axes of the study that are no part of "My case": a reader does not have them, but does them.
NOT_PICKED = ("cache", "clients", "build")
# The page offers fewer picks if it would hold more answers.
MAX_ANSWERS = 6000
STYLES = {BETTER: "candidate", WORSE: "reference", EQUAL: "equal", SMALL: "small"}
RANKS = (rule.VALUE, rule.DEPENDS, rule.EQUAL, rule.UNDECIDED, rule.NOT_MEASURED)


class Pick(NamedTuple):
    """An axis of "My case": its values with their labels, and the preset value."""

    axis: str
    label: str
    values: Sequence[tuple[str, str]]
    preset: str


class ForestRow(NamedTuple):
    """A case in a forest plot: `where` for the filter, the drawing, the factor and the times as text."""

    where: Where
    label: str
    drawing: str
    text: str
    times: str
    style: str


class CardView(NamedTuple):
    """A card as the page shows it; `left` and `right` name the sides of its forest plot.

    `actions` have the value, its label, and the command and note to apply it.
    """

    card: Card
    anchor: str
    rows: Sequence[ForestRow]
    axis_drawing: str
    left: str
    right: str
    actions: Sequence[tuple[str, str, Where]]
    lines: Sequence[str]


class Square(NamedTuple):
    """A square of the overview."""

    text: str
    style: str
    title: str


class Overview(NamedTuple):
    """For each question a row of squares per command, in a column per cache."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, str, Sequence[Square]]]


def card_views(cards: Sequence[Card]) -> list[CardView]:
    """Return the cards of a study's advice, decided ones first."""
    return [_card_view(card) for card in sorted(cards, key=lambda c: RANKS.index(c.answer.kind))]


def _card_view(card: Card) -> CardView:
    name = card.question.axis
    pairs = [(case, pair) for case in card.cases for pair in case.pairs]
    left, right = (
        " or ".join(value_label(name, value) for value in unique(side))
        for side in ([p.baseline for _, p in pairs], [p.candidate for _, p in pairs])
    )
    pairs.sort(key=lambda item: (not item[1].is_decided, -abs(math.log(item[1].ratio))))
    axis = charts.LogAxis.over(v for _, p in pairs for v in (p.ratio, p.low, p.high))
    actions = [
        (value, value_label(name, value) if value else "To find out", action)
        for value in unique(["", *(value for case in card.cases for value in case.times)])
        if (action := card.action(value))
    ]
    lines = [*card.lines, *card.notes]
    for lost in () if card.question.aggregate else card.missing:
        value = value_label(name, lost.value)
        lines.append(f"{value}: {lost.cells} cells not measured: {lost.reason}.")
    has_several = len({pair.candidate for _, pair in pairs}) > 1
    rows = [_forest_row(card, case, pair, axis, has_several) for case, pair in pairs]
    drawing = charts.forest_axis(axis)
    return CardView(card, f"card-{name}", rows, drawing, left, right, actions, lines)


def _forest_row(
    card: Card, case: Case, pair: Pair, axis: charts.LogAxis, has_several: bool
) -> ForestRow:
    name, label = card.question.axis, case_label(case.where, card.shown)
    if has_several:
        label = f"{value_label(name, pair.candidate)}: {label}"
    style, text = STYLES.get(pair.outcome, "undecided"), pair_text(name, pair)
    band, title = 1 + card.min_effect_pct / 100, f"{label}: {text}"
    drawing = charts.forest_row(axis, pair.ratio, pair.low, pair.high, style, band, title)
    times = " → ".join(map(seconds, case.pair_times(pair) or ()))
    if pair.is_decided and pair.fixed_share > FLAGGED_SHARE:
        times += f", {100 * pair.fixed_share:.0f} % fixed cost"
    return ForestRow(_present(case.where), label, drawing, text, times, style)


def _present(where: Where) -> Where:
    return {axis: value for axis, value in where.items() if value}


def picks_of(results: Results, cards: Sequence[CardView]) -> list[Pick]:
    """Return the axes of "My case" with several values, preset for a repository of the reader's own."""
    study, picks, answers = results.study, [], 1
    left_out = {*NOT_PICKED, study.command_axis, *study.axes_of("repositories")}
    for axis, known in results.order.items() if cards else ():
        present = {row.get(axis) for row in results.grid if not row.get("skip")}
        values = [value for value in known if value in present]
        if axis in left_out or len(values) < 2:
            continue
        answers *= len(values) + 1
        if answers > MAX_ANSWERS:
            break
        preset = values[0] if results.own_repository and axis != "ra" else ""
        labels = [(value, value_label(axis, value)) for value in values]
        picks.append(Pick(axis, axis_label(axis), labels, preset))
    return picks


def answers_by_picks(cards: Sequence[CardView], picks: Sequence[Pick]) -> dict[str, Row]:
    """Return for each card its different answers, and the number of the answer for each choice of picks.

    A choice is its values in the order of the picker, joined by `|`, "" for any value.
    """
    by_card: dict[str, Row] = {}
    for view in cards:
        card, axis = view.card, view.card.question.axis
        if card.question.aggregate:
            continue
        answers: dict[Answer, int] = {}
        known: dict[tuple[str, ...], Answer] = {}
        numbers = {}
        for values in product(*(["", *(v for v, _ in pick.values)] for pick in picks)):
            chosen = {p.axis: v for p, v in zip(picks, values, strict=True) if v}
            others = {a: v for a, v in chosen.items() if a != axis}
            fitting = (str(n) for n, c in enumerate(card.cases) if fits(c.where, others))
            # Equal cases have an equal answer, and the rule runs once.
            key = (chosen.get(axis, ""), *fitting)
            if key not in known:
                known[key] = card.answer_for(chosen) if chosen else card.answer
            numbers["|".join(values)] = answers.setdefault(known[key], len(answers))
        texts = [[a.kind, a.short, a.sentence, a.value] for a in answers]
        by_card[view.anchor] = {"by": numbers, "answers": texts}
    return by_card


def overview_of(cards: Sequence[CardView], order: Mapping[str, Sequence[str]]) -> Overview | None:
    """Return the overview of all questions: command by cache; None without any card that has both."""
    usable = [view.card for view in cards if not view.card.question.aggregate]
    wheres = [case.where for card in usable for case in card.cases]
    commands, caches = (
        [value for value in order.get(axis, ()) if value in {where.get(axis) for where in wheres}]
        for axis in ("command", "cache")
    )
    if not (commands and caches):
        return None
    rows = []
    for card in usable:
        groups = grouped_by(card.cases, lambda c: (c.where.get("command"), c.where.get("cache")))
        for command in commands:
            squares = [_square(card, groups.get((command, cache), [])) for cache in caches]
            if any(square.style != "none" for square in squares):
                rows.append((card.question.short, command, squares))
    columns = [(PICTOGRAMS.get(cache, ""), value_label("cache", cache)) for cache in caches]
    return Overview(columns, rows)


def _square(card: Card, cases: Sequence[Case]) -> Square:
    if not cases:
        return Square("", "none", "not measured")
    decision = rule.decide(cases, card.reference, card.min_effect_pct)
    decided = f"{decision.decided} of {decision.cases} cases decided"
    if decision.kind in (EQUAL, rule.UNDECIDED):
        return Square(decision.kind, decision.kind, decided)
    effect = Effect.of(decision.value, cases, card.reference, card.reference)
    gains = [gain for _, gain in effect.gains]
    label = value_label(card.question.axis, decision.value)
    text = f"{label} {factors(gains)}" if gains else label
    if decision.kind == rule.DEPENDS:
        return Square(f"depends, {text}", "depends", decided)
    style = "reference" if decision.value == card.reference else "candidate"
    return Square(text, style, f"faster in {len(gains)} of {len(cases)} cases")


def situations_of(results: Results) -> list[tuple[str, Where, Situation]]:
    """Return each situation with its label, and the axis values for the filter of the page."""
    situations = results.advice.situations
    shown = varying([situation.where for situation in situations], results.order)
    return [(case_label(s.where, shown), _present(s.where), s) for s in situations]


def choice(axes: Where) -> str:
    """Return the labels of a combination: `f7, packed`."""
    return ", ".join(value_label(axis, value) for axis, value in axes.items())

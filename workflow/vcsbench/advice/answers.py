"""The cards of a study, as plain data: a card for the user's mix, then one for each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vcsbench.advice.blocks import Terms
from vcsbench.advice.cards import ALIKE, DEPENDS, UNTOLD, Card, Question, Teller
from vcsbench.advice.cases import Case, of_effects, of_table
from vcsbench.advice.mix import Entry, card_of, weighed
from vcsbench.advice.overall import Rounds, card_over_all
from vcsbench.advice.recommend import Told
from vcsbench.compare.bounds import NOT_MEASURED
from vcsbench.metrics import DEFAULT, name_in
from vcsbench.words import enumeration

# A table of the study: its definition, and its rows.
Row = Mapping[Any, Any]
Table = tuple[Mapping[str, Any], Sequence[Row]]


@dataclass(frozen=True)
class Asked:
    """What a study asks: its `questions` by axis, what to type for a value where they do not say it, and the
    mix."""

    questions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    typed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    mix: Sequence[Entry] = ()


def cards(told: Told, terms: Terms, tables: Sequence[Table], asked: Asked) -> list[dict[str, Any]]:
    """The cards: that of the mix first, then what the study asks, what is plain before what depends and what
    is not told, then what else was compared. `tables` are the study's that compare something that has
    noise."""
    items = told.advice["recommendations"]
    compared = {effect["axis"] for item in items for effect in item.get("effects", [])}
    axes = [*asked.questions, *(axis for axis in terms.order if axis in compared)]
    found = []
    for axis in dict.fromkeys(axes):
        question = Question(axis, asked.questions.get(axis, {}), asked.typed.get(axis, {}))
        found.append(_card(question, told, terms, tables))
    asks = len(asked.questions)
    found = sorted(found[:asks], key=_how_plain) + found[asks:]
    if asked.mix:
        found.insert(0, card_of(weighed(told.blocks, asked.mix), asked.mix))
    return [card.as_data() for card in found]


def _how_plain(card: Card) -> int:
    """0 for an answer to act on, more for what says less: who reads one card only reads the first."""
    less = ("", DEPENDS, ALIKE, UNTOLD, NOT_MEASURED)
    said = NOT_MEASURED if card.answer == NOT_MEASURED else card.kind
    return less.index(said) if said in less else 0


def _card(question: Question, told: Told, terms: Terms, tables: Sequence[Table]) -> Card:
    items = told.advice["recommendations"]
    rows = _rows(question.axis, tables)
    if question.given.get("aggregate"):
        rounds = Rounds(told.rounds, terms.order, terms.block, told.noise)
        return card_over_all(question, rows, rounds, terms.limits)
    if question.axis in terms.given or question.given.get("vs_baseline"):
        # What it depends on is looked for in this order: what is run before how it was set up.
        axes = dict.fromkeys([*terms.given, *terms.order])
        others = [axis for axis in axes if axis in terms.order and axis != question.axis]
        between = question.given.get("values", ())
        cases = of_table(rows, others, terms.metric.words, between)
    else:
        cases = of_effects(items, question.axis, told.advice["given"])
    return Teller(question, cases, terms.metric, terms.limits).card(_why_not(cases, items))


def _rows(axis: str, tables: Sequence[Table]) -> list[Row]:
    """Of the tables that compare an axis: the rows of all, each two cells once."""
    found: dict[tuple[str, ...], Row] = {}
    for definition, rows in tables:
        compare = definition.get("compare") or {}
        plain = not {"by", "reduce"} & definition.keys()
        if compare.get("axis") == axis and name_in(definition) == DEFAULT and plain:
            for row in rows:
                where = (f"{k}={v}" for k, v in row.items() if isinstance(v, str) and k not in SAID)
                found.setdefault(tuple(where), row)
    return list(found.values())


# Columns of a table that tell of a ratio, and not which cells it is of.
SAID = ("table", "flags", "withheld", "call")


def _why_not(cases: Sequence[Case], items: Sequence[Mapping[str, Any]]) -> str:
    """Why nothing was compared where that is so; "" where each case had one value."""
    reasons = dict.fromkeys(item["why_not"] for item in items if item["why_not"])
    choice = [why for why in reasons if not why.startswith("There was nothing")]
    return "" if cases else enumeration(choice)

"""The answer to a question as data: its kind, and the value to choose. report/answer_texts.py has its texts.

An answer is for a reader of the page who has picked the values that he has, or over all cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vcsbench.advice.decision import Case
from vcsbench.advice.effects import CombinedEffect, combine_effects, effect_in_case
from vcsbench.advice.questions import CardQuestion
from vcsbench.codes import AnswerKind
from vcsbench.metrics import DEFAULT_METRIC


@dataclass(frozen=True)
class Answer:
    """An answer: its kind, and the value to choose, "" if it recommends none."""

    kind: AnswerKind = AnswerKind.NOT_MEASURED
    value: str = ""


NO_ANSWER = Answer()


@dataclass(frozen=True)
class AnswerBasis:
    """The facts from which the answer for a reader is made.

    `kind` and `value` are what the `cases` recommend to a reader whose value is unknown. `reference` is the
    value that most readers have (Card.reference). Gains are over it, unless `current` is known: the value
    that this reader has, "" if it is unknown. `has_workload`: the cases are weighted by the user's workload.
    The cases compare values by `metric`.
    """

    question: CardQuestion
    kind: AnswerKind
    value: str
    cases: Sequence[Case]
    reference: str
    current: str
    min_effect_pct: float
    has_workload: bool
    metric: str = DEFAULT_METRIC


class Recommendation(NamedTuple):
    """The value to recommend, such as f7, and its effect over the value `against`, such as f6."""

    value: str
    against: str
    effect: CombinedEffect


def make_answer(basis: AnswerBasis) -> Answer:
    """Return the answer for the reader of the basis."""
    if basis.kind not in (AnswerKind.VALUE, AnswerKind.DEPENDS):
        return Answer(basis.kind, basis.value)
    # A question about a cost, such as the cost of https, recommends no value.
    if basis.question.is_cost:
        return Answer(AnswerKind.COST)
    if shows_no_difference(basis):
        return Answer(basis.kind)
    return Answer(basis.kind, recommend_value(basis).value)


def recommend_value(basis: AnswerBasis) -> Recommendation:
    """Return the value of the basis, or the reader's current value if the former is never faster.

    If the reader should change his value, the effect of the change is over the current value. Otherwise, the
    effect is over the reference (the value that most readers have): nothing changes, or the current value is
    unknown.
    """
    current = basis.current
    has_other_value = current not in ("", basis.value)
    if has_other_value:
        change = combine_effects(basis.value, basis.cases, against=current)
        if change.gains:
            return Recommendation(basis.value, current, change)
    recommended = current if has_other_value else basis.value
    effect = combine_effects(recommended, basis.cases, against=basis.reference)
    return Recommendation(recommended, basis.reference, effect)


def shows_no_difference(basis: AnswerBasis) -> bool:
    """Return True if no case shows that the choice matters to a reader whose value is unknown.

    The recommended value is then neither faster nor slower in any case, so the answer recommends none.
    """
    if basis.kind != AnswerKind.VALUE or basis.current:
        return False
    for case in basis.cases:
        compared = compared_in_case(basis.value, case, basis.reference)
        effect = effect_in_case(basis.value, case, compared)
        if effect.gain is not None or effect.loss is not None:
            return False
    return True


def compared_in_case(value: str, case: Case, reference: str) -> str:
    """Return the value with which `value` is compared in a case: the reference, or the case's baseline.

    A case without the reference (such as many packs) has `value` compared with its baseline (such as one
    pack). A case without `value` shows nothing about `value`, and counts as one of the reference.
    """
    has_baseline_only = case.compares(value) and not case.compares(reference)
    return case.baseline if has_baseline_only else reference

"""The answer of a card with its texts, for tests."""

from typing import NamedTuple

from vcsbench.codes import AnswerKind
from vcsbench.report.answer_texts import AnswerText, describe_answer
from vcsbench.report.card_texts import describe_answers


class Answered(NamedTuple):
    """An answer: its kind and value (Answer), and its texts (AnswerText)."""

    kind: AnswerKind
    value: str
    short: str
    sentence: str
    effect: str
    against: str


def answered(card, picks=None):
    """Return the answer of a card over all cases, or for a reader with picks."""
    if picks:
        return joined(card.answer_for(picks), describe_answer(card.basis_for(picks)))
    return joined(card.answer, describe_answers(card)[0])


def joined(answer, text: AnswerText):
    return Answered(answer.kind, answer.value, text.short, text.sentence, text.effect, text.against)

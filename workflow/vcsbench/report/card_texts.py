"""The texts of a card: its answers, and the sentences on its candidates, its workload and what is missing."""

from typing import NamedTuple

from vcsbench.advice import labels
from vcsbench.advice.cards import Card, RoleCard, fits
from vcsbench.codes import AnswerKind
from vcsbench.metrics import METRICS
from vcsbench.report import candidate_texts, capacity_texts
from vcsbench.report.answer_texts import AnswerText, describe_answer
from vcsbench.report.results import grouped_by
from vcsbench.words import count_of


class RoleText(NamedTuple):
    """An answer, and for whom it is: `For a server with many clones an hour (server CPU time)`."""

    scope: str
    answer: AnswerText

    @property
    def text(self) -> str:
        """Return the answer: `one pack + bitmap: warm fetch 5.0x less`, or `equal: within 10 %`."""
        return f"{self.answer.short}: {self.answer.effect}"


def describe_answers(card: Card) -> list[AnswerText]:
    """Return the texts of the answers of a card, over all cases; the first is for the whole card.

    A question with `aggregate`, such as that about builds or capacity, has one for each candidate or case.
    """
    return describe_aggregate(card) or [_describe_single_answer(card)]


def describe_lines(card: Card) -> list[str]:
    """Return all sentences on an aggregate card below its answers, [] for any other card."""
    if not card.question.aggregate:
        return []
    if card.question.doubles:
        return capacity_texts.describe_loads(card) + describe_missing_values(card)
    noise = candidate_texts.describe_noise_checks(card)
    return noise + describe_missing_values(card) + describe_notes(card)


def describe_notes(card: Card) -> list[str]:
    """Return sentences on the user's workload, and on comparisons without a result."""
    notes = []
    for operation in card.workload:
        matching = [case for case in card.cases if fits(case.where, operation.where)]
        if not any(case.is_decided for case in matching):
            name = f"{operation.name} ({operation.weight:g} %)"
            notes.append(f"Your workload's {name} has no result here.")
    if card.withheld:
        # The most frequent reason: `8 comparisons left out (5 of them): measured on ...`.
        groups = grouped_by(card.withheld, lambda withheld: (withheld.codes, withheld.detail))
        largest = max(groups.values(), key=len)
        share = f" ({len(largest)} of them)" if len(groups) > 1 else ""
        left_out = f"{count_of(len(card.withheld), 'comparison')} left out{share}"
        notes.append(f"{left_out}: {largest[0].reason}")
    return notes


def describe_missing_values(card: Card) -> list[str]:
    """Return `f8: 4 cells not measured: svnadmin is too old.` for each value without a comparison."""
    axis = card.question.axis
    return [missing.sentence(labels.value_label(axis, missing.value)) for missing in card.missing]


def describe_role(role: RoleCard) -> RoleText:
    """Return the texts of the answer by another metric than the elapsed time."""
    title = METRICS[role.card.metric].title
    scope = f"For {role.reader} ({title[0].lower()}{title[1:]})"
    return RoleText(scope, describe_answer(role.card.basis_for({})))


def describe_aggregate(card: Card) -> list[AnswerText]:
    """Return the texts of the answers for candidates or capacities, [] without one."""
    if not card.question.aggregate:
        return []
    if card.question.doubles:
        return capacity_texts.describe_capacities(card)
    return candidate_texts.describe_candidates(card)


def _describe_single_answer(card: Card) -> AnswerText:
    """Return the texts of the answer of a card without candidates."""
    if card.question.doubles:
        text = str(AnswerKind.NOT_MEASURED)
        return AnswerText(text, sentence="", effect="")
    if card.question.aggregate:
        return candidate_texts.describe_no_candidate(card)
    return describe_answer(card.basis_for({}))

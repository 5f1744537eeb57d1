"""The candidates of a card with one answer over all cells, such as builds.

A study compares the first build (the baseline) with each other build (a candidate). A candidate with the
binaries of the baseline is a noise check (A/A test) and gets no answer: any difference is noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vcsbench.advice.answers import Answer
from vcsbench.advice.cards import UNKNOWN_AVERAGE, AverageRatio, Card
from vcsbench.advice.decision import Case, Pair
from vcsbench.codes import AnswerKind, Result


@dataclass(frozen=True)
class Candidate:
    """A candidate, such as a build, with its comparisons with the baseline, and their mean ratio."""

    name: str
    pairs: Sequence[Pair]
    average: AverageRatio

    @property
    def is_noise_check(self) -> bool:
        return all(pair.is_noise_check for pair in self.pairs)

    @property
    def answer(self) -> Answer:
        """Return the answer for the candidate. A build that is slower in any pair (DEPENDS) is no advice."""
        results = {pair.result for pair in self.pairs}
        if Result.DIFFERENT in results:
            ratios = [pair.ratio for pair in self.pairs if pair.result == Result.DIFFERENT]
            if min(ratios) < 1:
                return Answer(AnswerKind.DEPENDS)
            return Answer(AnswerKind.VALUE, self.name)
        return Answer(AnswerKind.EQUAL if Result.EQUAL in results else AnswerKind.UNDECIDED)


def list_candidates(card: Card) -> list[Candidate]:
    """Return the candidates of a card with averages, each with its pairs over all cases."""
    candidates = []
    for name, members in pairs_by_candidate(card.cases).items():
        pairs = [pair for _, pair in members]
        candidates.append(Candidate(name, pairs, card.averages.get(name, UNKNOWN_AVERAGE)))
    return candidates


def pairs_by_candidate(cases: Sequence[Case]) -> dict[str, list[tuple[Case, Pair]]]:
    """Return the comparisons of each candidate, each with its case."""
    members: dict[str, list[tuple[Case, Pair]]] = {}
    for case in cases:
        for pair in case.pairs:
            members.setdefault(pair.candidate, []).append((case, pair))
    return members

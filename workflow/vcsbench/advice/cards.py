"""Cards: one answer for each question of a study, with its cases; and the best choice in each situation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pydantic import TypeAdapter

from vcsbench.advice import decision
from vcsbench.advice.answer_texts import (
    ACCESS,
    NO_ANSWER,
    Answer,
    answer_with_choice,
    answer_without_choice,
    is_benchmark,
)
from vcsbench.advice.decision import Case, Missing, Pair, Row, Where, Withheld
from vcsbench.advice.labels import CardQuestion
from vcsbench.codes import AnswerKind, Call, WhyNoBest
from vcsbench.config.study import matches_cell
from vcsbench.statistics import texts
from vcsbench.statistics.comparisons import Limits
from vcsbench.words import count_of


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
    answer: Answer = NO_ANSWER
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
        chosen = []
        for number, case in enumerate(self.cases):
            is_compared = any(has_side(pair, current) for pair in case.pairs)
            if is_compared and fits(case.where, picks):
                chosen.append(number)
        for_work = [number for number in chosen if not is_benchmark(self.cases[number].where)]
        is_undecided = for_work and not any(self.cases[n].decides(current) for n in for_work)
        if is_undecided or self.question.axis == ACCESS:
            chosen = for_work
        cases = [self.cases[number] for number in chosen]
        if current:
            chosen = [number for number in chosen if current in self.cases[number].costs]
        deciding = [self.cases[number] for number in chosen]
        weights = [self.weights[number] for number in chosen] if self.weights else []
        limits = Limits(self.min_effect_pct)
        kind, value = decision.recommend(deciding, self.reference, limits, weights)
        if kind == AnswerKind.NOT_MEASURED:
            withheld = (c for c in self.withheld if fits(c.where, picks) and has_side(c, current))
            if cases:
                kind = AnswerKind.UNDECIDED
            elif any(withheld):
                kind = AnswerKind.NOT_COMPARED
        if kind not in (AnswerKind.VALUE, AnswerKind.DEPENDS):
            return answer_without_choice(kind, value, cases, current, self.min_effect_pct)
        effect = self.min_effect_pct
        settings = (self.reference, current, effect, bool(self.weights))
        return answer_with_choice(self.question, kind, value, cases, *settings)


@dataclass(frozen=True)
class Choice:
    """A choice of values with its mean in `seconds`; `ratio` is over the best time.

    `call` compares it with the best choice: slower, equal, bounded or undecided.
    """

    values: Where
    seconds: float
    ratio: float = 1.0
    call: Call = Call.UNDECIDED

    @property
    def is_slower(self) -> bool:
        return self.call == Call.SLOWER

    @property
    def is_equal(self) -> bool:
        return self.call == Call.EQUAL


@dataclass(frozen=True)
class Situation:
    """The choices in the cells of one scenario, the best one first.

    `why` is the reason for no best choice. `other_work` maps choices that did other work to the figures.
    """

    where: Where
    choices: Sequence[Choice] = ()
    why: WhyNoBest | None = None
    other_work: Sequence[tuple[Where, str]] = ()

    @property
    def why_not(self) -> str:
        return texts.NO_BEST[self.why] if self.why else ""

    @property
    def best(self) -> Choice | None:
        return self.choices[0] if self.choices else None

    @property
    def gain(self) -> float | None:
        """Return the factor over the slowest choice, None if it is not shown to be slower."""
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
    weights = [0.0] * len(cases) if workload else []
    notes = []
    for operation in workload:
        matching = [n for n, case in enumerate(cases) if fits(case.where, operation["where"])]
        for n in matching:
            weights[n] += operation["weight"] / len(matching)
        if not any(cases[n].is_decided for n in matching):
            name = f"{operation['name']} ({operation['weight']:g} %)"
            notes.append(f"Your workload's {name} has no result here.")
    reasons = Counter(comparison.reason for comparison in withheld)
    for reason, number in reasons.most_common(1):
        share = f" ({number} of them)" if len(reasons) > 1 else ""
        notes.append(f"{count_of(len(withheld), 'comparison')} left out{share}: {reason}")
    card = Card(
        question,
        reference,
        shown,
        cases,
        min_effect_pct=min_effect_pct,
        weights=weights,
        missing=missing,
        notes=notes,
        withheld=withheld,
    )
    return replace(card, answer=card.answer_for({}))

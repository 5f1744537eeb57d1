"""The answers: a card for each question that a reader has to decide, from what was compared of its axis.

Nothing is averaged over what the reader cannot change: a card counts cases, and names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from vcsbench.advice.cases import Case, by_values, depends_on, meet, sides_of
from vcsbench.advice.sentences import NAMED, Sentences, factor
from vcsbench.compare.bounds import NOT_MEASURED
from vcsbench.compare.decisions import USUAL, Limits
from vcsbench.metrics import DEFAULT, Metric, metric_of
from vcsbench.words import capital, enumeration

YES, NO, DEPENDS, ALIKE, UNTOLD = "yes", "no", "it depends", "no difference", "not told"
NOTHING = "Nothing that was measured compares two of them."
TO_MEASURE = "To measure it"
NAME_TWO = "Name several values of `{}` in one part of the study's `grid`, all else being the same."
# In fewer of the cases than this share, something is better in some cases only.
MOST = 0.5
# What is better in this share of the cases that were told is so mostly, though another is somewhere.
MOSTLY = 0.8


@dataclass(frozen=True)
class Card:
    """The answer to a question about an axis: `answer` is yes, no, the values that are better somewhere and
    worse nowhere, `it depends`, `no difference`, `not told` or `not measured`, and `kind` says which of these
    (`value` for values). `said` says it in a sentence, `gain` by how much, `parts` on what it depends
    or what it gains where, `costs` where another value is better or nothing was told. `do` is what to type,
    `cases` is all that was compared."""

    axis: str
    ask: str
    kind: str
    answer: str
    said: str
    gain: str = ""
    parts: list[str] = field(default_factory=list)
    costs: list[str] = field(default_factory=list)
    do: list[dict[str, str]] = field(default_factory=list)
    cases: list[dict[str, Any]] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Question:
    """What is asked of an axis, as the study's file says it; `typed` is what to type where that is silent."""

    axis: str
    given: Mapping[str, Any] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)

    @property
    def ask(self) -> str:
        """The question."""
        return str(self.given.get("question", f"Which {self.axis.replace('_', ' ')}?"))

    def answer(self, good: Sequence[str]) -> tuple[str, str]:
        """The kind of the answer that some values are, and the answer."""
        if "yes_value" not in self.given:
            return "value", enumeration(good, "or")
        kind = YES if good == [self.given["yes_value"]] else NO
        return ("value", enumeration(good, "or")) if len(good) > 1 else (kind, kind)

    def measure(self) -> dict[str, str]:
        """What to type where no two values of it were measured, and what that does."""
        given = {"note": NAME_TWO.format(self.axis)} | self.given.get("how_to_measure", {})
        return {"value": TO_MEASURE, "command": "", **given}

    def do(self, values: Sequence[str]) -> list[dict[str, str]]:
        """What to type to get each of these values, and what that does."""
        said = [(value, self.given.get("actions", {}).get(value, {})) for value in values]
        found = [
            {
                "value": v,
                "command": one.get("command", self.typed.get(v, "")),
                "note": one.get("note", ""),
            }
            for v, one in said
        ]
        return [one for one in found if one["command"] or one["note"]]


class Teller:
    """Makes the card of a question from its cases."""

    def __init__(
        self,
        question: Question,
        cases: Sequence[Case],
        metric: Metric | None = None,
        limits: Limits = USUAL,
    ) -> None:
        metric = metric or metric_of(DEFAULT)
        self.question, self.cases, self.limits = question, cases, limits
        self.words, self.say = metric.words, Sentences(metric)
        axes = dict.fromkeys(axis for case in cases for axis in case.where)
        # What all cases have alike tells none apart.
        self.told = [a for a in axes if len({case.where.get(a) for case in cases}) > 1]
        self.sides = sides_of(cases, self.words.better, limits.min_rounds)

    def card(self, why_not: str = "") -> Card:
        """The card; `why_not` is why nothing was compared."""
        question, sides = self.question, self.sides
        if not self.cases:
            answer, do = (UNTOLD, []) if why_not else (NOT_MEASURED, [question.measure()])
            return Card(question.axis, question.ask, UNTOLD, answer, why_not or NOTHING, do=do)
        if not sides.clear:
            kind = UNTOLD if sides.untold or sides.few else ALIKE
            card = Card(question.axis, question.ask, kind, kind, self._nothing_clear())
            return self._with(card, [], self._quiet() if kind == UNTOLD else [])
        good = sides.good
        wins = [case for case in sides.clear if case.better in good]
        if not good or any(self._is_elsewhere(case, good) for case in sides.clear):
            return self._depends()
        kind, answer = question.answer(good)
        said = f"{enumeration(good, 'or')} {self.words.is_better} in {self._of(wins)}"
        said += f" and {self.words.worse} in none."
        if len(wins) < MOST * len(self.cases):
            kind = answer = DEPENDS
            said = f"Only in some cases: {said}"
        card = Card(question.axis, question.ask, kind, answer, said, capital(self._gain(wins)))
        return replace(self._with(card, good, self._quiet()), parts=self._apart(wins))

    def _is_elsewhere(self, case: Case, good: Sequence[str]) -> bool:
        """Whether a case was won by what is none of the best values where none of these was measured: what is
        best elsewhere is nothing to choose there."""
        return case.better not in good and not any(
            {other.better, other.worse} & set(good) and meet(other, case, self.told)
            for other in self.cases
        )

    def _apart(self, wins: Sequence[Case]) -> list[str]:
        """What a plain answer gains, for each value of the axis that the question names for that."""
        axis = self.question.given.get("per_axis", "")
        if axis not in self.told:
            return []
        whole = by_values(self.cases, [axis])
        clear = by_values(wins, [axis])
        return [self._part({axis: v[0]}, clear[v], len(whole[v])) for v in whole if v in clear]

    def _with(self, card: Card, values: Sequence[str], costs: list[str]) -> Card:
        rows = [self._row(case) for case in self.cases]
        return replace(card, costs=costs, do=self.question.do(values), cases=rows)

    def _depends(self) -> Card:
        """Of an axis of which each value is worse somewhere."""
        clear = self.sides.clear
        on = depends_on(clear, self.told)
        names = enumeration([axis.replace("_", " ") for axis in on])
        groups = by_values(clear, on) if on else {}
        whole = by_values(self.cases, on)
        parts = [
            self._part(dict(zip(on, values, strict=True)), some, len(whole[values]))
            for values, some in groups.items()
        ]
        wins: dict[str, list[Case]] = {}
        for case in clear:
            wins.setdefault(case.better, []).append(case)
        (first, some), *others = sorted(wins.items(), key=lambda one: -len(one[1]))
        answer = f"it depends on {_the_access(names)}" if on else DEPENDS
        if len(some) >= max(MOSTLY * len(clear), MOST * len(self.cases)):
            answer = f"mostly {first}"
        counted = [f"{first} {self.words.is_better} in {len(some)}"]
        counted += [f"{value} in {len(some)}" for value, some in others]
        said = f"Of {len(self.cases)} cases {enumeration(counted)}."
        gain = f"{first}: {self._gain(some)}"
        card = Card(self.question.axis, self.question.ask, DEPENDS, answer, said, gain, parts)
        return self._with(card, list(wins), [*self._losses(wins), *self._quiet()])

    def _part(self, values: Mapping[str, str], cases: Sequence[Case], whole: int) -> str:
        """`pack: f7 in 6 of 8 cases, 1.20 times as fast in the least of them, 2.80 in the most`: what the
        cases with some values tell."""
        where = self.say.choice(values)
        good = sides_of(cases, self.words.better).good
        if not good:
            return f"{where}: one here, another there"
        often = f" in {len(cases)} of {whole} cases" if whole > 1 else ""
        return f"{where}: {enumeration(good, 'or')}{often}, {self._span(cases)}"

    def _losses(self, wins: Mapping[str, list[Case]]) -> list[str]:
        """Of each value but the one that is better most often, where it is better."""
        most = max(wins, key=lambda value: len(wins[value]))
        return [
            f"{value} {self.words.is_better}: {self._named(some, times=True)}."
            for value, some in wins.items()
            if value != most
        ]

    def _quiet(self) -> list[str]:
        """Where no difference was shown, and where nothing was told."""
        said = []
        if self.sides.alike:
            said.append(f"No difference of {self._notable} shown: {self._named(self.sides.alike)}.")
        if self.sides.untold:
            said.append(f"Not told, for runs scatter too much: {self._named(self.sides.untold)}.")
        if self.sides.few:
            said.append(f"Not told, for {self._few}: {self._named(self.sides.few)}.")
        return said

    @property
    def _few(self) -> str:
        return f"fewer than {self.limits.min_rounds} rounds were measured"

    def _nothing_clear(self) -> str:
        alike, untold = self.sides.alike, self.sides.untold
        if not untold and not self.sides.few:
            return f"No difference of {self._notable} is shown in {self._of(alike)}."
        why = f"Runs scatter too much in {self._of(untold)}; " if untold else ""
        if self.sides.few:
            why += f"{self._few} in {self._of(self.sides.few)}; "
        return capital(f"{why}none shows which is {self.words.better}.")

    @property
    def _notable(self) -> str:
        return f"{self.limits.min_effect_pct:g} %"

    def _of(self, some: Sequence[Case]) -> str:
        """`15 of 20 cases`."""
        if len(self.cases) == 1:
            return "the one case"
        if len(some) == len(self.cases):
            return f"all {len(some)} cases"
        return f"{len(some)} of {len(self.cases)} cases"

    def _gain(self, clear: Sequence[Case]) -> str:
        """By how much at the most, and at the least of those in which something is gained, and where."""
        most, least = max(clear, key=_ratio), min(clear, key=_ratio)
        said = f"at the most {self._times(most)}{self._at(most)}"
        return (
            f"{said}."
            if most is least
            else f"{said}; the least of these {len(clear)}: {self._times(least)}{self._at(least)}."
        )

    def _times(self, case: Case) -> str:
        ratio, low, high = map(factor, (case.ratio, case.low, case.high))
        return f"{ratio} times {self.words.as_good} {case.worse} (95 %: {low} to {high})"

    def _span(self, cases: Sequence[Case]) -> str:
        least, most = (factor(f(cases, key=_ratio).ratio) for f in (min, max))
        said = f"{least} times {self.words.as_good.removesuffix(' as')}"
        return said if least == most else f"{said} in the least of them, {most} in the most"

    def _at(self, case: Case) -> str:
        """`: log cold over svn, all with f7, config slow`."""
        where = self.label(case)
        held = self.say.choice({a: v for a, v in case.fixed.items() if v})
        told = ", ".join(filter(None, [where, held and f"all with {held}"]))
        return f": {told}" if told else ""

    def label(self, case: Case) -> str:
        """A case by what tells it from the others: `log cold over svn, pack`."""
        one = {a: case.where[a][0] for a in self.told if len(case.where.get(a, ())) == 1}
        several = [
            enumeration([self.say.choice({a: value}) for value in case.where[a]], "or")
            for a in self.told
            if len(case.where.get(a, ())) > 1
        ]
        return ", ".join(filter(None, [self.say.choice(one), *several]))

    def _named(self, cases: Sequence[Case], times: bool = False) -> str:
        """Cases by their names; of many the first and how many more."""
        if len(cases) == len(self.cases):
            return f"all {len(cases)} cases" if len(cases) > 1 else "the one case"
        # Where several values are compared with others, the same place stands for several cases.
        several = not times and len({frozenset((c.better, c.worse)) for c in self.cases}) > 1
        names = [
            self.label(c)
            + (f" ({factor(c.ratio)} times)" if times else "")
            + (f" ({c.better} or {c.worse})" if several else "")
            for c in cases
        ]
        more = len(names) - NAMED
        # One more is as soon named as counted.
        return "; ".join(names if more < 2 else [*names[:NAMED], f"and {more} more"])

    def _row(self, case: Case) -> dict[str, Any]:
        numbers = {"ratio": case.ratio, "low": case.low, "high": case.high}
        told = {"better": case.better, "worse": case.worse, "call": case.call}
        return {"where": self.label(case) or "all cells", **told, **numbers}


def _ratio(case: Case) -> float:
    return case.ratio


def _the_access(names: str) -> str:
    """`ra` in words."""
    return " ".join("the access" if word == "ra" else word for word in names.split())

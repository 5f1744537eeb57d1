"""Advice in short sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench.axes import axis_of
from vcsbench.compare.decisions import NOT_SHOWN, TOO_NOISY
from vcsbench.metrics.metric import Metric
from vcsbench.words import enumeration, significant

# So many choices without a difference are named; of more, only what they have in common.
NAMED = 4


@dataclass(frozen=True)
class Call:
    """The best value of an axis in a block and by how much, or why there is none (NOT_SHOWN, TOO_NOISY). The
    block is told by `of`, and the value of its last axis."""

    value: str
    ratio: float
    of: str
    last: str
    but_for: tuple[str, ...] = ()  # the choices for which it is the other way round


class Sentences:
    """Says it in a metric's words."""

    def __init__(self, metric: Metric) -> None:
        self.words = metric.words
        self.unit = metric.unit

    def choice(self, axes: Mapping[str, str]) -> str:
        """A choice in words: `svn f7 pack, config fast`."""
        speaking = " ".join(v for name, v in axes.items() if axis_of(name).speaks and v)
        others = [f"{name} {v}" for name, v in axes.items() if not axis_of(name).speaks and v]
        return ", ".join(filter(None, [speaking, *others]))

    def overall(self, item: Mapping[str, Any]) -> str:
        """Which choice is best and by how much, or between which no difference is shown."""
        choice, best, worst = self.choice, item["fastest"], item["slowest"]
        within = f", all with {choice(item['fixed'])}" if item["fixed"] else ""
        last = f"{self._times(worst['comparison'])} the {self.words.worst}, {choice(worst['axes'])}"
        value = f"{significant(best['median_s'])} {self.unit}"
        winner = f"{_capital(self.words.best)}: {choice(item['choice'])} ({value}{within})"
        if not item["tied"]:
            next_one = item["runner_up"]
            second = self._times(next_one["comparison"], " over the rounds")
            if next_one["axes"] == worst["axes"]:
                return f"{winner}, {second} {choice(next_one['axes'])}."
            return f"{winner}, {second} the next, {choice(next_one['axes'])}, and {last}."
        tied = [(choice(t["axes"]), t["call"]) for t in item["tied"]]
        untold = _capital(self._untold(choice(best["axes"]), tied))
        if not item["choice"]:
            return f"{untold}{within}: nothing is recommended."
        if worst["comparison"]["call"] == self.words.better:
            winner += f", {last}"
        return f"{winner}. {untold}."

    def axis(self, name: str, comparisons: Sequence[Mapping[str, Any]]) -> str:
        """What the values of an axis make of it, others equal: the best against each of the rest."""
        best = comparisons[0]["faster"]
        better = [
            f"{self._times(c)} {c['slower']}{self._but(map(self.choice, c['but_for']))}"
            for c in comparisons
            if c["call"] == self.words.better
        ]
        told = f"{best} is {enumeration(better)}" if better else ""
        untold = self._untold(best, [(c["slower"], c["call"]) for c in comparisons])
        return f"{name}: {'; '.join(filter(None, [told, untold]))}."

    def other_work(self, found: Sequence[Mapping[str, Any]]) -> list[str]:
        """That choices are not compared for what they did, those with the same reason together."""
        by_reason: dict[str, list[str]] = {}
        for one in found:
            names = by_reason.setdefault(one["reason"], [])
            names.append(self.choice(one["axes"]) or "the only choice")
        return [
            f"Not compared with the others, for what was done differs: {'; '.join(names)} ({reason})."
            for reason, names in by_reason.items()
        ]

    def over_blocks(self, name: str, calls: Sequence[Call], blocks: int) -> str:
        """What an axis makes of all `blocks`; `calls` are of those that have a choice of it."""
        parts = []
        for value in dict.fromkeys(call.value for call in calls):
            agreeing = [call for call in calls if call.value == value]
            where = "everything" if len(agreeing) == blocks else _where(agreeing)
            if value in (NOT_SHOWN, TOO_NOISY):
                parts.append(f"{value} for {where}")
                continue
            ratios = [call.ratio for call in agreeing]
            span = dict.fromkeys(map(significant, (min(ratios), max(ratios))))
            times = f"{' to '.join(span)} times {self.words.as_good} the next"
            but = self._but(dict.fromkeys(name for call in agreeing for name in call.but_for))
            parts.append(f"{value} is {self.words.best} for {where}, {times}{but}")
        return f"{name}: {'; '.join(parts)}."

    def _but(self, exceptions: Iterable[str]) -> str:
        names = list(exceptions)
        return f" (but {self.words.worse} for {enumeration(names)})" if names else ""

    def _untold(self, best: str, others: Sequence[tuple[str, str]]) -> str:
        """What the best is not told from, of others with their calls; "" if there is none."""
        parts = []
        for words, wanted, joint in (
            ("no difference shown between", NOT_SHOWN, "and"),
            ("too noisy to tell", TOO_NOISY, "from"),
            ("elsewhere", self.words.worse, f"is not {self.words.better} than"),
        ):
            names = [name for name, call in others if call == wanted]
            several = f"{len(names)} others" if len(names) > NAMED else _joined(names, joint)
            if names:
                parts.append(f"{words} {best} {joint} {several}")
        return "; ".join(parts)

    def _times(self, comparison: Mapping[str, Any], what: str = "") -> str:
        ratio, low, high = (_factor(comparison[name]) for name in ("ratio", "smallest", "largest"))
        return f"{ratio} times ({low} to {high}{what}) {self.words.as_good}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _joined(names: Sequence[str], joint: str) -> str:
    # Choices of several words, with commas among them, are told apart by semicolons.
    if any(" " in name for name in names):
        return "; ".join(names)
    return enumeration(names)


def unknown_noise(unknown: int, comparisons: int) -> list[str]:
    """That comparisons have no noise floor, and what to do about it."""
    if not unknown:
        return []
    which = "the" if unknown == comparisons else f"{unknown} of the {comparisons}"
    return [
        f"Too few cells were measured twice to know the noise of {which} comparisons: "
        "set `twins` to 1 or more."
    ]


def _where(calls: Sequence[Call]) -> str:
    lasts: dict[str, list[str]] = {}
    for call in calls:
        lasts.setdefault(call.of, []).append(call.last)
    return enumeration([f"{of} ({', '.join(found)})" for of, found in lasts.items()])


def _factor(ratio: float) -> str:
    # A ratio just above 1 is not written as 1.00.
    return significant(ratio, 4 if 0.99 < ratio < 1.01 else 3)

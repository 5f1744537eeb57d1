"""Advice in short sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vcsbench.axes import axis_of
from vcsbench.compare.decisions import NOT_SHOWN, TOO_NOISY
from vcsbench.compare.noise import Noise
from vcsbench.metrics import Metric
from vcsbench.words import capital, enumeration, significant

# So many are named; of more it is said how many they are.
NAMED = 4

# How it is said that two values are not told apart.
UNTOLD = (
    (NOT_SHOWN, "no difference shown between", "and"),
    (TOO_NOISY, "too noisy to tell", "from"),
)

Axes = Mapping[str, str]
Effects = Sequence[Mapping[str, Any]]


class Sentences:
    """Says it in a metric's words."""

    def __init__(self, metric: Metric) -> None:
        self.words = metric.words
        self.unit = metric.unit

    def choice(self, axes: Axes) -> str:
        """A choice in words: `f7 pack over svn, config fast`."""
        told = [(axis_of(name), name, value) for name, value in axes.items() if value]
        speaking = [value for axis, _, value in told if axis.speaks and not axis.behind]
        behind = [(axis.behind, value) for axis, _, value in told if axis.behind]
        # By itself it is a name.
        speaking += [f"{word} {value}" if speaking else value for word, value in behind]
        others = [f"{name} {value}" for axis, name, value in told if not axis.speaks]
        return ", ".join(filter(None, [" ".join(speaking), *others]))

    def chosen(self, choices: Sequence[Axes], others: Sequence[Axes], effects: Effects) -> str:
        """What to choose: the one that is best, or what is not told from it."""
        if not others:
            calls = {effect["comparison"]["call"] for effect in effects}
            return NOT_SHOWN if calls <= {NOT_SHOWN} else TOO_NOISY
        if product := _product(choices, [*choices, *others]):
            return self._either(product)
        if len(others) < min(len(choices), NAMED):
            return f"any but {_joined([self.choice(axes) for axes in others], 'and')}"
        if len(choices) <= NAMED:
            return _joined([self.choice(axes) for axes in choices], "or")
        return f"one of {len(choices)}"

    def _either(self, product: Mapping[str, Sequence[str]]) -> str:
        """`f7 pack`, or `pack; f6 or f7` where all of the choices that have these values are meant."""
        told = {axis: values[0] for axis, values in product.items() if len(values) == 1}
        open_ = [
            _joined([self.choice({axis: value}) for value in values], "or")
            for axis, values in product.items()
            if len(values) > 1
        ]
        return "; ".join(filter(None, [self.choice(told), *open_]))

    def overall(self, item: Mapping[str, Any]) -> str:
        """Which choice is best and by how much, or which are not told from it."""
        choice, best, worst = self.choice, item["best"], item["slowest"]
        within = [f"all with {choice(item['fixed'])}"] if item["fixed"] else []
        if not item["confident"]:
            said = "".join(f" ({one})" for one in within)
            return f"None of the {len(item['choices'])} choices{said} is told from the best."
        said = ", ".join([f"median {significant(best['median_s'])} {self.unit}", *within])
        name = choice(best["axes"])
        _, *tied = map(choice, item["choices"])
        start = f"{capital(self.words.best)}: {name} ({said})"
        far = [
            f"{self._times(one['comparison'])} the {label}, {choice(one['axes'])}"
            for label, one in (("next", item["runner_up"]), (self.words.worst, worst))
            if one["comparison"]["call"] == self.words.better
            if label != "next" or one["axes"] != worst["axes"]
        ]
        if tied:
            last = far if worst["comparison"]["call"] == self.words.better else []
            return f"{', '.join([start, *last[-1:]])}. Not told from it: {_joined(tied, 'and')}."
        return f"{start}, {' and '.join(far)}." if far else f"{start}."

    def effects(self, effects: Effects) -> list[str]:
        """A sentence per axis: its best value against each of the rest, others equal."""
        axes = dict.fromkeys(effect["axis"] for effect in effects)
        return [self._axis(axis, [e for e in effects if e["axis"] == axis]) for axis in axes]

    def _axis(self, name: str, effects: Effects) -> str:
        better = [e for e in effects if e["comparison"]["call"] == self.words.better]
        parts = []
        for one in dict.fromkeys(effect["better"] for effect in better):
            of_one = [effect for effect in better if effect["better"] == one]
            said = [
                f"{self._times(e['comparison'], e['pairs'])} {e['worse']}{self._with(e)}"
                for e in of_one
            ]
            parts.append(f"{one} is {enumeration(said)}")
        for call, words, joint in UNTOLD:
            untold: dict[tuple[str, ...], list[str]] = {}
            for effect in effects:
                if effect["comparison"]["call"] == call:
                    both = tuple(sorted((effect["better"], effect["worse"])))
                    untold.setdefault(both, []).extend(map(self.choice, effect["with"]))
            parts += [
                f"{words} {one} {joint} {other}{_in(filter(None, where))}"
                for (one, other), where in untold.items()
            ]
        return f"{name}: {'; '.join(parts)}."

    def _with(self, effect: Mapping[str, Any]) -> str:
        return _in(filter(None, map(self.choice, effect["with"])))

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

    def over_blocks(self, name: str, effects: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        """What an axis makes of all blocks that have a choice of it, each with its name."""
        clear: dict[tuple[str, str], dict[str, float]] = {}
        untold: dict[str, dict[str, None]] = {TOO_NOISY: {}, NOT_SHOWN: {}}
        for block, effect in effects:
            found = effect["comparison"]
            where = f"{block}{self._with(effect)}".removeprefix(" with ")
            if found["call"] == self.words.better:
                pair = effect["better"], effect["worse"]
                clear.setdefault(pair, {})[where or "all cells"] = found["ratio"]
            else:
                untold[found["call"]][where or "all cells"] = None
        parts = [
            f"{better} is {self.words.better} than {worse} for {_by_how_much(where)}"
            for (better, worse), where in clear.items()
        ]
        for call, several in untold.items():
            named = enumeration(list(several))
            if len(several) > NAMED:
                named = f"{len(several)} others" if parts else f"all {len(several)}"
            parts += [f"{call} for {named}"] if several else []
        return f"{name}: {'; '.join(parts)}."

    def _times(self, comparison: Mapping[str, Any], pairs: int = 1) -> str:
        ratio, low, high = (factor(comparison[name]) for name in ("ratio", "low", "high"))
        mean = f", the mean of {pairs} pairs" if pairs > 1 else ""
        return f"{ratio} times (95 %: {low} to {high}{mean}) {self.words.as_good}"


def _product(chosen: Sequence[Axes], all_: Sequence[Axes]) -> dict[str, list[str]]:
    """The axes of which not every value is among the chosen, with those that are, where all choices with
    these values are chosen; {} where not."""
    axes = list(dict.fromkeys(axis for one in all_ for axis in one))
    found = {a: list(dict.fromkeys(one.get(a, "") for one in chosen)) for a in axes}
    meant = [one for one in all_ if all(one.get(a, "") in found[a] for a in axes)]
    if len(meant) > len(chosen):
        return {}
    every = {a: {one.get(a, "") for one in all_} for a in axes}
    return {a: values for a, values in found.items() if len(values) == 1 or {*values} != every[a]}


def _by_how_much(ratios: Mapping[str, float]) -> str:
    """Where something is better, and by which factor; of many where by the most and by the least."""
    told = {where: f"{where} ({factor(ratio)} times)" for where, ratio in ratios.items()}
    if len(told) <= 2 * NAMED:
        return enumeration(list(told.values()))
    most, least = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
    return f"{len(told)}, the most for {told[most]}, the least for {told[least]}"


def _in(names: Iterable[str]) -> str:
    found = list(names)
    return f" with {_joined(found, 'and')}" if found else ""


def _joined(names: Sequence[str], joint: str) -> str:
    # Choices with commas in them are told apart by semicolons.
    separator = "; " if any("," in name for name in names) else ", "
    if len(names) < 2:
        return "".join(names)
    return f"{separator.join(names[:-1])} {joint} {names[-1]}"


def unknown_noise(noise: Noise) -> list[str]:
    """That it is not known what twins differ by, and what to do about it."""
    if noise.twins_known:
        return []
    return [
        "No cell was measured twice, so their noise is not known: set `duplicates` to 1 or more."
    ]


def factor(ratio: float) -> str:
    """A ratio as it is written."""
    # A ratio just above 1 is not written as 1.00.
    return significant(ratio, 4 if 0.99 < ratio < 1.01 else 3)

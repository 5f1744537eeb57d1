"""Compare the value of a finding with its bounds, and give reasons as codes with values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vcsbench import words
from vcsbench.statistics.contract import DIFFERS, INCONCLUSIVE, NOT_MEASURED, REPRODUCED, Limits
from vcsbench.statistics.intervals import Estimate

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition

# A value that needs more rounds than this lies on its bound.
MAX_ROUNDS = 1000

# Between reasons, and between a reason and its test.
SEPARATOR, TO_TEST = "; ", " (to test: "
# Sentence of each reason, by its code.
SENTENCES = {
    "low-n": "low n: {rounds}",
    "crosses-bound": "interval: crosses a bound",
    "needs-rounds": "interval: crosses a bound, about {needed:.0f} rounds decide, {n} measured",
    "on-bound": "interval: crosses a bound, and the value lies on it",
    "reversed": "reversed: the other value is better",
    "no-metric": "no metric: {metric} was not measured",
    "hosts-differ": "hosts differ: measured on {hosts}, and numbers of different hosts are never divided",
    "fixed-cost": "mostly fixed cost: {excluded} of {total} excluded, use a larger scale",
    "not-counted": "not counted: {reason}",
    "not-in-grid": "not in the grid: cells with {cells}",
    "skipped": "skipped: {reason}",
    "no-result": "no result: all cells failed or have invalid runs",
    "partial": "measured: {measured} of {total} cells, reduced over {reduced}",
    "no-duplicates": "noise unknown: the grid has no duplicates",
    "scale": "scale: {subject} at {scale:.3g} of the published {published:g}",
    "other-storage": "storage: {measured}, published on {published}",
    "newer-version": "version: Subversion {measured}, published with {published}",
    "other-work": "other work: {reason}",
    "work-unknown": "work unknown: {reason}",
    "no-baseline": "no baseline: {name} has no results of this study, use make baseline NAME={name}",
    "not-compared": "{flag}: {excluded} of {total} cells not compared",
}


@dataclass(frozen=True)
class Reason:
    """A reason of a verdict: a code, its values, and the steps that would test it."""

    code: str
    values: Mapping[str, object] = field(default_factory=dict)
    test: str = ""

    @property
    def text(self) -> str:
        """Return the reason as a short sentence."""
        sentence = SENTENCES[self.code].format(**self.values)
        return f"{sentence}{TO_TEST}{self.test})" if self.test else sentence


def write_reasons(reasons: Iterable[Reason]) -> str:
    """Return reasons as the text of the column `why`."""
    return SEPARATOR.join(reason.text for reason in reasons)


def read_reasons(why: str) -> list[tuple[str, str]]:
    """Return the sentences in a column `why`, each with the steps that would test it, or ""."""
    parts = (text.partition(TO_TEST) for text in why.split(SEPARATOR) if text)
    return [(sentence, test.removesuffix(")")) for sentence, _, test in parts]


def bounds_text(finding: FindingDefinition) -> str:
    """Return the expected value: `1.8 to 4.0`, `at least 4.5`, `at most 0.7`."""
    low, high = (finding["expect"].get(bound) for bound in ("at_least", "at_most"))
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def is_expected(finding: FindingDefinition, value: float) -> bool:
    """Return True if the finding expects this value."""
    low, high = _bounds(finding)
    return bool(low <= value <= high)


def distance(finding: FindingDefinition, value: float) -> float:
    """Return the distance to the nearest bound; of a ratio, as a difference of logarithms."""
    on = _scale(finding)
    bounds = [bound for bound in _bounds(finding) if math.isfinite(bound) and bound > 0]
    return min((abs(on(value) - on(bound)) for bound in bounds), default=math.inf)


def rounds_needed(finding: FindingDefinition, measured: Estimate) -> float:
    """Return the rounds after which the interval crosses no bound (infinite on a bound)."""
    on, room = _scale(finding), distance(finding, measured.value)
    half = (on(measured.high) - on(measured.low)) / 2
    return math.ceil(measured.n * (half / room) ** 2) if room else math.inf


def verdict_of(
    finding: FindingDefinition, measured: Estimate, limits: Limits
) -> tuple[str, list[Reason]]:
    """Return the verdict on a value by its interval, with reasons."""
    if not measured.n:
        return NOT_MEASURED, []
    if measured.n < limits.min_rounds:
        rounds = words.count_of(measured.n, "round")
        return INCONCLUSIVE, [Reason("low-n", {"rounds": rounds})]
    if is_expected(finding, measured.low) and is_expected(finding, measured.high):
        return REPRODUCED, []
    low, high = _bounds(finding)
    if not (measured.high < low or measured.low > high):
        return INCONCLUSIVE, [_crosses(finding, measured)]
    is_reversed = measured.high < 1 < low or high < 1 < measured.low
    return DIFFERS, [Reason("reversed")] if "compare" in finding and is_reversed else []


def _crosses(finding: FindingDefinition, measured: Estimate) -> Reason:
    if not measured.error > 0:
        return Reason("crosses-bound")
    needed = rounds_needed(finding, measured)
    if needed > MAX_ROUNDS:
        return Reason("on-bound")
    return Reason("needs-rounds", {"needed": needed, "n": measured.n})


def _scale(finding: FindingDefinition) -> Callable[[float], float]:
    """Return the scale of the value: intervals of ratios are symmetric as logarithms."""
    return math.log if "compare" in finding else float


def _bounds(finding: FindingDefinition) -> tuple[float, float]:
    expect = finding["expect"]
    return expect.get("at_least", -math.inf), expect.get("at_most", math.inf)

"""Columns, calls, limits, verdicts and their reasons that other folders read.

This module imports neither numpy nor pandas, because rules and pages import it first.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from vcsbench import words
from vcsbench.evidence.flags import DECIDING_SHARE

if TYPE_CHECKING:
    from vcsbench.config.configuration import Config
    from vcsbench.config.definitions import FindingDefinition

Value = TypeVar("Value")

SIDES = ("baseline", "candidate")
STATISTIC, MEDIAN = "statistic", "median"
# `withheld` has the reason if measured cells are not compared. `fixed_share` is the larger of both sides.
STATISTICS = ("ratio", "low", "high", "n", "flags", "withheld", "fixed_share")
# Standard error and degrees of freedom of ln ratio, and standard deviation between duplicates.
ERROR = ("error", "degrees", "twin_sd")
# `detectable` is the smallest ratio that would have been called, `within` the largest that is possible.
CALL = ("call", *ERROR, "detectable", "within")
NUMBERS = ("value", "ratio", "low", "high", "n", "fixed_share", *ERROR, "detectable", "within")
OF_FINDINGS = [
    *["id", "statement", "published", "measured", "low", "high", "unit", "over"],
    *["expected", "verdict", "why", "reasons"],
]
# Those that results of all versions have.
LEAST_OF_FINDINGS = [name for name in OF_FINDINGS if name not in ("unit", "over", "reasons")]
OF_EXPECTATIONS = [*OF_FINDINGS, "passes"]
_FACTS = {"table", "baseline", "value", *STATISTICS, *CALL}

# Calls of a comparison that is no difference, as CSV files have them, and the words for readers.
# Differences have the words of their metric.
NOT_SHOWN = "no difference shown"
TOO_NOISY = "too noisy to say"
WORDS = {NOT_SHOWN: "equal", TOO_NOISY: "undecided"}

REPRODUCED, DIFFERS = "reproduced", "differs"
INCONCLUSIVE, NOT_MEASURED = "inconclusive", "not measured"
TOO_SMALL = "too small to compare"
# The results of a comparison, as all counts have them. The first two are answers.
DIFFERENT, EQUAL, UNDECIDED = "different", "equal", "undecided"
RESULTS = (DIFFERENT, EQUAL, TOO_SMALL, UNDECIDED)
REVERSED = "reversed"

ALL_DECIDED, TIME_IS_UP, UNREACHABLE = "answered", "time is up", "more rounds tell nothing"

# In per cent. From here on, more than the 13 rounds of a default run are needed to show that a difference of
# 5 % is below 10 %.
NOISY_PCT = 6.0


@dataclass(frozen=True)
class Limits:
    """Limits from which a conclusion is drawn.

    A difference below `min_effect_pct` is not worth noting; on a noisy machine the limit is at least
    `min_effect_pct_if_noisy`. Comparisons with fewer than `min_rounds` have the flag `low-n` and no call.
    """

    min_effect_pct: float = 10.0
    min_effect_pct_if_noisy: float = 15.0
    min_rounds: int = 5

    @classmethod
    def of(cls, config: Config) -> Limits:
        settings = config.settings
        return cls(settings.min_effect_pct, settings.min_effect_pct_if_noisy, config.least_rounds)

    def on_machine(self, scatter: float) -> Limits:
        if not scatter_pct(scatter) > NOISY_PCT:
            return self
        return replace(self, min_effect_pct=max(self.min_effect_pct, self.min_effect_pct_if_noisy))


DEFAULT_LIMITS = Limits()


def scatter_pct(scatter: float) -> float:
    return 0.0 if math.isnan(scatter) else 100 * math.expm1(scatter)


def is_difference(call: str) -> bool:
    return call not in ("", NOT_SHOWN, TOO_NOISY)


def result_of(row: Mapping[Any, Any]) -> str:
    """Return the result of a comparison. It is too small to compare if it is mostly fixed cost."""
    share, call = row.get("fixed_share"), row.get("call") or ""
    if words.is_number(share) and share > DECIDING_SHARE:
        return TOO_SMALL
    return DIFFERENT if is_difference(call) else EQUAL if call == NOT_SHOWN else UNDECIDED


def columns(keys: Sequence[str]) -> list[str]:
    return ["table", *keys, "baseline", "candidate", "value", *STATISTICS, *CALL]


def is_exact(row: Mapping[str, object]) -> bool:
    """Return True if the ratio is of counts that were equal in every round."""
    return words.is_number(row["low"]) and row["low"] == row["high"]


def keys_of(row: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in row.items() if name not in _FACTS}


def axis_values(selected: object) -> list[str]:
    return [str(value) for value in (selected if isinstance(selected, list) else [selected])]


def matches_cell(cell: Mapping[str, str], where: Mapping[str, object]) -> bool:
    """Return True if `where` selects a cell; axes that the cell lacks are ignored."""
    return all(cell[a] in axis_values(selected) for a, selected in where.items() if a in cell)


# The factor of the scale in a command that tests or mends a smaller scale.
LARGER = 4
# In the configuration of a test, the place of its cells.
CELLS = "<cells>"
POSSIBLE = (
    "scale",
    "other-storage",
    "same-machine",
    "other-system",
    "newer-version",
    "fewer-cells",
)
SENTENCES = {
    "low-n": "too few rounds: {n} measured, `rounds: {needed}` allows a verdict",
    "crosses-bound": "unknown error: the interval crosses a bound",
    "needs-rounds": "more rounds: about `rounds: {needed:.0f}` should decide, {n} measured",
    "on-bound": "on a bound: more rounds hardly help",
    "saved-rounds": "wide interval: it crosses a bound, and the saved baseline gets no more rounds",
    "reversed": "reversed: the other value is better",
    "no-metric": "no metric: {metric} was not measured",
    "hosts-differ": "hosts differ: measured on {hosts}, and numbers of different hosts are never divided",
    "fixed-cost": "mostly fixed cost: {excluded} of {total} excluded, use a larger scale",
    "not-counted": "{reason}",
    "not-in-grid": "not in the grid: cells with {cells}",
    "skipped": "skipped: {reason}",
    "no-result": "no result: all cells failed or have invalid runs",
    "partial": "measured: {measured} of {total} cells, reduced over {reduced}",
    "no-duplicates": "noise unknown: the grid has no duplicates",
    "not-in-turns": "not in turns: sides measured at different times, use --forcerun cell",
    "scale": "smaller scale: {subject} has {share:.2g} % of its published size",
    "other-storage": "other storage: {measured}, published on {published}",
    "same-machine": "same machine: client and server share it, published with a network between",
    "other-system": "other operating system: servers on Linux, published on {published}",
    "newer-version": "newer Subversion: {measured}, published with {published}",
    "all-published": "published over all {published}: {shown}",
    "fewer-cells": "fewer cells: {measured} of {published}, for which {value:.3g} was published",
    "other-work": "other work: {reason}",
    "work-unknown": "work unknown: {reason}",
    "no-baseline": "no baseline: {name} has no results of this study, use make baseline NAME={name}",
    "not-compared": "{flag}: {excluded} of {total} cells not compared",
}


@dataclass(frozen=True)
class ReasonTest:
    """A run of a study that tests a reason, and what to do before it.

    The run has a configuration file with the YAML text `configuration`. `cells`, a part of the grid, replaces
    CELLS in it.
    """

    study: str
    file: str
    configuration: str
    before: str = ""
    cells: str = ""

    @property
    def text(self) -> str:
        run = f"make report STUDY={self.study} ARGS='--configfile {self.file}'"
        return ", ".join(filter(None, [self.before, f"`{self.command(run)}`"]))

    def command(self, run: str) -> str:
        """Return the shell command that writes the configuration and starts `run`."""
        content = shlex.quote(self.configuration.replace(CELLS, self.cells))
        return f"echo {content} >{shlex.quote(self.file)} && {run}"


@dataclass(frozen=True)
class Reason:
    """A reason of a verdict: a code of SENTENCES, its values, and a test of it."""

    code: str
    values: Mapping[str, object] = field(default_factory=dict)
    test: ReasonTest | None = None

    @property
    def sentence(self) -> str:
        return SENTENCES[self.code].format(**self.values)

    @property
    def text(self) -> str:
        return f"{self.sentence} (to test: {self.test.text})" if self.test else self.sentence


def verdict_for_reader(row: Mapping[str, Any]) -> str:
    is_reversed = str(row.get("why") or "").startswith(f"{REVERSED}: ")
    return REVERSED if is_reversed else row["verdict"] or NOT_MEASURED


def bounds_text(finding: FindingDefinition) -> str:
    low, high = (finding["expect"].get(bound) for bound in ("at_least", "at_most"))
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def is_expected(finding: FindingDefinition, value: float) -> bool:
    low, high = expected_bounds(finding)
    return low <= value <= high


def side_of(finding: FindingDefinition, value: float) -> int:
    """Return -1 below the expected range, 1 above it, 0 otherwise."""
    low, high = expected_bounds(finding)
    return (value > high) - (value < low)


def expected_bounds(finding: FindingDefinition) -> tuple[float, float]:
    expect = finding["expect"]
    return expect.get("at_least", -math.inf), expect.get("at_most", math.inf)

"""The files of findings: their columns, verdicts and reasons.

This module imports neither numpy nor pandas, because pages import it first.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OF_FINDINGS = [
    *["id", "statement", "published", "measured", "low", "high", "unit", "over"],
    *["expected", "verdict", "why", "reasons"],
]
# Those that results of all versions have.
LEAST_OF_FINDINGS = [name for name in OF_FINDINGS if name not in ("unit", "over", "reasons")]
OF_EXPECTATIONS = [*OF_FINDINGS, "passes"]

REPRODUCED, DIFFERS = "reproduced", "differs"
INCONCLUSIVE, NOT_MEASURED = "inconclusive", "not measured"
# Of an expectation that is reproduced.
HOLDS = "holds"
REVERSED = "reversed"
# The factor of the scale in a command that tests or mends a smaller scale.
LARGER = 4
# In the configuration of a test, the place of its cells.
CELLS = "<cells>"
# Conditions other than published, which can explain why a finding differs.
POSSIBLE = (
    *("scale", "other-storage", "same-machine"),
    *("other-system", "newer-version", "fewer-cells"),
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
    "incomplete": "incomplete rounds: none has a valid run of each of {total}",
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

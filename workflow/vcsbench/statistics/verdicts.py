"""Columns of findings, their verdicts, and the reasons of a verdict.

Possible reasons of a finding that differs are other conditions than published that explain its direction.

This module imports neither numpy nor pandas, because pages import it first.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vcsbench import words
from vcsbench.axes import STATES

if TYPE_CHECKING:
    import pandas as pd

    from vcsbench.config.definitions import FindingDefinition

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
WEAKER, STRONGER = "weaker", "stronger"
SLOWNESS = {"RAM": 0, "SSD": 1, "spinning disk": 2}
# The axes of the study `builds`, and the values of those with a list of their own.
BUILD_AXES = ("command", "ra", "format", "packing", "config", "cache")
BUILD_VALUES = {
    "command": {"log", "null-log", "export", "null-export", "dump"},
    "cache": {"cold", "hot-os", "hot-svn"},
}
# States with the same promises.
BUILD_NAMES = {"hot": "hot-svn"}

# The factor of the scale in a command that tests or mends a smaller scale.
LARGER = 4
# In the configuration of a test, the place of its cells.
CELLS = "<cells>"
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


@dataclass(frozen=True)
class Conditions:
    """Conditions of published numbers."""

    scale: float | None = None
    subversion: str = ""
    storage: str = ""
    server: str = ""
    system: str = ""


@dataclass(frozen=True)
class MeasuredConditions:
    """Conditions of measured numbers of a study, and those of the published ones.

    `scales` has the least scale by repository. `versions` are of Subversion, `storages` kinds of storages.
    """

    scales: Mapping[str, float] = field(default_factory=dict)
    versions: Sequence[str] = ()
    storages: Sequence[str] = ()
    study: str = ""
    published: Conditions = Conditions()


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


def direction_of(finding: FindingDefinition, value: float) -> str:
    low, high = expected_bounds(finding)
    if "compare" not in finding:
        return WEAKER if value < low else STRONGER
    if low <= 1 <= high:
        return STRONGER
    if low > 1:
        return REVERSED if value < 1 else WEAKER if value < low else STRONGER
    return REVERSED if value > 1 else WEAKER if value > high else STRONGER


def possible_reasons(
    direction: str, rows: pd.DataFrame, subject: str, conditions: MeasuredConditions
) -> Iterable[Reason]:
    """Yield the conditions that can explain a direction, each with the steps that test it.

    `rows` are the rounds of the finding's cells, `subject` is the axis of repositories or trees.
    """
    published = conditions.published
    for name, scale in _smaller(rows, subject, conditions) if direction == WEAKER else ():
        values = {"subject": name, "share": 100 * scale / (published.scale or 1.0)}
        yield Reason("scale", values, larger_scale(rows, subject, conditions))
    kinds = [kind for kind in conditions.storages if kind] if _reads_storage(rows) else []
    if published.storage not in kinds and direction in set().union(
        *(_effects(kind, published.storage) for kind in kinds)
    ):
        values = {"measured": words.enumeration(kinds), "published": published.storage}
        names = {*rows["storage"]} - {"ram"} if "storage" in rows else set()
        folders = ", ".join(f"{name}: /mnt/other" for name in sorted(names) or ["other"])
        storage = f"{{storages: {{{folders}}}{'' if names else ', storage: other'}}}"
        before = f"replace /mnt/other by a folder on {published.storage}"
        yield Reason(
            "other-storage", values, ReasonTest(conditions.study, "other.yaml", storage, before)
        )
    if published.server and direction == STRONGER:
        yield Reason("same-machine", {})
    accesses = {*rows["ra"]} if "ra" in rows else set()
    if published.system not in ("", "Linux") and accesses and "file" not in accesses:
        yield Reason("other-system", {"published": published.system})
    newer = [v for v in dict.fromkeys(conditions.versions) if _is_newer(v, published.subversion)]
    if newer:
        values = {"measured": words.enumeration(newer), "published": published.subversion}
        yield Reason("newer-version", values, _older_build(rows, published.subversion))


def larger_scale(
    rows: pd.DataFrame, subject: str, conditions: MeasuredConditions
) -> ReasonTest | None:
    """Return the run that measures the repositories of `rows` at a larger scale."""
    whole = conditions.published.scale or 1.0
    scales = ", ".join(
        f"{name}: {{scale: {min(whole, LARGER * scale):.3g}}}"
        for name, scale in _smaller(rows, subject, conditions)
    )
    return (
        ReasonTest(conditions.study, "larger.yaml", f"repositories: {{{scales}}}")
        if scales
        else None
    )


def _smaller(
    rows: pd.DataFrame, subject: str, conditions: MeasuredConditions
) -> list[tuple[str, float]]:
    names = dict.fromkeys(rows[subject]) if subject else ()
    scales = {name: conditions.scales.get(name, math.inf) for name in names}
    whole = conditions.published.scale or 0.0
    return [(name, scale) for name, scale in scales.items() if scale < whole]


def _older_build(rows: pd.DataFrame, version: str) -> ReasonTest | None:
    """Return the run that measures the cells of `rows` with an older build, too."""
    used = {
        axis: [BUILD_NAMES.get(value, value) for value in dict.fromkeys(filter(None, rows[axis]))]
        for axis in BUILD_AXES
        if axis in rows
    }
    if not all(values.issuperset(used.get(axis, [""])) for axis, values in BUILD_VALUES.items()):
        return None
    cells = ", ".join(f"{axis}: [{', '.join(values)}]" for axis, values in used.items() if values)
    folder = f"/opt/svn-{version}"
    builds = f"builds: {{old: {{prefix: {folder}}}, new: {{}}}}"
    content = f"{{{builds}, grid: {{builds: {{include: [{CELLS}]}}}}}}"
    first = f"install Subversion {version} in {folder} and compare the builds old and new"
    return ReasonTest("builds", "old.yaml", content, first, f"{{{cells}}}")


def _reads_storage(rows: pd.DataFrame) -> bool:
    caches = {*rows["cache"]} if "cache" in rows else {""}
    states = (STATES.get(str(cache), STATES[""])["promises"] for cache in caches)
    return any(promises.get("os") != "hot" for promises in states)


def _effects(kind: str, published: str) -> set[str]:
    """Return the directions that a storage explains. A virtual disk may be faster or slower."""
    if not published:
        return set()
    ranks = [SLOWNESS[kind]] if kind in SLOWNESS else [*SLOWNESS.values()]
    effects = {WEAKER, REVERSED} if min(ranks) < SLOWNESS[published] else set()
    return effects | {STRONGER} if max(ranks) > SLOWNESS[published] else effects


def _is_newer(version: str, published: str) -> bool:
    pair = [re.match(r"(\d+)\.(\d+)", text) for text in (version, published)]
    numbers = [tuple(map(int, match.groups())) for match in pair if match]
    return len(numbers) == 2 and numbers[0] > numbers[1]

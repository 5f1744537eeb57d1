"""Possible reasons of a finding that differs: other conditions than published that explain its direction."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vcsbench import words
from vcsbench.axes import STATES
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, Limits
from vcsbench.statistics.noise import NO_NOISE, Noise
from vcsbench.statistics.verdicts import CELLS, LARGER, Reason, ReasonTest, expected_bounds

if TYPE_CHECKING:
    import pandas as pd

    from vcsbench.config.definitions import FindingDefinition

WEAKER, STRONGER, REVERSED = "weaker", "stronger", "reversed"
SLOWNESS = {"RAM": 0, "SSD": 1, "spinning disk": 2}
# The axes of the study `builds`, and the values of those with a list of their own.
BUILD_AXES = ("command", "ra", "format", "packing", "config", "cache")
BUILD_VALUES = {
    "command": {"log", "null-log", "export", "null-export", "dump"},
    "cache": {"cold", "hot-os", "hot-svn"},
}
# States with the same promises.
BUILD_NAMES = {"hot": "hot-svn"}


@dataclass(frozen=True)
class Conditions:
    """Conditions of published numbers."""

    scale: float | None = None
    subversion: str = ""
    storage: str = ""
    server: str = ""
    system: str = ""


@dataclass(frozen=True)
class EvaluationContext:
    """Facts about measured numbers that a verdict uses.

    `noise` is by metric, `baselines` has a frame of pair_cells by name, `grid` the cells (axes and `skip`),
    `scales` the least scale by repository. `versions` are of Subversion, `storages` kinds of storages.
    """

    noise: Callable[[str], Noise] = lambda _metric: NO_NOISE
    scales: Mapping[str, float] = field(default_factory=dict)
    versions: Sequence[str] = ()
    storages: Sequence[str] = ()
    study: str = ""
    published: Conditions = Conditions()
    grid: Sequence[Mapping[str, str]] = ()
    baselines: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    limits: Limits = DEFAULT_LIMITS


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
    direction: str, rows: pd.DataFrame, subject: str, context: EvaluationContext
) -> Iterable[Reason]:
    """Yield the conditions that can explain a direction, each with the steps that test it.

    `rows` are the rounds of the finding's cells, `subject` is the axis of repositories or trees.
    """
    published = context.published
    for name, scale in _smaller(rows, subject, context) if direction == WEAKER else ():
        values = {"subject": name, "share": 100 * scale / (published.scale or 1.0)}
        yield Reason("scale", values, larger_scale(rows, subject, context))
    kinds = [kind for kind in context.storages if kind] if _reads_storage(rows) else []
    if published.storage not in kinds and direction in set().union(
        *(_effects(kind, published.storage) for kind in kinds)
    ):
        values = {"measured": words.enumeration(kinds), "published": published.storage}
        names = {*rows["storage"]} - {"ram"} if "storage" in rows else set()
        folders = ", ".join(f"{name}: /mnt/other" for name in sorted(names) or ["other"])
        storage = f"{{storages: {{{folders}}}{'' if names else ', storage: other'}}}"
        before = f"replace /mnt/other by a folder on {published.storage}"
        yield Reason(
            "other-storage", values, ReasonTest(context.study, "other.yaml", storage, before)
        )
    if published.server and direction == STRONGER:
        yield Reason("same-machine", {})
    accesses = {*rows["ra"]} if "ra" in rows else set()
    if published.system not in ("", "Linux") and accesses and "file" not in accesses:
        yield Reason("other-system", {"published": published.system})
    newer = [v for v in dict.fromkeys(context.versions) if _is_newer(v, published.subversion)]
    if newer:
        values = {"measured": words.enumeration(newer), "published": published.subversion}
        yield Reason("newer-version", values, _older_build(rows, published.subversion))


def larger_scale(rows: pd.DataFrame, subject: str, context: EvaluationContext) -> ReasonTest | None:
    """Return the run that measures the repositories of `rows` at a larger scale."""
    whole = context.published.scale or 1.0
    scales = ", ".join(
        f"{name}: {{scale: {min(whole, LARGER * scale):.3g}}}"
        for name, scale in _smaller(rows, subject, context)
    )
    return (
        ReasonTest(context.study, "larger.yaml", f"repositories: {{{scales}}}") if scales else None
    )


def _smaller(
    rows: pd.DataFrame, subject: str, context: EvaluationContext
) -> list[tuple[str, float]]:
    names = dict.fromkeys(rows[subject]) if subject else ()
    scales = {name: context.scales.get(name, math.inf) for name in names}
    whole = context.published.scale or 0.0
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

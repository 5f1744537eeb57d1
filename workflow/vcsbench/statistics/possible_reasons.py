"""Possible reasons of a finding that differs: other conditions than published that explain its direction."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vcsbench import words
from vcsbench.axes.cache import STATES
from vcsbench.statistics.contract import DEFAULT_LIMITS, Limits, Reason, expected_bounds
from vcsbench.statistics.noise import NO_NOISE, Noise

if TYPE_CHECKING:
    import pandas as pd

    from vcsbench.config.definitions import FindingDefinition

WEAKER, STRONGER, REVERSED = "weaker", "stronger", "reversed"
SLOWNESS = {"RAM": 0, "SSD": 1, "spinning disk": 2}
COMMANDS_OF_BUILDS = frozenset(["log", "null-log", "export", "null-export", "dump"])
LARGER = 4


@dataclass(frozen=True)
class Conditions:
    """Conditions of published numbers."""

    scale: float | None = None
    subversion: str = ""
    storage: str = ""
    server: str = ""


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
    published, run = context.published, f"make report STUDY={context.study}"
    for name in dict.fromkeys(rows[subject]) if subject and direction == WEAKER else ():
        scale, whole = context.scales.get(name, math.inf), published.scale or 0.0
        if scale < whole:
            larger = f"repositories: {{{name}: {{scale: {min(whole, LARGER * scale):.3g}}}}}"
            values = {"subject": name, "share": 100 * scale / whole}
            test = f"`echo '{larger}' >larger.yaml && {run} ARGS='--configfile larger.yaml'`"
            yield Reason("scale", values, test)
    kinds = [kind for kind in context.storages if kind] if _reads_storage(rows) else []
    if published.storage not in kinds and direction in set().union(
        *(_effects(kind, published.storage) for kind in kinds)
    ):
        values = {"measured": words.enumeration(kinds), "published": published.storage}
        test = f"name a folder on {published.storage} under `storages`, then `{run}`"
        yield Reason("other-storage", values, test)
    if published.server and direction == STRONGER:
        yield Reason("same-machine", {})
    newer = [v for v in dict.fromkeys(context.versions) if _is_newer(v, published.subversion)]
    if newer:
        values = {"measured": words.enumeration(newer), "published": published.subversion}
        test = (
            f"name a build of {published.subversion} in config/builds.yaml, "
            'then `make report ARGS="--configfile config/builds.yaml"`'
        )
        can_test = "command" in rows and COMMANDS_OF_BUILDS.issuperset(rows["command"])
        yield Reason("newer-version", values, test if can_test else "")


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

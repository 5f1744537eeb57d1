"""The builds that a study compared: what ran under each name, from the contexts beside the results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ran:
    """A program that ran under a build's name; `libraries` is where Subversion's, which it had loaded,
    lie: folders, separated by commas."""

    build: str
    side: str
    program: str
    version: str
    libraries: str


def ran(contexts: Iterable[Mapping[str, Any]], order: Sequence[str]) -> list[Ran]:
    """What ran in the cell-rounds that have a build, once each; `order` has the builds' names."""
    found: dict[Ran, None] = {}
    for context in contexts:
        build = context.get("build") or {}
        for side in ("client", "server"):
            seen = build.get(side)
            if build.get("name") and seen:
                folders = dict.fromkeys(map(os.path.dirname, seen.get("libraries") or []))
                libraries = ", ".join(folders) or "none seen"
                found[Ran(build["name"], side, seen["program"], seen["version"], libraries)] = None
    rank = {name: index for index, name in enumerate(order)}
    return sorted(found, key=lambda one: (rank.get(one.build, len(rank)), one.side, one.program))


def same(contexts: Iterable[Mapping[str, Any]], order: Sequence[str]) -> list[str]:
    """A sentence for each build that ran the same binaries as another that is named before it."""
    cells: dict[tuple[Any, ...], set[str]] = {}
    for context in contexts:
        build = context.get("build") or {}
        axes = {k: v for k, v in (context.get("axes") or {}).items() if v != build.get("name")}
        if build.get("name") and build.get("digest"):
            cells.setdefault((*axes.items(), build["digest"]), set()).add(build["name"])
    pairs: dict[tuple[str, str], None] = {}
    for names in cells.values():
        first, *others = (name for name in order if name in names) if names <= {*order} else ("",)
        pairs.update(dict.fromkeys((first, other) for other in others))
    return [
        f"{other} ran the same binaries as {first} (A/A): what the two differ by is noise."
        for first, other in sorted(pairs, key=lambda pair: [order.index(name) for name in pair])
    ]

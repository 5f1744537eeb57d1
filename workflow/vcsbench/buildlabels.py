"""Which binaries ran, as columns of the measurements, and whether they are what their build is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

SIDES = ("client", "server")


def columns(context: Mapping[str, Any]) -> dict[str, str]:
    """The binaries of a cell-round: of client and server the program's path and its version as it
    reports it, and a digest of both with all of Subversion's libraries that they had loaded."""
    build = context.get("build") or {}
    found: dict[str, str] = {}
    for side in SIDES:
        seen = build.get(side) or {}
        found |= {side: seen.get("program", ""), f"{side}_version": seen.get("version", "")}
    return {**found, "binaries": build.get("digest", "")}


def judge(context: Mapping[str, Any]) -> list[str]:
    """The flags that a cell-round earns by what its client and its server had loaded."""
    words = []
    for side in SIDES:
        seen = (context.get("build") or {}).get(side) or {}
        places = seen.get("places") or []  # none: the PATH's, of which nothing is claimed
        if places and seen["libraries"] is None:
            words.append("libraries-unknown")
        elsewhere = [path for path in seen.get("libraries") or [] if not _is_below(path, places)]
        if places and elsewhere:
            words.append("other-libraries")
    return list(dict.fromkeys(words))


def _is_below(path: str, places: Sequence[str]) -> bool:
    return any(path.startswith(place.rstrip("/") + "/") for place in places)


def same_binaries(frame: pd.DataFrame, axes: Sequence[str]) -> list[bool]:
    """For each run of the measurements whether another build, whose runs come before, ran the very same
    binaries in a cell that is the same otherwise: the two are compared with themselves (A/A)."""
    if "build" not in axes or frame.empty:
        return [False] * len(frame)
    others = [axis for axis in axes if axis != "build"]
    first = frame.groupby([*others, "binaries"], dropna=False)["build"].transform("first")
    return list((frame["binaries"] != "") & (frame["build"] != first))

"""Which binaries ran, as columns of the measurements, and whether they are what their build is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from vcsbench.evidence import flags

SIDES = ("client", "server")
# The axis whose values are builds.
AXIS = "build"


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
        # None for the PATH's, of which nothing is claimed.
        places = tuple(f"{place.rstrip('/')}/" for place in seen.get("places") or ())
        if places and seen["libraries"] is None:
            words.append("libraries-unknown")
        elif places and not all(path.startswith(places) for path in seen["libraries"]):
            words.append("other-libraries")
    return list(dict.fromkeys(words))


def same_binaries(table: pd.DataFrame, frame: pd.DataFrame, kept: Sequence[str]) -> pd.Series:
    """The flags of a table that compares builds, with `same-binaries` where both sides of a row ran the
    very same ones: a build is compared with itself there (A/A).

    `frame` is that of the measurements, `kept` the axes that identify a row beside its two builds.
    """
    if "binaries" not in frame:
        return table["flags"]
    ran = frame.groupby([*kept, AXIS], dropna=False)["binaries"].agg(set).to_dict()

    said = []
    for row in table.to_dict("records"):
        where = [row[axis] for axis in kept]
        both = (ran.get((*where, row[side]), set()) - {""} for side in ("baseline", "candidate"))
        said.append(flags.also(row["flags"], "same-binaries", bool(set.intersection(*both))))
    return pd.Series(said, index=table.index, dtype=object)

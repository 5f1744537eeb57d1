"""The system calls of cells, counted once for each in a run of its own, as columns of the measurements."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vcsbench.files import read_json
from vcsbench.plan.counted import Counted

# Of client and server together.
COLUMNS = (
    *("opens_read_only", "opens_read_write", "seeks", "reads", "bytes_read", "writes"),
    *("bytes_written", "stats", "renames", "all_calls"),
)
_CALLS = (
    *("opens_read_only", "opens_read_write", "opens_failed", "seeks", "reads", "writes", "stats"),
)
_RENAMES = ("rename", "renameat", "renameat2")
NOT_COUNTED = "the study does not count the system calls of this cell (its `trace_syscalls`)"
OTHER = "its system calls were counted of something else than is measured now; run again"


def read_calls(
    paths: Iterable[str | Path], counted: Mapping[str, Counted]
) -> dict[str, dict[str, Any]]:
    """What was counted (measure.counting.count), by the path of each cell of which `counted` says whose
    counts are its own; of what was counted of something else, that alone."""
    said = {one["cell"]: one for one in map(read_json, paths) if one}
    found = {}
    for cell, (path, digest) in counted.items():
        one = said.get(path, {})
        found[cell] = one if one.get("digest") in (None, digest) else {"why_not": OTHER}
    return found


def columns(said: Mapping[str, Any] | None, not_counted: str) -> dict[str, Any]:
    """The columns by what was counted of a cell, None where nothing was, with `not_counted` (as in
    counted.columns) that says why."""
    sides = [side for side in ((said or {}).get("client"), (said or {}).get("server")) if side]
    if sides:
        every = [_with_sums(side) for side in sides]
        return {name: sum(side[name] for side in every) for name in COLUMNS}
    reason = (
        NOT_COUNTED if said is None else said.get("why_not") or "nothing counted its system calls"
    )
    reasons = (json.loads(not_counted) if not_counted else {}) | dict.fromkeys(COLUMNS, reason)
    return {**dict.fromkeys(COLUMNS), "not_counted": json.dumps(reasons, sort_keys=True)}


def _with_sums(side: Mapping[str, Any]) -> dict[str, int]:
    others = side.get("others", {})
    renames = sum(others.get(name, 0) for name in _RENAMES)
    every = sum(side.get(name, 0) for name in _CALLS) + sum(others.values())
    return {**side, "renames": renames, "all_calls": every}

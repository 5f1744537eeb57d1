"""What a run brought to its clients: how much, in what time, and how unevenly; as columns of the
measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# `tree_bytes` of all clients together; `carried_s` is the time from the moment in which they were let go to
# the end of the last one, which is the elapsed time where nothing launched the only one; `launching_s` what
# elapsed beside that, and `went_apart_s` between the first that went and the last.
COLUMNS = (
    *("tree_bytes", "carried_s", "slowest_client_s", "fastest_client_s"),
    *("launching_s", "went_apart_s", "cores"),
)


def columns(
    elapsed_s: float, seen: Mapping[str, Any], context: Mapping[str, Any]
) -> dict[str, float | int | None]:
    """The columns of a run; `seen` is what the context has of it. None where they say nothing of it."""
    launched = seen.get("launched") or {}
    clients = launched.get("clients") or []
    work = seen.get("work") or {}
    ends = [client["ended_s"] - client["went_s"] for client in clients]
    went = [client["went_s"] for client in clients]
    carried_s = launched.get("all_s", elapsed_s)
    return {
        "tree_bytes": _of_trees(work, len(clients) or 1),
        "carried_s": carried_s,
        "slowest_client_s": max(ends, default=None),
        "fastest_client_s": min(ends, default=None),
        "launching_s": round(elapsed_s - carried_s, 6) if clients else None,
        "went_apart_s": round(max(went) - min(went), 6) if clients else None,
        "cores": context["host"]["cores"],
    }


def _of_trees(work: Mapping[str, Any], clients: int) -> int | None:
    """The bytes of as many trees, by what one client did; None for what wrote none (a log has no files, and
    svnbench, which counts those that it got, no bytes)."""
    return work["bytes"] * clients if {"files", "bytes"} <= work.keys() else None

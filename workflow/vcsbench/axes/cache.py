"""The cache states: what happens before a run so that its caches are what its label says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class CacheState:
    """The steps (see steps.py) before the first run and before each run, and how many runs warm up.

    The warming runs do not count; each has the same preparation as the timed one.
    """

    setup: tuple[str, ...]
    prepare: tuple[str, ...]
    warmup: int


# Written pages of an earlier run are flushed before each run (sync): they would disturb it.
STATES = {
    # The run that warms up is discarded: it warms whatever lies below the guest.
    "cold": CacheState(
        setup=(),
        prepare=(
            "remove-target",
            "stop-server",
            "sync",
            "clear-caches",
            "start-server",
            "touch-client",
        ),
        warmup=1,
    ),
    # The run that warms up fills the OS cache; the server that is timed has served nothing.
    "hot-os": CacheState(
        setup=(),
        prepare=("remove-target", "sync", "stop-server", "start-server"),
        warmup=1,
    ),
    # The server is kept: two runs fill its caches.
    "hot-svn": CacheState(
        setup=("start-server",),
        prepare=("remove-target", "sync"),
        warmup=2,
    ),
}


def describe(cache: str, cold_client: bool) -> dict[str, Any]:
    """The steps of a cache state as plain data: what a cell's spec carries."""
    state = asdict(STATES[cache])
    if cold_client:
        state["prepare"] = tuple(step for step in state["prepare"] if step != "touch-client")
    return {key: list(value) if isinstance(value, tuple) else value for key, value in state.items()}

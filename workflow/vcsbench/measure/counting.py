"""The system calls of a cell: one run of its command on a stage, under strace, which is timed by nobody."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.measure import strace
from vcsbench.measure.stage import Stage
from vcsbench.measure.steps import do, restore
from vcsbench.measure.work.capture import capture, unread
from vcsbench.processes import family

# Calls take that much longer under strace at most.
SLOWER = 100.0


def count(recipe: dict[str, Any], run: Path) -> dict[str, Any]:
    """The counts of a cell by its recipe, of `client` and `server` apart (strace.Counts.told; `server` None
    where there is none), with `seconds` that it took and `slower`, how many times longer the run took than
    one before it without strace. `run` is a private folder. Where nothing can be counted, `why_not` says why
    in a clause, and there are no counts."""
    began = time.monotonic()
    found: dict[str, Any] = {"client": None, "server": None, "why_not": ""}
    try:
        found |= _counted(recipe, run)
    except (UserError, OSError) as error:
        found["why_not"] = str(error)
    return found | {"seconds": round(time.monotonic() - began, 3)}


def _counted(recipe: dict[str, Any], run: Path) -> dict[str, Any]:
    strace.program()
    limit_s = recipe["time_limit_s"]
    with ExitStack() as stack:
        stage = Stage(recipe, 1, run)
        stage.open(stack)
        do("start-server", stage)
        restore(stage)
        plain_s = _plain_s(stage, limit_s)
        restore(stage)
        server = strace.Attached(family(stage.server.pid)) if stage.server else None
        began = time.monotonic()
        client = strace.count_command(
            stage.argv, stage.environment, stage.stdin, max(limit_s, SLOWER * plain_s)
        )
        traced_s = time.monotonic() - began
        return {
            "client": client.told(),
            "server": server.let_go().told() if server else None,
            "slower": round(traced_s / plain_s, 2),
        }


def _plain_s(stage: Stage, limit_s: float) -> float:
    """How long a run of the command takes as it is; it fails here rather than where strace has a say."""
    began = time.monotonic()
    log = stage.run / "counted.log"
    capture(stage.argv, stage.stdin, unread, stage.neutral, stage.environment, log, limit_s, [])
    return time.monotonic() - began

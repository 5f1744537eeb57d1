"""The system calls of a cell: one run of its command on a stage, under strace, which is timed by nobody."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.measure import strace
from vcsbench.measure.stage import Stage
from vcsbench.measure.steps import do, restore
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
        began = time.monotonic()
        _run(stage, limit_s)
        plain_s = time.monotonic() - began
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


def _run(stage: Stage, limit_s: float) -> None:
    """Run the command once, as it is: it fails here rather than where strace has a say in it."""
    with open(stage.stdin or os.devnull, "rb") as given:
        try:
            done = subprocess.run(
                stage.argv,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=stage.environment,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"a run took longer than {limit_s:g} s and was ended") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-300:] or "it said nothing"
        raise UserError(f"{os.path.basename(stage.argv[0])} exits with {done.returncode}: {said}")

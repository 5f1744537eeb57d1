"""The steps of a cell's hooks, by name: what hyperfine's --setup and --prepare have done."""

from __future__ import annotations

import os
import subprocess

from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.measure.clearing import clear
from vcsbench.measure.stage import Stage
from vcsbench.processes import how_it_ended

TOUCH_LIMIT_S = 60


def do(step: str, stage: Stage) -> None:
    """Do a step by its name; a UserError where it cannot be done."""
    STEPS[step](stage)


def restore(stage: Stage) -> None:
    """Make what the command writes what it has to be before a run: remove what the last run wrote."""
    if stage.writes:
        stage.writes.restore()


def start_server(stage: Stage) -> None:
    """Start the server, unless it runs, and wait until it answers."""
    if stage.server and not stage.server.pid:
        stage.server.start()


def stop_server(stage: Stage) -> None:
    """End the server, if it runs."""
    if stage.server:
        stage.server.stop()


def sync(_stage: Stage) -> None:
    """Write what is dirty: dirty pages can neither be dropped nor be left to disturb a run."""
    os.sync()


def clear_caches(stage: Stage) -> None:
    """Empty the caches."""
    clear(stage.recipe["clearing"], stage.folders)


def touch_client(stage: Stage) -> None:
    """Run the client once against an empty repository, so that its own files are in the cache."""
    if not stage.touch:
        return
    done = subprocess.run(
        stage.touch, capture_output=True, timeout=TOUCH_LIMIT_S, env=stage.environment
    )
    if done.returncode != 0:
        said = printable(done.stderr).strip()
        ended = how_it_ended(done.returncode)
        raise UserError(
            f"the client {ended} against an empty repository: {said or 'it printed nothing'}"
        )
    restore(stage)


STEPS = {
    "restore": restore,
    "start-server": start_server,
    "stop-server": stop_server,
    "sync": sync,
    "clear-caches": clear_caches,
    "touch-client": touch_client,
}

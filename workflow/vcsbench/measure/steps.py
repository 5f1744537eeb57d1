"""The steps of a cell's hooks, by name: what hyperfine's --setup and --prepare have done."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.measure.clearing import clear
from vcsbench.measure.servers import Server

TOUCH_LIMIT_S = 60


class Bench(NamedTuple):
    """What the steps of one cell work on.

    `server` is None where the command reads the repository itself. `touch` is the timed command
    turned to an empty repository. `target` is what the command writes, if it writes anything.
    """

    repository: Path
    server: Server | None
    target: Path
    clearing: str
    touch: list[str]
    environment: dict[str, str]

    def do(self, step: str) -> None:
        """Do a step; raises a UserError where it cannot be done."""
        STEPS[step](self)


def remove_target(bench: Bench) -> None:
    """Remove what the last run wrote."""
    if bench.target.exists():
        shutil.rmtree(bench.target)


def start_server(bench: Bench) -> None:
    """Start the server, unless it runs, and wait until it answers."""
    if bench.server and not bench.server.pid:
        bench.server.start()


def stop_server(bench: Bench) -> None:
    """End the server, if it runs."""
    if bench.server:
        bench.server.stop()


def sync(_bench: Bench) -> None:
    """Write what is dirty: dirty pages can neither be dropped nor be left to disturb a run."""
    os.sync()


def clear_caches(bench: Bench) -> None:
    """Empty the caches."""
    clear(bench.clearing, bench.repository)


def touch_client(bench: Bench) -> None:
    """Run the client once against an empty repository, so that its own files are in the cache."""
    done = subprocess.run(
        bench.touch, capture_output=True, timeout=TOUCH_LIMIT_S, env=bench.environment
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise UserError(f"the client failed against an empty repository: {said}")
    if bench.target.exists():
        shutil.rmtree(bench.target)


STEPS = {
    "remove-target": remove_target,
    "start-server": start_server,
    "stop-server": stop_server,
    "sync": sync,
    "clear-caches": clear_caches,
    "touch-client": touch_client,
}

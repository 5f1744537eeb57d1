"""What killed runs leave: processes, private folders of measurements, files that commands wrote."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from vcsbench import processes
from vcsbench.storages import runfolder
from vcsbench.storages.place import Place

# In the environment of all processes of a run, which inherit it: the checkout.
MARK = "VCSBENCH_RUN_IN"
GRACE_S = 2.0


def remove_leftovers(root: Path, places: Iterable[Place]) -> list[str]:
    """Remove the folders and files of killed measurements. Returns a line for each.

    Mounts need no removal: a file system that is made for a measurement lies in the mount namespace of its
    process.
    """
    return [f"removed {path}" for path in runfolder.remove_abandoned(root, places)]


def end_processes(root: Path) -> int:
    """End all processes of a checkout's run; returns how many there were."""
    first = left = marked_processes(root)
    processes.send(first, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = marked_processes(root)
    # New ones may start while others end.
    while left:
        processes.send(left, signal.SIGKILL)
        time.sleep(0.02)
        left = marked_processes(root)
    return len(first)


def find_snakemake(root: Path) -> int:
    """Return the pid of a Snakemake that works in a checkout, or 0."""
    for pid in {*processes.everybody()} - {os.getpid(), *processes.ancestors()}:
        words = processes.command_line(pid)[:4]
        if any(Path(word).name == "snakemake" for word in words):
            try:
                if os.path.samefile(f"/proc/{pid}/cwd", root):
                    return pid
            except OSError:
                continue
    return 0


def marked_processes(root: Path) -> list[int]:
    """Return the processes of a checkout's run, without this one and its ancestors."""
    wanted = f"{MARK}={os.path.realpath(root)}"
    others = {*processes.everybody()} - {os.getpid(), *processes.ancestors()}
    return [pid for pid in others if wanted in processes.environment(pid)]

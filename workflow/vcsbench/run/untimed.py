"""Untimed measurements: the system calls of a cell, and the limits of this machine.

python -m vcsbench.run.untimed calls OUTPUT RECIPE
python -m vcsbench.run.untimed limits OUTPUT CLIENTS...
"""

from __future__ import annotations

import json
import os
import sys
import time

from vcsbench.files import write_json
from vcsbench.measure import syscalls
from vcsbench.measure.host import host, host_label
from vcsbench.measure.isolation import enter_user_namespace, machine_lock
from vcsbench.measure.machine_limits import machine_limits
from vcsbench.plan.recipe import call_digest
from vcsbench.run.job import exit_on_signals, watch_parents
from vcsbench.storages.workdir import run_folder
from vcsbench.subjects import Recipe


def measure_limits(clients: list[int]) -> dict[str, object]:
    """Measure the highest rates of this machine, for numbers of clients."""
    watch_parents()
    with machine_lock():
        began = time.monotonic()
        limits = machine_limits(clients)
    facts = {"host": host_label(host()), "seconds": round(time.monotonic() - began, 3)}
    return {**facts, **limits}


def count_calls(recipe: Recipe) -> dict[str, object]:
    """Count the system calls of a cell. The result has a reason if they cannot be counted."""
    os.umask(0o022)  # the servers, which run as another user, read the files
    # A namespace is entered before the first thread starts.
    enter_user_namespace(recipe)
    watch_parents()
    with machine_lock(), run_folder(os.getcwd()) as folder:
        calls = syscalls.count_calls(recipe, folder)
    if calls["why_not"]:
        print(calls["why_not"], file=sys.stderr)
    cell = {key: recipe[key] for key in ("study", "cell", "axes")}
    return {**cell, "digest": call_digest(recipe), **calls}


def main(kind: str, output: str, *arguments: str) -> int:
    """Measure and write the output. Return the exit code."""
    exit_on_signals()
    if kind == "calls":
        write_json(output, count_calls(json.loads(arguments[0])))
    else:
        write_json(output, measure_limits([int(number) for number in arguments]))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Measures this machine's ceiling: python -m vcsbench.run.ceiling OUTPUT CLIENTS..."""

from __future__ import annotations

import os
import sys
import time

from vcsbench.measure.ceiling import ceiling
from vcsbench.measure.context import host
from vcsbench.measure.lock import machine_lock
from vcsbench.run.orphans import end_when_told, end_with_workflow
from vcsbench.wholefile import write_json


def main(output: str, *clients: str) -> int:
    """Measure and write; returns the exit code."""
    end_when_told()
    end_with_workflow()
    with machine_lock():
        began = time.monotonic()
        found = ceiling([int(number) for number in clients])
    about = {"host": host()["name"], "cores": len(os.sched_getaffinity(0))}
    write_json(output, {**about, **found, "seconds": round(time.monotonic() - began, 3)})
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

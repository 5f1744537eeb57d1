"""Measures this machine's ceiling: python -m vcsbench.run.ceiling OUTPUT CLIENTS..."""

from __future__ import annotations

import sys
import time

from vcsbench.files import write_json
from vcsbench.measure.ceiling import ceiling
from vcsbench.measure.context import host
from vcsbench.measure.identity import full_name
from vcsbench.measure.lock import machine_lock
from vcsbench.run.orphans import end_when_told, end_with_workflow


def main(output: str, *clients: str) -> int:
    """Measure and write; returns the exit code."""
    end_when_told()
    end_with_workflow()
    with machine_lock():
        began = time.monotonic()
        found = ceiling([int(number) for number in clients])
    about = {"host": full_name(host()), "seconds": round(time.monotonic() - began, 3)}
    write_json(output, {**about, **found})
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

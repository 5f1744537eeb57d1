"""A job that measures a cell-round, with the arguments of run.cell:
python -S -c "from vcsbench.run import job; job.run()" ARGUMENT...

The process that stands by measures it, where there is one, and this one waits; else it does so itself. It is
started for every cell-round, so it imports hardly anything before it has to; `python -m` alone takes as long
as half the start of an interpreter.
"""

from __future__ import annotations

import os
import sys

from vcsbench.run.asking import ask

# In the environment of a run's jobs: the folder that the process which stands by has for itself.
STANDBY = "VCSBENCH_STANDBY"


def _measure(arguments: list[str]) -> int:
    folder = os.environ.get(STANDBY, "")
    code = ask(folder, arguments) if folder else None
    if code is not None:
        return code
    from vcsbench import modules
    from vcsbench.run import cell, standby

    if folder:
        modules.load()
        standby.stand_by(folder, lambda own: cell.main(*own))
    return cell.main(*arguments)


def run() -> None:
    """Measure, and exit."""
    code = _measure(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Nothing is left to do, and to take an interpreter apart takes as long as to start it.
    os._exit(code)

"""Runs Snakemake and answers for all that it starts: python -m vcsbench.run.supervise ARGUMENT...

However it ends (Ctrl-C, SIGTERM, a terminal that closes, a failure), nothing of it runs on. Killed with
-9, it takes Snakemake with it, whose jobs end with Snakemake; the next run puts right what is left.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.run import lock as running

NAMES = {
    signal.SIGINT: "Ctrl-C",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "the terminal closed",
}
PR_SET_PDEATHSIG = 1


class Ended(BaseException):
    """Somebody wants the run to end."""

    def __init__(self, number: int) -> None:
        self.number = number


def main(arguments: list[str]) -> int:
    """Run Snakemake with the arguments, in the present folder; returns the exit code."""
    root = Path.cwd()
    for number in NAMES:
        # A run under nohup does not mind a terminal that closes.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    try:
        lock = running.begin(root)
    except UserError as error:
        running.say(f"{error}.")
        return 1
    except Ended as ended:
        return 128 + ended.number
    status = _run(root, lock, arguments)
    full = running.is_full(root)
    if status and full:
        running.say(f"{full}: the file system is full; free some space and run again.")
    return status


def _run(root: Path, lock: int, arguments: list[str]) -> int:
    environment = {**os.environ, running.MARK: os.path.realpath(root)}
    # Our own death takes Snakemake along, and the terminal's Ctrl-C comes to us alone.
    snakemake = subprocess.Popen(
        ["snakemake", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_die_with_parent,
        pass_fds=[lock],
    )
    try:
        status = snakemake.wait()
        running.end_marked(root)
        return status if status >= 0 else 128 - status
    except Ended as ended:
        running.say(f"{NAMES[signal.Signals(ended.number)]}: ending what runs")
        # Killed, not asked: it would wait for its jobs, and make a report. What it leaves is what a
        # kill leaves, which the next run puts right.
        snakemake.kill()
        running.end_marked(root)
        snakemake.wait()
        for left in (root / ".snakemake" / "locks").glob("*.lock"):
            left.unlink(missing_ok=True)
        running.say("the run was ended; what was measured is kept, and the next run carries on")
        return 128 + ended.number


def _end(number: int, _: types.FrameType | None) -> None:
    # From here on it takes two seconds at most: a second Ctrl-C changes nothing.
    for name in NAMES:
        signal.signal(name, signal.SIG_IGN)
    raise Ended(number)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in NAMES:
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

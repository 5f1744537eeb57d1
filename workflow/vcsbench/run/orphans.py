"""A job ends with the workflow that wanted it, also where that is killed with -9."""

from __future__ import annotations

import atexit
import errno
import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress

from vcsbench import processes

# The rule's shell, and Snakemake.
WATCHED = 2
GRACE_S = 2.0
FULL = (errno.ENOSPC, errno.EDQUOT)


def end_when_told() -> None:
    """SIGTERM, Ctrl-C and a terminal that closes raise SystemExit, so that what was started is ended."""
    sys.unraisablehook = _tell_again
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(name) != signal.SIG_IGN:
            signal.signal(
                name, lambda number, _: sys.exit(f"ended by {signal.Signals(number).name}")
            )


def _tell_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Where a signal comes while an object is taken apart, Python drops what its handler raises: it comes
    once more."""
    if isinstance(unraisable.exc_value, SystemExit):
        # Not at once: what is raised in here is dropped, too.
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGTERM)).start()
    else:
        sys.__unraisablehook__(unraisable)


def end_with_workflow() -> None:
    """From now on this process, and all that it started, ends when one of the processes does that wanted
    its work. It gets a SIGTERM first."""
    fds = []
    for pid in processes.ancestors(WATCHED):
        try:
            fds.append(os.pidfd_open(pid))
        except ProcessLookupError:
            os.kill(os.getpid(), signal.SIGTERM)
    threading.Thread(target=_watch, args=(fds,), daemon=True).start()


def stop_workflow() -> None:
    """Have the Snakemake that wants this job start no other one."""
    for pid in processes.ancestors(WATCHED + 1):
        if any(word.endswith("snakemake") for word in processes.command_line(pid)[:4]):
            processes.send([pid], signal.SIGTERM)
            return


def _watch(fds: list[int]) -> None:
    select.select(fds, [], [])
    with suppress(OSError):
        print("the workflow has ended, and this job with it", file=sys.stderr, flush=True)
    started = processes.family(os.getpid())[1:]
    # What is asked to end ends its own children only, and this thread with itself.
    atexit.register(processes.send, started, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    processes.send({*started, *processes.family(os.getpid())[1:]}, signal.SIGKILL)
    os._exit(1)

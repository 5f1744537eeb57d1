"""Runs a command that is not timed and reads what it prints, in constant memory."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.measure.hooks import Abandoned, too_long
from vcsbench.measure.meters import libraries
from vcsbench.measure.meters.ending import Ending
from vcsbench.measure.work.kind import Fingerprint, Reader
from vcsbench.measure.work.neutral import Neutral


class Captured(NamedTuple):
    """What a run did, what it read and wrote as the kernel counts it, its peak memory and the
    libraries of Subversion that it had loaded (None where it could not be followed, or loads none)."""

    work: Fingerprint
    io: dict[str, int]
    peak_bytes: int | None = None
    libraries: list[str] | None = None


def capture(
    argv: Sequence[str],
    stdin: str,
    read: Reader,
    neutral: Neutral,
    environment: dict[str, str],
    log: Path,
    limit_s: float,
    watched: Sequence[int],
) -> Captured:
    """Run a command with the file `stdin` (or nothing) as its input, its output into `read`, and what it
    complains about into the file `log`.

    A UserError where it fails or takes longer than `limit_s`, Abandoned where a process of `watched`
    (descriptors) ends first.
    """
    process = _start(argv, stdin, environment, log)
    assert process.stdout
    ending = Ending(process.pid)  # at once: what a wrapper has started before is not seen
    watchdog = _Watchdog(process.pid, watched, limit_s)
    watchdog.start()
    try:
        work = read(process.stdout, neutral)
        ending.join()  # it sees the end first: its stops are not to be taken for that
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # It has ended, and what the kernel knows of it can still be asked.
        counted = processes.io_counts([process.pid])
    finally:
        process.stdout.close()
        _end(process.pid)
        ending.join()
        process.wait()
        watchdog.join()
    _check(watchdog, process.returncode, argv[0], log)
    return Captured(work, counted, ending.peak_bytes, libraries.mapped(ending.maps) or None)


def _start(
    argv: Sequence[str], stdin: str, environment: dict[str, str], log: Path
) -> subprocess.Popen[bytes]:
    with log.open("wb") as errors, open(stdin or os.devnull, "rb") as given:
        return subprocess.Popen(
            processes.with_pdeathsig(list(argv)),
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            process_group=0,  # ended together with what it runs
        )


def _check(watchdog: _Watchdog, code: int, program: str, log: Path) -> None:
    if watchdog.abandoned:
        raise Abandoned
    if watchdog.late:
        raise too_long(watchdog.limit_s)
    if code != 0:
        said = " ".join(processes.last_lines(log, 3)) or "it said nothing"
        raise UserError(f"{os.path.basename(program)} {processes.how_it_ended(code)}: {said}")


class _Watchdog(threading.Thread):
    """Ends a process when it takes too long, or nobody waits for it any more: reading its output ends
    with it."""

    def __init__(self, pid: int, watched: Sequence[int], limit_s: float) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.process = os.pidfd_open(pid)
        self.watched = list(watched)
        self.limit_s = limit_s
        self.late = self.abandoned = False

    def run(self) -> None:
        """Wait for whatever happens first."""
        ready = select.select([self.process, *self.watched], [], [], self.limit_s)[0]
        self.abandoned = any(fd in ready for fd in self.watched)
        self.late = not ready
        if self.late or self.abandoned:
            _end(self.pid)
        os.close(self.process)


def _end(group: int) -> None:
    """End a command that is not waited for yet, and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def unread(output: IO[bytes], _neutral: Neutral) -> Fingerprint:
    """Takes what a command prints, and tells nothing of it."""
    while output.read(1 << 16):
        pass
    return {}

"""Run a command untimed: read its output, and record its I/O, peak memory and loaded libraries."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.kernel import read
from vcsbench.measure.hyperfine import ParentGone, time_limit_error
from vcsbench.measure.work import Fingerprint

LIBRARY = re.compile(r"(/\S*/(?:libsvn_[^/\s]*\.so|mod_dav_svn\.so)[^/\s]*)$", re.MULTILINE)
LOADER_LIMIT_S = 60
TRACER_LIMIT_S = 2.0


class Captured(NamedTuple):
    """The fingerprint of a run, its I/O as the kernel counts it, its peak memory, and its libraries.

    `peak_bytes` is None if the kernel allows no tracing, `libraries` also if the run loads none of
    Subversion's.
    """

    work: Fingerprint
    io: dict[str, int]
    peak_bytes: int | None = None
    libraries: list[str] | None = None


def capture(
    argv: Sequence[str],
    stdin: str,
    read: Callable[[IO[bytes]], Fingerprint],
    environment: Mapping[str, str],
    log: Path,
    limit_s: float,
    watched: Sequence[int] = (),
) -> Captured:
    """Run a command with the file `stdin` (or nothing) as input. `read` gets its output, `log` its errors.

    Raise UserError if it fails or takes longer than `limit_s`, and ParentGone if a process of `watched`
    (descriptors) ends first.
    """
    with log.open("wb") as errors, open(stdin or os.devnull, "rb") as given:
        process = subprocess.Popen(
            processes.with_pdeathsig(list(argv)),
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            process_group=0,  # ends together with its children
        )
    assert process.stdout
    tracer = ExitTracer(process.pid)  # at once: earlier children of a wrapper are not traced
    watchdog = _Watchdog(process.pid, watched, limit_s)
    watchdog.start()
    try:
        work = read(process.stdout)
        watchdog.join()  # ends with the process
        # Before waitid, which would take the tracer's stops for the end. A child that stays is not awaited.
        tracer.join(TRACER_LIMIT_S)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # The process has ended, but the kernel still has its counters.
        io = processes.io_counts([process.pid])
    finally:
        process.stdout.close()
        _kill_group(process.pid)
        tracer.join(TRACER_LIMIT_S)
        process.wait()
        watchdog.join()
    if watchdog.is_parent_gone:
        raise ParentGone
    if watchdog.is_late:
        raise time_limit_error(limit_s)
    if process.returncode != 0:
        output = " ".join(processes.last_lines(log, 3)) or "it printed no error"
        ended = processes.how_it_ended(process.returncode)
        raise UserError(f"{os.path.basename(argv[0])} {ended}: {output}")
    return Captured(work, io, tracer.peak_bytes, mapped_libraries(tracer.maps) or None)


class _Watchdog(threading.Thread):
    """Kill a process that takes too long, or whose cell nobody waits for. Its output ends with it."""

    def __init__(self, pid: int, watched: Sequence[int], limit_s: float) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.process = os.pidfd_open(pid)
        self.watched = list(watched)
        self.limit_s = limit_s
        self.is_late = self.is_parent_gone = False

    def run(self) -> None:
        """Wait for the first of: its end, the end of a watched process, the time limit."""
        ready = select.select([self.process, *self.watched], [], [], self.limit_s)[0]
        self.is_parent_gone = any(fd in ready for fd in self.watched)
        self.is_late = not ready
        if self.is_late or self.is_parent_gone:
            _kill_group(self.pid)
        os.close(self.process)


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


# sys/ptrace.h: stop a process where it exits, and trace its children.
SEIZE, CONT, DETACH = 0x4206, 7, 17
TRACE_EXIT, TRACE_FORKS = 0x40, 0x02 | 0x04
EXIT_EVENT = 6
# __WALL | __WNOTHREAD: wait for the tracees of this thread only, not for children of other threads.
WAIT_OWN = 0x40000000 | 0x20000000
ENDED = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
PEEK = os.WEXITED | os.WSTOPPED | os.WNOWAIT | WAIT_OWN

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


class ExitTracer(threading.Thread):
    """Trace a child of this process, and its children, until they exit.

    `peak_bytes` is then the largest resident size of one of them, and `maps` all their /proc/PID/maps;
    None and "" if the kernel allows no tracing. getrusage() cannot do this: its peak includes the size of
    the parent.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak_bytes: int | None = None
        self.maps = ""
        self.ready = threading.Event()
        self.start()
        self.ready.wait()

    def run(self) -> None:
        """Trace until no tracee is left."""
        is_allowed = _ptrace(SEIZE, self.pid, TRACE_EXIT | TRACE_FORKS)
        self.ready.set()
        while is_allowed:
            try:
                event = os.waitid(os.P_ALL, 0, PEEK)
            except ChildProcessError:
                return
            assert event  # only WNOHANG makes it None
            if event.si_pid == self.pid and event.si_code in ENDED:
                # It was about to exit when the trace began. Its parent waits for it.
                return
            pid, status = os.waitpid(event.si_pid, WAIT_OWN)
            if os.WIFSTOPPED(status):
                self._handle_stop(pid, status)

    def _handle_stop(self, pid: int, status: int) -> None:
        event = status >> 16
        if event == EXIT_EVENT:
            self.peak_bytes = max(self.peak_bytes or 0, processes.own_peak_bytes(pid)) or None
            self.maps += read(f"/proc/{pid}/maps") + "\n"
            _ptrace(DETACH, pid, 0)  # its parent waits for its end
        else:
            # Pass on a signal. A stop because of a fork or of the trace itself is none.
            _ptrace(CONT, pid, 0 if event else os.WSTOPSIG(status))


def _ptrace(request: int, pid: int, data: int) -> bool:
    refused = (errno.EPERM, errno.ESRCH, errno.ENOSYS)
    return int(_libc.ptrace(request, pid, None, data)) == 0 or ctypes.get_errno() not in refused


def client_libraries(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path
) -> list[str] | None:
    """Run a command untimed, and return the libraries of Subversion that its loader reports below `folder`.

    Return None without a report: the program is static, or its C library is not glibc.
    """
    debug = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(folder / "loaded")}
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            argv,
            env={**environment, **debug},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LOADER_LIMIT_S,
        )
    # One file per process: the shell of a wrapper has one, too.
    texts = [path.read_text(errors="replace") for path in folder.glob("loaded.*")]
    lines = [line for text in texts for line in text.splitlines() if "calling init: " in line]
    return _resolved(LIBRARY.findall("\n".join(lines))) if lines else None


def server_libraries(pid: int) -> list[str]:
    """Return the libraries of Subversion that a running server and its children have mapped."""
    return mapped_libraries(
        "\n".join(read(f"/proc/{member}/maps") for member in processes.family(pid))
    )


def mapped_libraries(maps: str) -> list[str]:
    """Return the libraries of Subversion in /proc/PID/maps."""
    return _resolved(LIBRARY.findall(maps))


def _resolved(paths: Iterable[str]) -> list[str]:
    return sorted({os.path.realpath(path) for path in set(paths)})

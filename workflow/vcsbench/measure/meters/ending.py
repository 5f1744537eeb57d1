"""What the kernel knows of a program in the moment in which it ends: its peak memory, and the files that it
has mapped.

What a parent is told of memory (getrusage) holds the size of the process that started the program, too. So
the program is stopped where it exits (ptrace), and asked.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading

from vcsbench import processes

SEIZE, CONT, DETACH = 0x4206, 7, 17
# Stop a process where it exits, and trace what it forks.
TRACE_EXIT, TRACE_FORKS = 0x40, 0x02 | 0x04
EXIT_EVENT = 6
# Wait for what this thread traces, and for no child of another thread.
WAIT_OWN = 0x40000000 | 0x20000000
ENDED = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
# To see what has happened, and leave it to be seen again.
LOOK = os.WEXITED | os.WSTOPPED | os.WNOWAIT | WAIT_OWN

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


class Ending(threading.Thread):
    """Follows a child of this process to its end; then `peak_bytes` is the highest resident size of it, or of
    the largest of the processes that it started, and `maps` what all of these had mapped, as /proc/PID/maps
    has it; None and "" where the system allows no tracing."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak_bytes: int | None = None
        self.maps = ""
        self.ready = threading.Event()
        self.start()
        self.ready.wait()

    def run(self) -> None:
        """Trace until nothing is left that is traced."""
        allowed = _ptrace(SEIZE, self.pid, TRACE_EXIT | TRACE_FORKS)
        self.ready.set()
        while allowed:
            try:
                seen = os.waitid(os.P_ALL, 0, LOOK)
            except ChildProcessError:
                return
            assert seen  # nothing but WNOHANG makes it None
            if seen.si_pid == self.pid and seen.si_code in ENDED:
                # It was about to exit when it was to be followed. Its end, too, is its parent's to see.
                return
            pid, status = os.waitpid(seen.si_pid, WAIT_OWN)
            if os.WIFSTOPPED(status):
                self._stopped(pid, status)

    def _stopped(self, pid: int, status: int) -> None:
        event = status >> 16
        if event == EXIT_EVENT:
            self.peak_bytes = max(self.peak_bytes or 0, processes.own_peak_bytes(pid)) or None
            self.maps += f"{processes.maps(pid)}\n"
            # Let go of it: its end is its parent's to see.
            _ptrace(DETACH, pid, 0)
        else:
            # A signal is passed on; what is no signal of its own (a fork, its first stop) is not.
            _ptrace(CONT, pid, 0 if event else os.WSTOPSIG(status))


def _ptrace(request: int, pid: int, data: int) -> bool:
    return int(_libc.ptrace(request, pid, None, data)) == 0 or ctypes.get_errno() not in (
        errno.EPERM,
        errno.ESRCH,
        errno.ENOSYS,
    )

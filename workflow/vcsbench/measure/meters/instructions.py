"""Instructions that processes execute in user mode, as the processor counts them (perf_event_open(2)).

A counter belongs to a thread and to what that thread starts from then on. So all threads of the processes get
one before a run, and the counts are read after it; nothing of ours runs in between.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache

# Their number on the machine; elsewhere it is that of most architectures.
CALL = {"x86_64": 298, "ppc64le": 319, "ppc64": 319, "s390x": 331}.get(os.uname().machine, 241)
# A type of event, and which one of that type: of the hardware's, instructions.
EVENT = (0, 1)
# Inherited by what is started; the kernel and what lies below it left out.
INHERIT, WITHOUT_KERNEL, WITHOUT_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
# Beside the count: for how long it was wanted, and for how long the processor really counted.
TIMES = 0x1 | 0x2
CLOSE_ON_EXEC = 8
ANY_CPU, NO_GROUP = -1, -1

_libc = ctypes.CDLL(None, use_errno=True)


class _Attributes(ctypes.Structure):
    """struct perf_event_attr as it was at first, which every kernel takes."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup", ctypes.c_uint32),
        ("breakpoint", ctypes.c_uint32),
        ("address", ctypes.c_uint64),
    )


class Counting:
    """Counts from now on what some processes, all of their threads, and what these start execute."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.counters: list[int] = []
        try:
            for pid in pids:
                for thread in map(int, os.listdir(f"/proc/{pid}/task")):
                    with suppress(ProcessLookupError):  # it has ended since
                        self.counters.append(_open(thread))
            self.failed = False
        except OSError:
            self.failed = True

    def end(self) -> int | None:
        """What was counted; None where something was not, or not all the time."""
        found = [_read_and_close(counter) for counter in self.counters]
        self.counters = []
        if self.failed or any(count is None for count in found):
            return None
        return sum(count for count in found if count is not None)


@cache
def why_not() -> str:
    """Why nothing is counted here, in a clause; "" if it is."""
    try:
        os.close(_open(0))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            takes = "root, CAP_PERFMON, or kernel.perf_event_paranoid of at most 2"
            return f"counters may not be read: that takes {takes}"
        return f"the machine has no counter of instructions ({os.strerror(error.errno or 0)})"
    return ""


def count(sides: Mapping[str, Sequence[int]]) -> dict[str, Counting]:
    """Begin to count, apart for each of some sides with its processes; {} where nothing counts."""
    return {} if why_not() else {side: Counting(pids) for side, pids in sides.items()}


def _open(thread: int) -> int:
    """A counter of a thread (0: this one)."""
    kind, config = EVENT
    wanted = _Attributes(kind, ctypes.sizeof(_Attributes), config, read_format=TIMES)
    wanted.flags = INHERIT | WITHOUT_KERNEL | WITHOUT_HYPERVISOR
    said = _libc.syscall(
        CALL, ctypes.byref(wanted), thread, ANY_CPU, NO_GROUP, ctypes.c_ulong(CLOSE_ON_EXEC)
    )
    if said < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(said)


def _read_and_close(counter: int) -> int | None:
    value, wanted_ns, counted_ns = struct.unpack("=3Q", os.read(counter, 24))
    os.close(counter)
    # Of a counter that was shared with others the rest would be a guess.
    return int(value) if counted_ns == wanted_ns else None

"""Count the instructions of processes in user mode, by perf_event_open(2).

A counter belongs to one thread, and to all threads and processes that this thread starts later.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache

from vcsbench.kernel import check_result, libc

PERF_EVENT_OPEN = {"x86_64": 298, "ppc64le": 319, "s390x": 331}.get(os.uname().machine, 241)
# PERF_TYPE_HARDWARE and PERF_COUNT_HW_INSTRUCTIONS.
EVENT = (0, 1)
# struct perf_event_attr in its first version, which every kernel supports: type, size, config, sample_period,
# sample_type, read_format, flags, and three fields that stay 0.
ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")
# Bits of the flags: inherit, exclude_kernel and exclude_hv. Other users than root may count user mode only.
EVENT_FLAGS = 1 << 1 | 1 << 5 | 1 << 6
# PERF_FORMAT_TOTAL_TIME_ENABLED and PERF_FORMAT_TOTAL_TIME_RUNNING.
TIMES = 0x1 | 0x2
CLOSE_ON_EXEC = 8
ANY_CPU = -1
NO_GROUP = -1


class InstructionCounter:
    """Count the instructions of all threads of some processes, and of their later children, until end()."""

    def __init__(self, pids: Sequence[int]) -> None:
        # The descriptor of each thread's counter.
        self.events: list[int] = []
        self.has_failed = False
        try:
            for pid in pids:
                for thread in os.listdir(f"/proc/{pid}/task"):
                    # The thread may have ended since it was listed.
                    with suppress(ProcessLookupError):
                        self.events.append(_open_event(int(thread)))
        except OSError:
            self.has_failed = True

    def end(self) -> int | None:
        """Return the number of instructions until now, and close the counters.

        Return None if a counter could not be opened, or did not count for some of the time.
        """
        total = 0
        while self.events:
            event = self.events.pop()
            # Three numbers of 8 bytes: the count, the time since the counter was enabled, and the part of
            # this time in which it has counted.
            count, enabled_ns, running_ns = struct.unpack("=3Q", os.read(event, 24))
            os.close(event)
            # If several users take turns at a counter of the hardware, the count is incomplete.
            if running_ns != enabled_ns:
                self.has_failed = True
            total += count
        return None if self.has_failed else total


@cache
def why_no_instructions() -> str:
    """Return why instructions cannot be counted here, as a clause; "" if they can."""
    try:
        this_thread = 0
        os.close(_open_event(this_thread))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            return (
                "counters may not be read: that takes root, CAP_PERFMON, or kernel.perf_event_paranoid of at "
                "most 2"
            )
        return f"the machine has no counter of instructions ({os.strerror(error.errno or 0)})"
    return ""


def count_instructions(sides: Mapping[str, Sequence[int]]) -> dict[str, InstructionCounter]:
    """Start to count the instructions of processes, and return the counters by side, such as "client".

    Example of `sides`: {"client": [4711], "server": [4712, 4713]}. Return {} if nothing can be counted.
    """
    if why_no_instructions():
        return {}
    return {side: InstructionCounter(pids) for side, pids in sides.items()}


def _open_event(thread: int) -> int:
    """Open the counter of a thread and return its descriptor. 0 is this thread. Raise OSError if refused."""
    kind, config = EVENT
    # The fields that are 0 are not used: the counter only counts, and takes no samples.
    attributes = ATTRIBUTES.pack(kind, ATTRIBUTES.size, config, 0, 0, TIMES, EVENT_FLAGS, 0, 0, 0)
    flags = ctypes.c_ulong(CLOSE_ON_EXEC)
    return check_result(libc.syscall(PERF_EVENT_OPEN, attributes, thread, ANY_CPU, NO_GROUP, flags))

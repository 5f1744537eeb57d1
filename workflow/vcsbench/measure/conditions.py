"""Read the conditions of a measurement that a user or a cluster sets: processors, priorities and limits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vcsbench import kernel
from vcsbench.kernel import libc

if TYPE_CHECKING:
    from vcsbench.records import RoundConditions

# The number of the system call ioprio_get(2), 31 on ARM and other new architectures.
IOPRIO_GET = {"x86_64": 252, "ppc64le": 274, "s390x": 283}.get(os.uname().machine, 31)
IOPRIO_WHO_PROCESS = 1
THIS_PROCESS = 0
# The controller of control groups that limits I/O, by version, and its files with a line for each device.
IO_CONTROLLERS = {1: "blkio", 2: "io"}
IO_LIMITS = {
    1: (
        "blkio.throttle.read_bps_device",
        "blkio.throttle.read_iops_device",
        "blkio.throttle.write_bps_device",
        "blkio.throttle.write_iops_device",
    ),
    2: ("io.max",),
}


def read_conditions() -> RoundConditions:
    """Return the conditions of this process, which hyperfine, client and server inherit.

    `io_priority` is the number of ioprio_get(2), None if the kernel has no such call. `quota_cores` and
    `io_limits` come from control groups.
    """
    priority = libc.syscall(IOPRIO_GET, IOPRIO_WHO_PROCESS, THIS_PROCESS)
    return {
        "cpus": sorted(os.sched_getaffinity(0)),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        "io_priority": priority if priority >= 0 else None,
        "quota_cores": kernel.quota_cores(),
        "io_limits": _read_io_limits(),
    }


def _read_io_limits() -> list[str]:
    """Return the limits of all groups around this process, such as "io.max 8:0 rbps=1048576"."""
    limits = []
    for version, controller in IO_CONTROLLERS.items():
        for group in kernel.groups(controller):
            if group.version != version:
                continue
            for name in IO_LIMITS[version]:
                lines = kernel.read(group.folder / name).splitlines()
                limits += [f"{name} {line}" for line in lines]
    return sorted(limits)

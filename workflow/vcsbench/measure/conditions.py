"""Read the conditions of a measurement that a user or a cluster sets: processors, priorities and limits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vcsbench import kernel
from vcsbench.kernel import libc

if TYPE_CHECKING:
    from vcsbench.records import RoundConditions

IOPRIO_GET = {"x86_64": 252, "ppc64le": 274, "s390x": 283}.get(os.uname().machine, 31)
THIS_PROCESS = (1, 0)  # kind and id: IOPRIO_WHO_PROCESS, the caller
# By version of control groups: the controller and its files with a line for each limited device.
IO_LIMITS = {
    1: (
        "blkio",
        [
            f"blkio.throttle.{way}_{unit}_device"
            for way in ("read", "write")
            for unit in ("bps", "iops")
        ],
    ),
    2: ("io", ["io.max"]),
}


def conditions() -> RoundConditions:
    """Return the conditions of this process, which hyperfine, client and server inherit.

    `io_priority` is the number of ioprio_get(2), None if the kernel has no such call. `quota_cores` and
    `io_limits` come from control groups.
    """
    priority = libc.syscall(IOPRIO_GET, *THIS_PROCESS)
    limits = []
    for version, (controller, names) in IO_LIMITS.items():
        folders = [g.folder for g in kernel.groups(controller) if g.version == version]
        for name in names:
            for folder in folders:
                limits += [f"{name} {line}" for line in kernel.read(folder / name).splitlines()]
    return {
        "cpus": sorted(os.sched_getaffinity(0)),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        "io_priority": priority if priority >= 0 else None,
        "quota_cores": kernel.quota_cores(),
        "io_limits": sorted(limits),
    }

"""Describe this machine, and identify it: host names are not unique, and machines get other parts."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench import cgroup
from vcsbench.kernelfile import read

if TYPE_CHECKING:
    from vcsbench.records import Host

MEMORY_BLOCKS = Path("/sys/devices/system/memory")
# A machine without systemd has the second one.
MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
SCALING_GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


def host() -> Host:
    """Return the machine: name, identity, kernel, processor, cores, memory, hypervisor, clock source.

    `memory_limit_bytes` and `quota_cores` are a container's limits; None if there is none.
    """
    # Slurm's nodes may share a host name.
    name = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    cpu = read("/proc/cpuinfo")
    return {
        "name": name,
        "id": machine_identity(name, _field(cpu, "model name")),
        "kernel": os.uname().release,
        "os": _os_name(),
        "cpu": _field(cpu, "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": cgroup.machine_memory_bytes(),
        "memory_limit_bytes": cgroup.memory().limit,
        "quota_cores": cgroup.quota_cores(),
        "virtualized": _hypervisor(cpu),
        "clock_source": read(CLOCK_SOURCE),
        "governor": read(SCALING_GOVERNOR),
        "load": os.getloadavg()[0],
    }


def host_label(host: Host) -> str:
    """Return the label of a context's machine: its name and its identity, because names are not unique."""
    return "#".join(filter(None, [str(host["name"]), host.get("id")]))


def machine_identity(name: str, cpu: str) -> str:
    """Return a digest of a machine's name, id, processors and memory.

    It survives an upgrade of kernel and programs, and changes with the parts of the machine.
    """
    machine_id = next(filter(None, map(read, MACHINE_IDS)), "")
    parts = [name, machine_id, cpu, str(os.cpu_count()), str(installed_memory_bytes())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def installed_memory_bytes() -> int:
    """Return the memory that the firmware reports, or the memory of the kernel, in whole GiB.

    The kernel's number varies with its version.
    """
    try:
        # Count the blocks by name: to read the state of hundreds of them takes as long as a server's start.
        size = int(read(MEMORY_BLOCKS / "block_size_bytes"), 16)
        blocks = sum(name.removeprefix("memory").isdigit() for name in os.listdir(MEMORY_BLOCKS))
        if size and blocks:
            return size * blocks
    except (OSError, ValueError):
        pass
    words = read("/proc/meminfo").split()
    gibibytes = -(-int(words[1]) // (1 << 20)) if len(words) > 1 else 0
    return gibibytes << 30


def _os_name() -> str:
    lines = read("/etc/os-release").splitlines()
    return next((line[13:-1] for line in lines if line.startswith('PRETTY_NAME="')), "")


def _hypervisor(cpu: str) -> str:
    if "hypervisor" not in _field(cpu, "flags").split():
        return ""
    return read("/sys/class/dmi/id/sys_vendor") or "yes"


def _field(text: str, name: str) -> str:
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "")

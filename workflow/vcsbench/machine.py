"""The programs and rights of this machine, and its identity: host names are not unique."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench import kernel, processes
from vcsbench.formats import NEWEST, RELEASES
from vcsbench.kernel import read

if TYPE_CHECKING:
    from vcsbench.records import Host

VERSION_S = 60.0
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
MEMORY_BLOCKS = Path("/sys/devices/system/memory")
MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
SCALING_GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


class Machine:
    """The programs and rights of this machine.

    Programs are on the PATH, or in an environment that Snakemake deploys (`deployed`), without httpd.
    """

    def __init__(self, deployed: bool = False) -> None:
        self.deployed = deployed

    @cache  # noqa: B019 - there is one of it
    def has(self, program: str) -> bool:
        return self.deployed or shutil.which(program) is not None

    @cached_property
    def newest_format(self) -> str:
        version = "" if self.deployed else subversion_version("svnadmin")
        release = [int(number) for number in re.findall(r"\d+", version)]
        made = [f for f, since in RELEASES.items() if [*map(int, since.split("."))] <= release]
        return made[-1] if made else NEWEST

    def clearing(self, wanted: str) -> str:
        """Return how caches become cold: `drop-caches`, `evict`, or "" if neither is possible."""
        if wanted in ("auto", "drop-caches") and can_drop_caches():
            return "drop-caches"
        if wanted in ("auto", "evict") and self.has("vmtouch"):
            return "evict"
        return ""


def subversion_version(program: str, env: Mapping[str, str] | None = None) -> str:
    printed = processes.run_program(
        [program, "--version", "--quiet"], env=env, limit_s=VERSION_S, may_fail=True
    )
    match = re.match(r"[0-9]+\.[0-9]+[0-9A-Za-z.-]*", printed.output)
    return match[0] if match else ""


@cache
def can_drop_caches() -> bool:
    """Return True if this process may empty the kernel's caches: root may, but not in every container."""
    try:
        os.close(os.open(DROP_CACHES, os.O_WRONLY))
    except OSError:
        return False
    return True


def host() -> Host:
    """Return the machine; `memory_limit_bytes` and `quota_cores` are a container's limits, or None."""
    name = node_name()
    cpu = read("/proc/cpuinfo")
    is_guest = "hypervisor" in _field(cpu, "flags").split()
    os_names = re.findall(r'^PRETTY_NAME="(.*)"$', read("/etc/os-release"), re.MULTILINE)
    return {
        "name": name,
        "id": machine_identity(name, _field(cpu, "model name")),
        "kernel": os.uname().release,
        "os": "".join(os_names[:1]),
        "cpu": _field(cpu, "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": kernel.machine_memory_bytes(),
        "memory_limit_bytes": kernel.memory().limit,
        "quota_cores": kernel.quota_cores(),
        "virtualized": (read("/sys/class/dmi/id/sys_vendor") or "yes") if is_guest else "",
        "clock_source": read(CLOCK_SOURCE),
        "governor": read(SCALING_GOVERNOR),
        "load": os.getloadavg()[0],
    }


def node_name() -> str:
    """Return the host name, or the name of a node of Slurm, because these may share a host name."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def host_label(host: Host) -> str:
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
        # Reading the state of hundreds of blocks takes as long as a server's start.
        size = int(read(MEMORY_BLOCKS / "block_size_bytes"), 16)
        blocks = sum(name.removeprefix("memory").isdigit() for name in os.listdir(MEMORY_BLOCKS))
        if size and blocks:
            return size * blocks
    except (OSError, ValueError):
        pass
    return -(-(kernel.machine_memory_bytes() or 0) >> 30) << 30


def _field(text: str, name: str) -> str:
    match = re.search(rf"^{name}[ \t]*:(.*)$", text, re.MULTILINE)
    return match[1].strip() if match else ""

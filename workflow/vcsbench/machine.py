"""The programs and rights of this machine, and its identity: host names are not unique."""

from __future__ import annotations

import hashlib
import math
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
GIB = 1 << 30
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
MEMORY_BLOCKS = Path("/sys/devices/system/memory")
MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
SCALING_GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
# By file of a driver for the processor's frequency: its content if the turbo is on.
TURBO_FILES = {
    "/sys/devices/system/cpu/intel_pstate/no_turbo": "0",
    "/sys/devices/system/cpu/cpufreq/boost": "1",
}
CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


class Machine:
    """The programs and rights of this machine.

    Programs are on the PATH. With `deployed`, Snakemake deploys all of them but httpd in an environment.
    """

    def __init__(self, deployed: bool = False) -> None:
        self.deployed = deployed

    @cache  # noqa: B019 - there is one of it
    def has(self, program: str) -> bool:
        return self.deployed or shutil.which(program) is not None

    @cached_property
    def newest_format(self) -> str:
        """The newest format of repositories that svnadmin makes, for example "f8".

        It is NEWEST if the version of svnadmin is unknown, as that of a program that is deployed later.
        """
        version = "" if self.deployed else subversion_version("svnadmin")
        # RELEASES has the oldest format first. An unknown version is [], which is less than all releases.
        release = _parse_release(version)
        makeable = [name for name, since in RELEASES.items() if _parse_release(since) <= release]
        return makeable[-1] if makeable else NEWEST

    def clearing(self, configured: str) -> str:
        """Return how the page cache becomes cold: `drop-caches`, `evict`, or "" if neither is possible.

        The kernel drops all caches, or vmtouch evicts the files of a run. `configured` is the user's setting
        `clear_caches`: auto, drop-caches or evict. With auto, dropping is preferred.
        """
        if configured in ("auto", "drop-caches") and can_drop_caches():
            return "drop-caches"
        if configured in ("auto", "evict") and self.has("vmtouch"):
            return "evict"
        return ""


def _parse_release(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def subversion_version(program: str, env: Mapping[str, str] | None = None) -> str:
    """Return the version of a program of Subversion, for example "1.14.2"; "" if it is unknown."""
    done = processes.run_program(
        [program, "--version", "--quiet"], env=env, limit_s=VERSION_S, may_fail=True
    )
    # A wrapper may print something that is no version.
    match = re.match(r"[0-9]+\.[0-9]+[0-9A-Za-z.-]*", done.output)
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
    """Return the facts about this machine that reports show, and that are stored with each result.

    - `cores`: the number of processors that this process may use.
    - `memory_limit_bytes`, `quota_cores`: the limits of a container.
    - `virtualized`: the vendor of the virtual machine ("QEMU"), "yes" if the vendor is unknown, and "" for a
      physical machine.
    - `load`: the average number of running and waiting processes in the last minute.
    """
    name = node_name()
    cpu_info = read("/proc/cpuinfo")
    cpu = _read_field(cpu_info, "model name")
    is_virtual = "hypervisor" in _read_field(cpu_info, "flags").split()
    vendor = read("/sys/class/dmi/id/sys_vendor") if is_virtual else ""
    # The line is like `PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"`.
    system = re.search(r'^PRETTY_NAME="(.*)"$', read("/etc/os-release"), re.MULTILINE)
    return {
        "name": name,
        "id": machine_identity(name, cpu),
        "kernel": os.uname().release,
        "os": system[1] if system else "",
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": kernel.machine_memory_bytes(),
        "memory_limit_bytes": kernel.memory().limit,
        "quota_cores": kernel.quota_cores(),
        "virtualized": (vendor or "yes") if is_virtual else "",
        "clock_source": read(CLOCK_SOURCE),
        "governor": read(SCALING_GOVERNOR),
        "load": _load(),
    }


def read_turbo() -> str:
    """Return "on" if processors may exceed their base frequency, or "off"; "" if it is unknown."""
    for file, content_if_on in TURBO_FILES.items():
        content = read(file)
        if content:
            return "on" if content == content_if_on else "off"
    return ""


def _load() -> float:
    # The C library reads /proc/loadavg, which a container may lack.
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


def node_name() -> str:
    """Return the host name, or the name of a node of Slurm, because these may share a host name."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def host_label(host: Host) -> str:
    """Return name and identity of a machine: "localhost#0123abcd", or its name if it has no identity."""
    identity = host.get("id")
    return f"{host['name']}#{identity}" if identity else str(host["name"])


def machine_identity(name: str, cpu: str) -> str:
    """Return a digest of a machine's name, id, processors and memory.

    It survives an upgrade of kernel and programs, and changes with the parts of the machine.
    """
    # The first file that has an id counts.
    machine_id = ""
    for file in MACHINE_IDS:
        machine_id = machine_id or read(file)
    parts = [name, machine_id, cpu, str(os.cpu_count()), str(installed_memory_bytes())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def installed_memory_bytes() -> int:
    """Return the bytes of memory that are installed in this machine, the same number with any kernel.

    They are the blocks that the firmware reports, online or not. Without a list of blocks, the result is the
    memory that the kernel manages, rounded up to whole GiB.
    """
    # The folder has the size of a block in hexadecimal, and a folder for each block, such as `memory32`. Some
    # systems have none of these.
    try:
        block_bytes = int(read(MEMORY_BLOCKS / "block_size_bytes"), 16)
        names = os.listdir(MEMORY_BLOCKS)
    except (OSError, ValueError):
        names = []
        block_bytes = 0
    blocks = [name for name in names if name.removeprefix("memory").isdigit()]
    if block_bytes and blocks:
        return block_bytes * len(blocks)
    # Rounding up hides the memory that the kernel uses itself, which depends on its version.
    kernel_bytes = kernel.machine_memory_bytes() or 0
    return math.ceil(kernel_bytes / GIB) * GIB


def _read_field(text: str, name: str) -> str:
    """Return the value in the first line `name : value` of a text; "" without one."""
    match = re.search(rf"^{name}[ \t]*:(.*)$", text, re.MULTILINE)
    return match[1].strip() if match else ""

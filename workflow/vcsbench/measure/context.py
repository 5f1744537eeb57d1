"""What a cell-round is measured on and with: host, storage, versions."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from vcsbench import __version__
from vcsbench.machine import Machine


def host() -> dict[str, Any]:
    """The machine: name, kernel, processor, cores, memory in bytes, hypervisor, clock source."""
    # Slurm's nodes may share a host name.
    name = os.environ.get("SLURMD_NODENAME") or platform.node()
    cpu = _read("/proc/cpuinfo")
    memory = _read("/proc/meminfo").split()
    return {
        "name": name,
        "kernel": platform.release(),
        "os": _os_name(),
        "cpu": _field(cpu, "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(memory[1]) * 1024 if memory else None,
        "virtualized": _hypervisor(cpu),
        "clock_source": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load": os.getloadavg()[0],
    }


def storage(name: str, path: Path) -> dict[str, Any]:
    """The storage under test: its file system and device."""
    mount = Machine().filesystem(str(path))
    device = os.stat(path).st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    # A partition's queue is its disk's.
    rotational = _read(str(block / "queue/rotational")) or _read(str(block / "../queue/rotational"))
    return {
        "name": name,
        "path": str(path),
        "filesystem": mount.filesystem,
        "device": mount.device,
        "rotational": {"1": True, "0": False}.get(rotational),
    }


def versions(programs: dict[str, list[str]]) -> dict[str, str]:
    """The versions of programs, given the command line that prints each; asked at the same time."""
    asked = {
        name: subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for name, argv in programs.items()
    }
    found = {"vcsbench": __version__, "python": platform.python_version()}
    for name, process in asked.items():
        said = process.communicate()[0].strip().splitlines()
        words = said[0].replace("Apache/", "").split() if said else []
        found[name] = next((word for word in words if word[:1].isdigit()), "")
    return found


def _os_name() -> str:
    lines = _read("/etc/os-release").splitlines()
    return next((line[13:-1] for line in lines if line.startswith('PRETTY_NAME="')), "")


def _hypervisor(cpu: str) -> str:
    if "hypervisor" not in _field(cpu, "flags").split():
        return ""
    return _read("/sys/class/dmi/id/sys_vendor") or "yes"


def _field(text: str, name: str) -> str:
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "")


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""

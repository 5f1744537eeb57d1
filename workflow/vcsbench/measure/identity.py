"""Which machine this is: many are called localhost, and a machine gets other parts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcsbench.kernelfile import read

MEMORY = Path("/sys/devices/system/memory")
# The second where there is no systemd.
MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def identity(name: str, cpu: str) -> str:
    """A digest of what makes a machine this one: its name, its id, its processors and its memory.

    The kernel and the programs are no part of it: before and after an upgrade it is the same.
    """
    parts = [name, _machine_id(), cpu, str(os.cpu_count()), str(_memory_bytes())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def full_name(host: Mapping[str, Any]) -> str:
    """What the measurements call the machine of a context: its name, and what tells it from others of
    that name."""
    return "#".join(filter(None, [str(host["name"]), host.get("id")]))


def _machine_id() -> str:
    return next(filter(None, map(read, MACHINE_IDS)), "")


def _memory_bytes() -> int:
    """The memory as the firmware gives it where that can be read: what a kernel leaves of it varies
    from version to version."""
    try:
        # Its hundreds of blocks are counted by name: to ask each whether it is online takes as long as the
        # start of a server.
        size = int(read(MEMORY / "block_size_bytes"), 16)
        blocks = sum(name.removeprefix("memory").isdigit() for name in os.listdir(MEMORY))
        if size and blocks:
            return size * blocks
    except (OSError, ValueError):
        pass
    words = read(Path("/proc/meminfo")).split()
    gibibytes = -(-int(words[1]) // (1 << 20)) if len(words) > 1 else 0
    return gibibytes << 30

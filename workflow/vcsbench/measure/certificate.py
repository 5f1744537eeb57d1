"""The certificate of a run: what was seen around it that shows whether it was what its label says."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vcsbench.measure import processes
from vcsbench.measure.servers import Server

# A cold repository has next to nothing in the cache. (How much of a hot one there should be depends on
# what the command reads: there the device's reads tell.)
COLD_RESIDENT_AT_MOST = 0.05
# A hot run may read this share of the repository from the device (its metadata), or this many bytes.
HOT_READS_AT_MOST = 0.02
HOT_READ_BYTES_AT_MOST = 1 << 20
STEAL_PCT_AT_MOST = 2.0


@dataclass
class Snapshot:
    """Counters at one moment."""

    device_read_bytes: int | None
    client_io: dict[str, int]
    server_io: dict[str, int]
    server_pid: int
    server_starts: int
    server_cpu_s: float
    cpu_ticks: list[int]
    swapped_pages: int


def snapshot(storage: Path, server: Server | None, hyperfine: int) -> Snapshot:
    """Read the counters now; takes a few hundred microseconds.

    What the kernel counts for `hyperfine` (its pid) holds what the commands that it ran had read.
    """
    pid = server.pid if server else 0
    return Snapshot(
        device_read_bytes=device_read_bytes(storage),
        client_io=processes.io_bytes([hyperfine]),
        server_io=processes.io_bytes(processes.family(pid) if pid else []),
        server_pid=pid,
        server_starts=server.starts if server else 0,
        server_cpu_s=processes.cpu_s(pid) if pid else 0.0,
        cpu_ticks=[int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]],
        swapped_pages=_swapped_pages(),
    )


def device_read_bytes(path: Path) -> int | None:
    """Bytes read so far from the block device that holds `path`; None where it has none of its own."""
    device = os.stat(path).st_dev
    stat = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    try:
        return int(stat.read_text().split()[2]) * 512
    except OSError:
        return None


def certify(before: Snapshot, after: Snapshot, server: Server | None) -> dict[str, Any]:
    """What happened between two snapshots, as the certificate has it (see docs for the columns)."""
    reads = None
    if before.device_read_bytes is not None and after.device_read_bytes is not None:
        reads = after.device_read_bytes - before.device_read_bytes
    ticks = [b - a for a, b in zip(before.cpu_ticks, after.cpu_ticks, strict=True)]
    certificate: dict[str, Any] = {
        "device_read_bytes": reads,
        "client_read_bytes": after.client_io["read_bytes"] - before.client_io["read_bytes"],
        "client_rchar": after.client_io["rchar"] - before.client_io["rchar"],
        "client_wchar": after.client_io["wchar"] - before.client_io["wchar"],
        "steal_pct": round(100 * ticks[7] / (sum(ticks[:8]) or 1), 2),
        "swapped_pages": after.swapped_pages - before.swapped_pages,
        "server_cpu_s": None,
    }
    if server and after.server_pid:
        certificate |= {
            "server_cpu_s": after.server_cpu_s - before.server_cpu_s,
            "server_pid": after.server_pid,
            "server_age_s": round(time.time() - processes.started_at(after.server_pid), 3),
            "server_read_bytes": after.server_io["read_bytes"] - before.server_io["read_bytes"],
            "server_rchar": after.server_io["rchar"] - before.server_io["rchar"],
            "server_peak_memory_bytes": processes.peak_memory_bytes(after.server_pid),
        }
    return certificate


def judge(
    cache: str,
    certificate: dict[str, Any],
    before: Snapshot,
    after: Snapshot,
    repository_bytes: int,
) -> list[str]:
    """The flags that a certificate earns; vcsbench.flags has a sentence for each."""
    flags = []
    # The device's own counter holds everybody's reads: it is told, but not judged.
    reads = certificate["client_read_bytes"] + certificate.get("server_read_bytes", 0)
    resident = certificate.get("resident_before")
    if cache == "cold":
        if resident is not None and resident > COLD_RESIDENT_AT_MOST:
            flags.append("warm")
        if reads == 0:
            flags.append("no-reads")
    else:
        allowed = max(HOT_READ_BYTES_AT_MOST, HOT_READS_AT_MOST * repository_bytes)
        if reads > allowed:
            flags.append("cold-reads")
    if before.server_starts != after.server_starts or before.server_pid != after.server_pid:
        flags.append("restarted")
    if certificate["swapped_pages"]:
        flags.append("swapped")
    if certificate["steal_pct"] > STEAL_PCT_AT_MOST:
        flags.append("disturbed")
    return flags


def _swapped_pages() -> int:
    lines = Path("/proc/vmstat").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("pswpin ", "pswpout ")))

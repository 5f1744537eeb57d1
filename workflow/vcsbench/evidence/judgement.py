"""Judge a timed run: compare its evidence with the label of its cell, and return flags.

Judging reads the evidence only (vcsbench.measure.run_evidence), so other thresholds need no new runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from vcsbench.records import Evidence, RunRecord, WarmUpReads

MIB = 1 << 20
NEEDED = ("client_read_bytes", "window_s", "swapped_in_pages")
# Linux delays an acknowledgement by 40 ms, and svnserve waits for it (Nagle's algorithm). No network card of
# a real server adds that.
DELAYED_ACK_S = 0.04
WAIT_COLUMNS = (
    *("elapsed_s", "user_s", "system_s", "server_cpu_s"),
    *("busy_s", "cores", "delayed_acks"),
)

Thresholds = Mapping[str, float]
# Whether each flag is set.
Flags = dict[str, object]


def acknowledgement_s(run: Mapping[Any, Any]) -> float:
    """Return the seconds in which delayed acknowledgements held up a run, from WAIT_COLUMNS.

    A wait is idle time: a busy client acknowledges late, too, and nobody waits for that.
    """
    values = [float(run.get(name) or 0.0) for name in WAIT_COLUMNS]
    elapsed, user, system, server, busy, cores, late = (0.0 if math.isnan(v) else v for v in values)
    idle = elapsed - max(user + system + server, busy / max(cores, 1.0))
    return min(late * DELAYED_ACK_S, max(idle, 0.0))


def judge(run: RunRecord, elapsed_s: float, limits: Thresholds) -> list[str]:
    """Return the flags of a run by its evidence and promises. `elapsed_s` is hyperfine's time."""
    evidence, promises = run.get("evidence", {}), run.get("promises", {})
    if any(evidence.get(name) is None for name in NEEDED):
        return ["uncertified"]
    # The hooks before and after a run read the clock. Only the start of a shell lies between.
    window_s = evidence["window_s"]
    gap_s = max(limits["min_clock_gap_s"], limits["max_clock_gap_share"] * window_s)
    flagged: Flags = {"clock": not 0 <= window_s - elapsed_s <= gap_s}
    if promises.get("os") == "cold":
        flagged |= _cold(evidence, limits)
    elif promises.get("os") == "hot":
        flagged |= _hot(evidence, limits)
    if evidence.get("server_kind"):
        flagged |= _server(evidence, promises.get("server", ""), limits)
    flagged |= _machine(evidence, promises.get("os") == "hot", limits)
    return [word for word, is_set in flagged.items() if is_set]


def _reads(evidence: Evidence | WarmUpReads) -> int:
    return int(evidence["client_read_bytes"] + (evidence.get("server_read_bytes") or 0))


def _cold(evidence: Evidence, limits: Thresholds) -> Flags:
    read, floor = _reads(evidence), limits["ignore_below_mib"] * MIB
    size, before = evidence.get("subject_bytes") or 0, evidence.get("resident_before")
    is_known = before is not None and evidence.get("resident_after") is not None
    resident = max(before or 0.0, evidence.get("written_resident_before") or 0.0)
    runs = evidence.get("warming") or ()
    discarded = evidence.get("discarded_read_bytes") or (_reads(runs[0]) if runs else 0)
    enough = min(size or discarded, limits["min_read_share_cold"] * discarded)
    foreign = (evidence.get("resident_after_bytes") or 0) - (before or 0.0) * size - read
    return {
        "residency-unknown": not is_known,
        "cache-not-cold": is_known and resident > limits["max_resident_share_cold"],
        "no-disk-reads": not read,
        "too-few-disk-reads": discarded > floor and 0 < read < enough,
        "foreign-reads": foreign > max(floor, limits["max_foreign_share_cold"] * size),
    }


def _hot(evidence: Evidence, limits: Thresholds) -> Flags:
    share = limits["max_read_share_hot"] * (evidence.get("subject_bytes") or 0)
    most = max(limits["ignore_below_mib"] * MIB, share)
    is_network = evidence.get("network_filesystem")
    return {
        "cache-not-warm": _disk_reads(evidence, limits) > most,
        "server-disk-unknown": is_network and evidence.get("network_storage_read_bytes") is None,
    }


def _disk_reads(evidence: Evidence, limits: Thresholds) -> int:
    """Return the bytes that a hot run read from disks, of this machine and of its NFS server.

    A client reads its files again from a network file system whenever it takes a lock. The kernel
    counts that like reads of a device, although the server has them in memory.
    """
    hot = 1 - limits["max_read_share_hot"]
    if not evidence.get("network_filesystem") or (
        evidence["network_input"] and (evidence.get("resident_after") or 0.0) < hot
    ):
        return _reads(evidence)
    client, network = evidence["client_read_bytes"], evidence.get("network_read_bytes")
    if network is None:
        local = min(client, evidence.get("device_read_bytes") or 0)
    else:
        local = max(0, client - network)
    served = evidence.get("server_read_bytes") or 0
    return int(local + served + (evidence.get("network_storage_read_bytes") or 0))


def _server(evidence: Evidence, promise: str, limits: Thresholds) -> Flags:
    """Return the first fault of a server: it explains the others."""
    served, is_kept = evidence.get("server_runs_before") or 0, promise == "kept"
    first, again = evidence.get("server_first_rchar") or 0, evidence.get("server_rchar") or 0
    is_read_again = again > limits["max_read_share_hot_svn"] * first
    has_cached = is_kept and first > limits["ignore_below_mib"] * MIB
    faults = {
        "restarted": not evidence.get("server_same"),
        "server-reused": promise == "new" and served,
        "server-not-warm": is_kept and not served,
        "server-reforked": is_kept and evidence.get("server_processes_changed"),
        "cache-ineffective": has_cached and is_read_again,
    }
    first_fault = next((fault for fault, is_set in faults.items() if is_set), "")
    return {first_fault: True} if first_fault else {}


def _machine(evidence: Evidence, is_hot: bool, limits: Thresholds) -> Flags:
    numbers = cast("Mapping[str, float | None]", evidence)
    device, read = evidence.get("device_read_bytes"), _reads(evidence)
    available = evidence.get("memory_available_bytes")
    is_idle = not read and not evidence.get("client_write_bytes")
    others_read = device is not None and device - read > limits["max_others_read_mib"] * MIB
    least = limits["min_memory_available_mib"] * MIB

    def exceeds(name: str) -> bool:
        return (numbers.get(name) or 0.0) > limits[f"max_{name}"]

    def is_taken(processor_time: str) -> bool:
        # In a short run a few ticks of the clock would be many percent.
        seconds = numbers.get(f"{processor_time}_s") or 0.0
        return seconds > limits["ignore_below_cpu_s"] and exceeds(f"{processor_time}_pct")

    return {
        "other-server": evidence.get("other_servers"),
        "swapped": evidence["swapped_in_pages"] or evidence.get("swapped_out_pages"),
        "low-memory": available is not None and available < least,
        "memory-pressure": exceeds("memory_pressure_pct"),
        "io-busy": others_read or (is_hot and is_idle and exceeds("io_pressure_pct")),
        "cpu-busy": is_taken("others_cpu"),
        "cpu-steal": is_taken("steal"),
        "throttled": evidence.get("throttled") or evidence.get("quota_throttled_us"),
    }

"""Judges the evidence of a timed run: which flags it earns.

Evidence is what the certificates hold (vcsbench.measure.certificate). Judging it reads nothing else, so
another threshold judges all runs anew and measures none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from vcsbench.config.thresholds import THRESHOLDS
from vcsbench.evidence.hyperfine_export import Run

MIB = 1 << 20
# All that judge() can say: what a context says of these is said anew.
JUDGED = (
    *(
        "uncertified",
        "clock",
        "residency-unknown",
        "cache-not-cold",
        "no-disk-reads",
        "too-few-disk-reads",
    ),
    *(
        "foreign-reads",
        "cache-not-warm",
        "server-disk-unknown",
        "restarted",
        "server-reused",
        "server-not-warm",
        "server-reforked",
    ),
    *("cache-ineffective", "other-server", "swapped", "low-memory", "memory-pressure"),
    *("io-busy", "cpu-busy", "cpu-steal", "throttled"),
)
# What every certificate has: without it there is nothing to judge.
NEEDED = ("client_read_bytes", "window_s", "swapped_in_pages")

Evidence = Mapping[str, Any]
Thresholds = Mapping[str, float]
Flags = Iterable[str]


def pack(thresholds: Thresholds) -> str:
    """Thresholds as text without spaces, for a command line."""
    return json.dumps(dict(thresholds), sort_keys=True, separators=(",", ":"))


def unpack(text: str) -> dict[str, float]:
    """What pack() packed, defaults filled in."""
    return {**THRESHOLDS, **json.loads(text)}


def promised(promises: Mapping[str, Any], run: int) -> dict[str, str]:
    """What a state (axes.cache) promises of one of its timed runs, by number from 1."""
    then = promises.get("then")
    of_run = then if then and run > 1 else promises
    return {what: promise for what, promise in of_run.items() if what != "then"}


def with_times(certificate: Evidence, run: Run) -> dict[str, Any]:
    """The certificate with the time that neither client nor server computed:
    `waiting_s` = elapsed - client CPU - server CPU. Negative where the two computed at the same time for
    longer than they waited."""
    if run.user_s is None or run.system_s is None:
        return {**certificate, "waiting_s": None}
    busy_s = run.user_s + run.system_s + (certificate.get("server_cpu_s") or 0.0)
    return {**certificate, "waiting_s": round(run.elapsed_s - busy_s, 6)}


def judge(
    evidence: Evidence, elapsed_s: float, promises: Mapping[str, str], thresholds: Thresholds
) -> list[str]:
    """The flags that a run earns by its evidence, in the order of vcsbench.flags.

    `elapsed_s` is what hyperfine tells of it, `promises` what its cache state does (promised).
    """
    if any(evidence.get(name) is None for name in NEEDED):
        return ["uncertified"]
    limits = {**THRESHOLDS, **thresholds}
    found = list(_clock(evidence, elapsed_s, limits))
    if promises.get("os") == "cold":
        found += _cold(evidence, limits)
    if promises.get("os") == "hot":
        found += _hot(evidence, limits)
    if evidence.get("server_kind"):
        found += _server(evidence, promises.get("server", ""), limits)
    return found + list(_machine(evidence, promises, limits))


def _clock(evidence: Evidence, elapsed_s: float, limits: Thresholds) -> Flags:
    """The hooks before and after a run look at the clock: the run took no longer than that, and, but for the
    start of a shell, no less."""
    missing = evidence["window_s"] - elapsed_s
    most = max(limits["min_clock_gap_s"], limits["max_clock_gap_share"] * evidence["window_s"])
    if missing < 0 or missing > most:
        yield "clock"


def _size(evidence: Evidence) -> int:
    # Certificates of earlier versions know repositories only.
    return evidence.get("subject_bytes", evidence.get("repository_bytes")) or 0


def reads(evidence: Evidence) -> int:
    """Bytes that client and server read from devices."""
    return int(evidence["client_read_bytes"] + (evidence.get("server_read_bytes") or 0))


def _cold(evidence: Evidence, limits: Thresholds) -> Flags:
    read, floor = reads(evidence), limits["ignore_below_mib"] * MIB
    size = _size(evidence)
    before = evidence.get("resident_before")
    if before is None or evidence.get("resident_after") is None:
        yield "residency-unknown"
    elif (
        max(before, evidence.get("written_resident_before") or 0)
        > limits["max_resident_share_cold"]
    ):
        yield "cache-not-cold"
    if not read:
        yield "no-disk-reads"
    discarded = _discarded(evidence)
    if discarded > floor and 0 < read < limits["min_read_share_cold"] * discarded:
        yield "too-few-disk-reads"
    # Whatever of the repository is in memory afterwards, and was read by neither client nor server.
    after = evidence.get("resident_after_bytes") or 0
    foreign = after - (before or 0.0) * size - read
    if foreign > max(floor, limits["max_foreign_share_cold"] * size):
        yield "foreign-reads"


def _discarded(evidence: Evidence) -> int:
    """What the discarded cold run over the copy read. Earlier versions discarded one in each cell-round."""
    runs = evidence.get("warming") or ()
    return evidence.get("discarded_read_bytes") or (reads(runs[0]) if runs else 0)


def _hot(evidence: Evidence, limits: Thresholds) -> Flags:
    most = max(limits["ignore_below_mib"] * MIB, limits["max_read_share_hot"] * _size(evidence))
    if _disk_reads(evidence, limits) > most:
        yield "cache-not-warm"
    is_network = evidence.get("network_filesystem")
    if is_network and evidence.get("network_storage_read_bytes") is None:
        yield "server-disk-unknown"


def _disk_reads(evidence: Evidence, limits: Thresholds) -> int:
    """Return the bytes that a hot run read from disks, this machine's and that of its NFS server.

    The kernel counts what a client reads from a network file system like reads of a device. A client reads
    its own files again there whenever it takes a lock, and the server has them in memory.
    """
    if not evidence.get("network_filesystem"):
        return reads(evidence)
    hot = 1 - limits["max_read_share_hot"]
    if evidence["network_input"] and (evidence.get("resident_after") or 0.0) < hot:
        return reads(evidence)
    client = evidence["client_read_bytes"]
    network = evidence.get("network_read_bytes")
    if network is None:
        local = min(client, evidence.get("device_read_bytes") or 0)
    else:
        local = max(0, client - network)
    served = evidence.get("server_read_bytes") or 0
    return int(local + served + (evidence.get("network_storage_read_bytes") or 0))


def _server(evidence: Evidence, promise: str, limits: Thresholds) -> Flags:
    if not evidence.get("server_same"):
        yield "restarted"
        return
    served = evidence.get("server_runs_before") or 0
    if promise == "new" and served:
        yield "server-reused"
    if promise == "kept":
        if not served:
            yield "server-not-warm"
        elif evidence.get("server_processes_changed"):
            yield "server-reforked"
        elif _reads_all_again(evidence, limits):
            yield "cache-ineffective"


def _reads_all_again(evidence: Evidence, limits: Thresholds) -> bool:
    first = evidence.get("server_first_rchar") or 0
    again = evidence.get("server_rchar") or 0
    return (
        first > limits["ignore_below_mib"] * MIB
        and again > limits["max_read_share_hot_svn"] * first
    )


def _machine(evidence: Evidence, promises: Mapping[str, str], limits: Thresholds) -> Flags:
    if evidence.get("other_servers"):
        yield "other-server"
    if evidence["swapped_in_pages"] or evidence.get("swapped_out_pages"):
        yield "swapped"
    available = evidence.get("memory_available_bytes")
    if available is not None and available < limits["min_memory_available_mib"] * MIB:
        yield "low-memory"
    if (evidence.get("memory_pressure_pct") or 0) > limits["max_memory_pressure_pct"]:
        yield "memory-pressure"
    if _io_by_others(evidence, promises, limits):
        yield "io-busy"
    for what, word in (("others_cpu", "cpu-busy"), ("steal", "cpu-steal")):
        # In a short run a few ticks of the clock would be many percent.
        seconds, share = evidence.get(f"{what}_s") or 0.0, evidence.get(f"{what}_pct") or 0.0
        if seconds > limits["ignore_below_cpu_s"] and share > limits[f"max_{what}_pct"]:
            yield word
    if evidence.get("throttled") or evidence.get("quota_throttled_us"):
        yield "throttled"


def _io_by_others(evidence: Evidence, promises: Mapping[str, str], limits: Thresholds) -> bool:
    device = evidence.get("device_read_bytes")
    if device is not None and device - reads(evidence) > limits["max_others_read_mib"] * MIB:
        return True
    # Waiting is put down to others only where the run itself neither reads nor writes.
    still = not reads(evidence) and not (evidence.get("client_write_bytes") or 0)
    pressure = evidence.get("io_pressure_pct") or 0
    return promises.get("os") == "hot" and still and pressure > limits["max_io_pressure_pct"]

"""Judges the evidence of a timed run: which flags it earns.

Evidence is what the certificates hold (vcsbench.measure.certificate). Judging it reads nothing else, so
another threshold judges all runs anew and measures none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from vcsbench.evidence.hyperfine_export import Run

# Documented in the schema of the configuration, key `thresholds`.
THRESHOLDS: dict[str, float] = {
    "cold_resident_share": 0.05,
    "cold_reads_share": 0.5,
    "cold_foreign_share": 0.1,
    "hot_read_share": 0.02,
    "hot_svn_reads_share": 0.9,
    "read_floor_mib": 1,
    "memory_available_mib": 512,
    "memory_pressure_pct": 1,
    "io_pressure_pct": 10,
    "others_read_mib": 4,
    "others_cpu_pct": 10,
    "steal_pct": 2,
    "cpu_floor_s": 0.05,
    "saturated_share": 0.9,
    "short_s": 0.2,
}
MIB = 1 << 20
# All that judge() can say: what a context says of these is said anew.
JUDGED = (
    *("uncertified", "residency-unknown", "warm", "no-reads", "fewer-reads", "read-by-others"),
    *("cold-reads", "restarted", "served-before", "not-warmed", "forked", "caches-no-help"),
    *("other-server", "swapped", "low-memory", "memory-pressure", "io-busy", "cpu-busy"),
    *("disturbed", "throttled"),
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


def with_times(certificate: Evidence, run: Run) -> dict[str, Any]:
    """The certificate with the time that neither client nor server computed: `waiting_s` = elapsed - client
    CPU - server CPU. Negative where the two computed at the same time for longer than they waited."""
    if run.user_s is None or run.system_s is None:
        return {**certificate, "waiting_s": None}
    busy_s = run.user_s + run.system_s + (certificate.get("server_cpu_s") or 0.0)
    return {**certificate, "waiting_s": round(run.elapsed_s - busy_s, 6)}


def judge(evidence: Evidence, axes: Mapping[str, str], thresholds: Thresholds) -> list[str]:
    """The flags that a run earns by its evidence, in the order of vcsbench.evidence.flags.

    `axes` has the run's cell; its value of `cache`, if any, is the label that is checked.
    """
    if any(evidence.get(name) is None for name in NEEDED):
        return ["uncertified"]
    limits = {**THRESHOLDS, **thresholds}
    cache = axes.get("cache", "")
    found = list(_cold(evidence, limits)) if cache == "cold" else []
    if cache.startswith("hot"):
        found += _hot(evidence, limits)
    if evidence.get("server_kind"):
        found += _server(evidence, cache, limits)
    return found + list(_machine(evidence, cache, limits))


def reads(evidence: Evidence) -> int:
    """Bytes that client and server read from devices."""
    return int(evidence["client_read_bytes"] + (evidence.get("server_read_bytes") or 0))


def _cold(evidence: Evidence, limits: Thresholds) -> Flags:
    read, floor = reads(evidence), limits["read_floor_mib"] * MIB
    size = evidence.get("repository_bytes") or 0
    before = evidence.get("resident_before")
    if before is None or evidence.get("resident_after") is None:
        yield "residency-unknown"
    elif before > limits["cold_resident_share"]:
        yield "warm"
    if not read:
        yield "no-reads"
    discarded = [reads(run) for run in evidence.get("warming") or ()]
    if discarded and discarded[0] > floor and 0 < read < limits["cold_reads_share"] * discarded[0]:
        yield "fewer-reads"
    # Whatever of the repository is in memory afterwards, and was read by neither client nor server.
    after = evidence.get("resident_after_bytes") or 0
    foreign = after - (before or 0.0) * size - read
    if foreign > max(floor, limits["cold_foreign_share"] * size):
        yield "read-by-others"


def _hot(evidence: Evidence, limits: Thresholds) -> Flags:
    size = evidence.get("repository_bytes") or 0
    if reads(evidence) > max(limits["read_floor_mib"] * MIB, limits["hot_read_share"] * size):
        yield "cold-reads"


def _server(evidence: Evidence, cache: str, limits: Thresholds) -> Flags:
    if not evidence.get("server_same"):
        yield "restarted"
        return
    served = evidence.get("server_runs_before") or 0
    if cache in ("cold", "hot-os") and served:
        yield "served-before"
    if cache in ("hot-svn", "hot"):
        if not served:
            yield "not-warmed"
        elif evidence.get("server_processes_changed"):
            yield "forked"
        elif _reads_all_again(evidence, limits):
            yield "caches-no-help"


def _reads_all_again(evidence: Evidence, limits: Thresholds) -> bool:
    first = evidence.get("server_first_rchar") or 0
    again = evidence.get("server_rchar") or 0
    return first > limits["read_floor_mib"] * MIB and again > limits["hot_svn_reads_share"] * first


def _machine(evidence: Evidence, cache: str, limits: Thresholds) -> Flags:
    if evidence.get("other_servers"):
        yield "other-server"
    if evidence["swapped_in_pages"] or evidence.get("swapped_out_pages"):
        yield "swapped"
    available = evidence.get("memory_available_bytes")
    if available is not None and available < limits["memory_available_mib"] * MIB:
        yield "low-memory"
    if (evidence.get("memory_pressure_pct") or 0) > limits["memory_pressure_pct"]:
        yield "memory-pressure"
    if _io_by_others(evidence, cache, limits):
        yield "io-busy"
    for what, word in (("others_cpu", "cpu-busy"), ("steal", "disturbed")):
        # In a short run a few ticks of the clock would be many percent.
        seconds, share = evidence.get(f"{what}_s") or 0.0, evidence.get(f"{what}_pct") or 0.0
        if seconds > limits["cpu_floor_s"] and share > limits[f"{what}_pct"]:
            yield word
    if evidence.get("throttled") or evidence.get("quota_throttled_us"):
        yield "throttled"


def _io_by_others(evidence: Evidence, cache: str, limits: Thresholds) -> bool:
    device = evidence.get("device_read_bytes")
    if device is not None and device - reads(evidence) > limits["others_read_mib"] * MIB:
        return True
    # Waiting is put down to others only where the run itself neither reads nor writes.
    still = not reads(evidence) and not (evidence.get("client_write_bytes") or 0)
    pressure = evidence.get("io_pressure_pct") or 0
    return cache.startswith("hot") and still and pressure > limits["io_pressure_pct"]

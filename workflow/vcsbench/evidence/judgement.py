"""Judge a timed run: compare its evidence with the label of its cell, and return flags.

Judging reads the evidence only (vcsbench.measure.run_evidence), so other thresholds need no new runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from vcsbench.evidence.flags import Flag

if TYPE_CHECKING:
    from vcsbench.records import Evidence, RunRecord, WarmUpReads

KIB, MIB = 1 << 10, 1 << 20
# What a client may read of the file system below its output: bitmaps, tables and folders.
OUTPUT_READ_KIB = 1024
# In shorter runs, the hooks themselves take a noticeable share.
SHORT_WINDOW_S = 0.1
BUSY_CLOCK_GAP_SHARE = 0.25
# Of an input on a network file system: its reads are those of a hot run only if it is in memory.
HOT_RESIDENT_SHARE = 0.98
# Linux delays an acknowledgement by 40 ms, and svnserve waits for it (Nagle's algorithm). No network card of
# a real server adds that.
DELAYED_ACK_S = 0.04
WAIT_COLUMNS = (
    *("elapsed_s", "user_s", "system_s", "server_cpu_s"),
    *("busy_s", "cores", "delayed_acks"),
)

Thresholds = Mapping[str, float]
# Whether each flag is set.
Flags = dict[Flag, object]


def acknowledgement_s(run: Mapping[Any, Any]) -> float:
    """Return the seconds in which delayed acknowledgements held up a run, from WAIT_COLUMNS.

    A wait is idle time: a busy client acknowledges late, too, and nobody waits for that.
    """
    values = [float(run.get(name) or 0.0) for name in WAIT_COLUMNS]
    elapsed, user, system, server, busy, cores, late = (0.0 if math.isnan(v) else v for v in values)
    idle = elapsed - max(user + system + server, busy / max(cores, 1.0))
    return min(late * DELAYED_ACK_S, max(idle, 0.0))


def judge(run: RunRecord, elapsed_s: float, limits: Thresholds) -> list[Flag]:
    """Return the flags of a run by its evidence and promises. `elapsed_s` is hyperfine's time."""
    evidence, promises = run.get("evidence", {}), run.get("promises", {})
    if evidence.get("window_s") is None:
        return [Flag.UNCERTIFIED]
    flagged: Flags = {
        Flag.CLOCK: _is_other_time(evidence, elapsed_s, limits),
        Flag.IO_UNKNOWN: None in (_reads(evidence), *_written(evidence)),
    }
    if promises.get("os") == "cold":
        flagged |= _cold(evidence, limits)
    elif promises.get("os") == "hot":
        flagged |= _hot(evidence, limits)
    if evidence.get("server_kind"):
        flagged |= _server(evidence, promises.get("server", ""), limits)
    flagged |= _machine(evidence, promises.get("os") == "hot", limits)
    return [flag for flag, is_set in flagged.items() if is_set]


def _is_other_time(evidence: Evidence, elapsed_s: float, limits: Thresholds) -> bool:
    """Return True if hyperfine's time does not fit the time between the hooks before and after the run.

    Between them lie the end of one shell and the start of another.
    """
    window_s = evidence["window_s"]
    allowed_share = limits["max_clock_gap_share"]
    # On a busy machine these shells wait for a processor.
    waited_share = (evidence.get("cpu_pressure_pct") or 0.0) / 100
    if waited_share:
        allowed_share = max(allowed_share, min(allowed_share + waited_share, BUSY_CLOCK_GAP_SHARE))
    allowed_s = allowed_share * window_s
    if window_s < SHORT_WINDOW_S:
        allowed_s = max(allowed_s, limits["min_clock_gap_s"])
    return not 0 <= window_s - elapsed_s <= allowed_s


def _reads(evidence: Evidence | WarmUpReads) -> int | None:
    """Return the bytes that client and server read from devices; None if one of them is unknown."""
    client, server = evidence.get("client_read_bytes"), evidence.get("server_read_bytes", 0)
    return None if client is None or server is None else client + server


def _written(evidence: Evidence) -> tuple[int | None, int | None]:
    return evidence.get("client_wchar", 0), evidence.get("server_wchar", 0)


def _cold(evidence: Evidence, limits: Thresholds) -> Flags:
    read, floor = _reads(evidence), limits["ignore_below_mib"] * MIB
    size, before = evidence.get("subject_bytes") or 0, evidence.get("resident_before")
    is_known = before is not None and evidence.get("resident_after") is not None
    if read:
        is_known = is_known and not _left_nothing(evidence)
    resident = max(before or 0.0, evidence.get("written_resident_before") or 0.0)
    flagged: Flags = {
        Flag.RESIDENCY_UNKNOWN: not is_known,
        Flag.CACHE_NOT_COLD: is_known and resident > limits["max_resident_share_cold"],
    }
    if read is None:
        return flagged
    runs = evidence.get("warming") or ()
    discarded = evidence.get("discarded_read_bytes") or (_reads(runs[0]) if runs else 0) or 0
    enough = min(size or discarded, limits["min_read_share_cold"] * discarded)
    expected = min(size or discarded, limits["expected_read_share_cold"] * discarded)
    foreign = (evidence.get("resident_after_bytes") or 0) - (before or 0.0) * size - read
    has_measure = discarded > floor
    return flagged | {
        Flag.NO_DISK_READS: not read,
        Flag.TOO_FEW_DISK_READS: has_measure and 0 < read < enough,
        Flag.FEWER_DISK_READS: has_measure and enough <= read < expected,
        Flag.FOREIGN_READS: foreign > max(floor, limits["max_foreign_share_cold"] * size),
    }


def _left_nothing(evidence: Evidence) -> bool:
    """Return True if no page of the input is in memory after a run that read it: the kernel cannot be right.

    Files of a layered file system may have no pages of their own.
    """
    return bool(evidence.get("subject_bytes")) and evidence.get("resident_after_bytes") == 0


def _hot(evidence: Evidence, limits: Thresholds) -> Flags:
    read, is_network = _disk_reads(evidence), evidence.get("network_filesystem")
    client_read = evidence.get("client_read_bytes")
    # A client that writes files to a disk reads tables of its file system there, however warm its input is.
    # The kernel counts these reads like those of the input.
    if read is not None and client_read and evidence.get("client_write_bytes"):
        read -= min(client_read, OUTPUT_READ_KIB * KIB)
    return {
        Flag.RESIDENCY_UNKNOWN: _left_nothing(evidence),
        Flag.CACHE_NOT_WARM: read is not None and read > limits["max_read_kib_hot"] * KIB,
        Flag.SERVER_DISK_UNKNOWN: is_network and evidence.get("network_storage_read_bytes") is None,
    }


def _disk_reads(evidence: Evidence) -> int | None:
    """Return the bytes that a hot run read from disks, of this machine and of its NFS server.

    Return None if the counts of client or server are unknown.
    A client reads its files again from a network file system whenever it takes a lock. The kernel
    counts that like reads of a device, although the server has them in memory.
    """
    client, served = evidence.get("client_read_bytes"), evidence.get("server_read_bytes", 0)
    if client is None or served is None:
        return None
    resident = evidence.get("resident_after") or 0.0
    if not evidence.get("network_filesystem") or (
        evidence["network_input"] and resident < HOT_RESIDENT_SHARE
    ):
        return client + served
    network = evidence.get("network_read_bytes")
    if network is None:
        local = min(client, evidence.get("device_read_bytes") or 0)
    else:
        local = max(0, client - network)
    return int(local + served + (evidence.get("network_storage_read_bytes") or 0))


def _server(evidence: Evidence, promise: str, limits: Thresholds) -> Flags:
    """Return the first fault of a server: it explains the others."""
    served, is_kept = evidence.get("server_runs_before") or 0, promise == "kept"
    first, again = evidence.get("server_first_rchar"), evidence.get("server_rchar")
    is_cache_useless = False
    # If nothing was read, or if a count is unknown, the cache cannot be judged.
    if is_kept and first is not None and again is not None:
        is_large = first > limits["ignore_below_mib"] * MIB
        is_cache_useless = is_large and again > limits["max_read_share_hot_svn"] * first
    faults: Flags = {
        Flag.RESTARTED: not evidence.get("server_same"),
        Flag.SERVER_REUSED: promise == "new" and served,
        Flag.SERVER_NOT_WARM: is_kept and not served,
        Flag.SERVER_REFORKED: is_kept and evidence.get("server_processes_changed"),
        Flag.CACHE_INEFFECTIVE: is_cache_useless,
    }
    for fault, is_set in faults.items():
        if is_set:
            return {fault: True}
    return {}


def _machine(evidence: Evidence, is_hot: bool, limits: Thresholds) -> Flags:
    numbers = cast("Mapping[str, float | None]", evidence)
    device, read = evidence.get("device_read_bytes"), _reads(evidence)
    available = evidence.get("memory_available_bytes")
    is_idle = read == 0 and evidence.get("client_write_bytes") == 0
    others_read = False
    if device is not None and read is not None:
        others_read = device - read > limits["max_others_read_mib"] * MIB
    least = limits["min_memory_available_mib"] * MIB

    def exceeds(name: str) -> bool:
        return (numbers.get(name) or 0.0) > limits[f"max_{name}"]

    def is_taken(processor_time: str) -> bool:
        # In a short run a few ticks of the clock would be many percent.
        seconds = numbers.get(f"{processor_time}_s") or 0.0
        return seconds > limits["ignore_below_cpu_s"] and exceeds(f"{processor_time}_pct")

    return {
        Flag.OTHER_SERVER: evidence.get("other_servers"),
        Flag.SWAPPED: evidence.get("swapped_in_pages") or evidence.get("swapped_out_pages"),
        Flag.LOW_MEMORY: available is not None and available < least,
        Flag.MEMORY_PRESSURE: exceeds("memory_pressure_pct"),
        Flag.IO_BUSY: others_read or (is_hot and is_idle and exceeds("io_pressure_pct")),
        Flag.CPU_BUSY: is_taken("others_cpu"),
        Flag.CPU_STEAL: is_taken("steal"),
        Flag.THROTTLED: evidence.get("throttled") or evidence.get("quota_throttled_us"),
    }

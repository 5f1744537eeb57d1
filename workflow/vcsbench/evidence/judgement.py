"""Judge a timed run: compare its evidence with the label of its cell, and return flags.

Judging reads the evidence only (vcsbench.measure.run_evidence), so other thresholds need no new runs.

In the evidence, a count is None if the kernel did not report it. It is missing if there was no such process:
a local command has no counts of a server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from vcsbench.deployment.link_check import LinkMeasurement
from vcsbench.evidence.flags import Flag

if TYPE_CHECKING:
    from vcsbench.records import Evidence, RunRecord, WarmUpReads

KIB, MIB = 1 << 10, 1 << 20
# The most that a client may read of the file system below its output: bitmaps, tables and folders.
OUTPUT_READ_KIB = 1024
# In shorter runs, the hooks themselves take a noticeable share.
SHORT_WINDOW_S = 0.1
# The end of one shell and the start of the next take 2 to 8 ms, however long the run is.
SHELLS_S = 0.008
BUSY_CLOCK_GAP_SHARE = 0.25
# The share of an input on a network file system that has to be in memory in a hot run.
HOT_RESIDENT_SHARE = 0.98
# Linux delays an acknowledgement by 40 ms, and svnserve waits for it (Nagle's algorithm). No network card of
# a real server adds that.
DELAYED_ACK_S = 0.04
WAIT_COLUMNS = (
    "elapsed_s", "user_s", "system_s", "server_cpu_s", "busy_s", "cores", "delayed_acks",
)  # fmt: skip

Thresholds = Mapping[str, float]


def acknowledgement_s(run: Mapping[Any, Any]) -> float:
    """Return the seconds for which delayed acknowledgements of TCP held up a run, by its WAIT_COLUMNS.

    A receiver may acknowledge a packet 0.04 s late, and the sender waits for that. Together, the delays
    cannot be longer than the idle time of the run: 3 delays in a run with 0.1 s of idle time took 0.1 s, not
    0.12 s. Unknown columns (missing, None or NaN) count as 0.
    """

    def number(column: str) -> float:
        value = float(run.get(column) or 0.0)
        return 0.0 if math.isnan(value) else value

    delays_s = number("delayed_acks") * DELAYED_ACK_S
    # While client or server computes, the run goes on, also if an acknowledgement is late.
    own_cpu_s = number("user_s") + number("system_s") + number("server_cpu_s")
    # While other programs keep the processors busy, the run waits for a processor. `busy_s` is the sum of all
    # processors, and includes the time of client and server.
    busy_s_per_core = number("busy_s") / max(number("cores"), 1.0)
    # So the run was not idle for at least the longer of these two times.
    not_idle_s = max(own_cpu_s, busy_s_per_core)
    idle_s = max(number("elapsed_s") - not_idle_s, 0.0)
    return min(delays_s, idle_s)


def judge(run: RunRecord, elapsed_s: float, limits: Thresholds) -> list[Flag]:
    """Return the flags of a run: how its evidence contradicts its cell's promises, and what disturbed it.

    `elapsed_s` is the time that hyperfine reports. `limits` are the thresholds of the configuration. The
    promises are, for example, {"os": "cold", "server": "new"}: empty caches of the system, and a server that
    has served no run. If this run began with its repository in memory, its flag is CACHE_NOT_COLD.

    Only the evidence is judged here. The module same_work checks the output and the work of runs.
    """
    evidence, promises = run["evidence"], run["promises"]
    # The hook after the run stores `window_s`, the time since the hook before the run, and reads all counters
    # again. Without `window_s`, this hook has failed, and the evidence has no counts that could be judged.
    if evidence.get("window_s") is None:
        return [Flag.UNCERTIFIED]
    flags: list[Flag] = []
    if _has_clock_mismatch(evidence, elapsed_s, limits):
        flags.append(Flag.CLOCK)
    # A count is None if the kernel did not report it. Without a server, the count of the server is missing,
    # and 0 stands for it. The run stays valid, but checks of its reads or of its output are left out.
    written_bytes = (evidence.get("client_wchar", 0), evidence.get("server_wchar", 0))
    if None in written_bytes or _sum_reads(evidence) is None:
        flags.append(Flag.IO_UNKNOWN)
    is_hot = promises.get("os") == "hot"
    if promises.get("os") == "cold":
        flags += _judge_cold_run(evidence, limits)
    elif is_hot:
        flags += _judge_hot_run(evidence, limits)
    # A local command has no server, and a state without a promise about the server has "".
    if evidence.get("server_kind"):
        fault = _find_server_fault(evidence, promises.get("server", ""), limits)
        if fault:
            flags.append(fault)
    # The simulated line between client and server, if the cell has one, was measured before the run.
    if "line_round_trip_ms" in evidence:
        line = LinkMeasurement(
            evidence["line_round_trip_ms"],
            evidence["line_to_server_mbit"],
            evidence["line_to_client_mbit"],
        )
        if not line.is_as_set(evidence["line_delay_ms"], evidence["line_rate_mbit"]):
            flags.append(Flag.NETWORK_NOT_AS_SET)
    flags += _judge_machine(evidence, is_hot, limits)
    return flags


def _has_clock_mismatch(evidence: Evidence, elapsed_s: float, limits: Thresholds) -> bool:
    """Return True if hyperfine's time of a run does not fit the time between the hooks before and after it.

    The time between the hooks is slightly longer: the shell of the first hook ends in it, and the shell of
    the second one starts. If `max_clock_gap_share` is 0.05, the gap may be 5 % of that time plus SHELLS_S. So
    2.03 s between the hooks fit 2.00 s by hyperfine. A busy machine and a short run may have a larger gap.
    """
    window_s = evidence["window_s"]
    gap_s = window_s - elapsed_s
    allowed_share = limits["max_clock_gap_share"]
    # On a busy machine, the two shells wait for a processor, or for the hypervisor. So the share of time in
    # which processes waited is added, up to BUSY_CLOCK_GAP_SHARE. A larger threshold stays as it is.
    if allowed_share < BUSY_CLOCK_GAP_SHARE:
        waited_pct = (evidence.get("cpu_pressure_pct") or 0.0) + (evidence.get("steal_pct") or 0.0)
        allowed_share = min(allowed_share + waited_pct / 100, BUSY_CLOCK_GAP_SHARE)
    allowed_gap_s = allowed_share * window_s + SHELLS_S
    # The two shells can take a large share of a run below 0.1 s, so a fixed gap is allowed there, too.
    if window_s < SHORT_WINDOW_S:
        allowed_gap_s = max(allowed_gap_s, limits["min_clock_gap_s"])
    # A run lies between its hooks, so hyperfine's time must not be longer (a negative gap).
    fits = 0 <= gap_s <= allowed_gap_s
    return not fits


def _sum_reads(evidence: Evidence | WarmUpReads) -> int | None:
    """Return the bytes that client and server read from devices; None if one of them is unknown."""
    client_bytes = evidence.get("client_read_bytes")
    server_bytes = evidence.get("server_read_bytes", 0)
    if client_bytes is None or server_bytes is None:
        return None
    return client_bytes + server_bytes


def _judge_cold_run(evidence: Evidence, limits: Thresholds) -> list[Flag]:
    """Return the flags of a run that should have begun with empty caches.

    - `residency-unknown`: the kernel did not report which share of the input was in memory.
    - `cache-not-cold`: before the run, too much of the input or of an existing output was in memory.
    - The flags of _judge_cold_reads(): the bytes that were read from devices are not those of a cold run.

    The input of a command is the repository or tree that it reads.
    """
    flags: list[Flag] = []
    read_bytes = _sum_reads(evidence)
    # The shares of the input that were in memory before and after the run: 0.25 for a quarter.
    before, after = evidence.get("resident_before"), evidence.get("resident_after")
    # A run that has read its input leaves pages of it in memory. If the kernel reports none of them after the
    # run, it cannot report pages of these files at all. So its 0 before the run proves nothing.
    is_report_wrong = bool(read_bytes) and _reports_no_page_of_input(evidence)
    if before is None or after is None or is_report_wrong:
        flags.append(Flag.RESIDENCY_UNKNOWN)
    else:
        # An update changes a working copy, its output, and also reads it. Most outputs do not exist before
        # the run, so their share is None.
        output_share = evidence.get("written_resident_before") or 0.0
        resident_share = max(before, output_share)
        if resident_share > limits["max_resident_share_cold"]:
            flags.append(Flag.CACHE_NOT_COLD)
    # If the reads are unknown, judge() has already added IO_UNKNOWN.
    if read_bytes is not None:
        flags += _judge_cold_reads(evidence, read_bytes, limits)
    return flags


def _judge_cold_reads(evidence: Evidence, read_bytes: int, limits: Thresholds) -> list[Flag]:
    """Return the flags of a cold run by the bytes that its client and server read from devices.

    The first cold run of a command is not timed but discarded, and later ones should read about as much. Say
    the discarded run read 100 MiB of an input of 200 MiB. Then 0 bytes give `no-disk-reads`, 30 MiB
    `too-few-disk-reads` (below `min_read_share_cold`, 0.5), and 80 MiB `fewer-disk-reads` (below
    `expected_read_share_cold`, 0.9). `foreign-reads` means that another program read the input.
    """
    flags: list[Flag] = []
    if read_bytes == 0:
        flags.append(Flag.NO_DISK_READS)

    # All cold runs of a command on a copy of a repository share one discarded run. If its reads could not be
    # counted, those of the first untimed run of this round (`warming`) take their place.
    discarded_bytes = evidence.get("discarded_read_bytes") or 0
    warm_ups = evidence.get("warming", [])
    if not discarded_bytes and warm_ups:
        discarded_bytes = _sum_reads(warm_ups[0]) or 0
    # A run also reads tables of the file system, or modules of Python. If the discarded run read no more than
    # `ignore_below_mib`, most of its reads may be of these files, and a comparison with them means nothing.
    if discarded_bytes > limits["ignore_below_mib"] * MIB:
        # The discarded run also read the programs from the device, and a timed run finds them in memory. So
        # no run has to read more than its input. With an input of 1 MiB, 1 MiB is enough, even if the
        # discarded run read 4 MiB. An input of unknown size (0) sets no limit.
        ceiling_bytes = evidence.get("subject_bytes") or discarded_bytes
        enough_bytes = min(ceiling_bytes, limits["min_read_share_cold"] * discarded_bytes)
        expected_bytes = min(ceiling_bytes, limits["expected_read_share_cold"] * discarded_bytes)
        if 0 < read_bytes < enough_bytes:
            flags.append(Flag.TOO_FEW_DISK_READS)
        elif enough_bytes <= read_bytes < expected_bytes:
            flags.append(Flag.FEWER_DISK_READS)

    if _has_foreign_reads(evidence, read_bytes, limits):
        flags.append(Flag.FOREIGN_READS)
    return flags


def _has_foreign_reads(evidence: Evidence, read_bytes: int, limits: Thresholds) -> bool:
    """Return True if another program read the input of a run, perhaps ahead of the client.

    The pages of the input that got into memory during the run are then more than `read_bytes`, which client
    and server read.
    """
    input_bytes = evidence.get("subject_bytes") or 0
    before_bytes = (evidence.get("resident_before") or 0.0) * input_bytes
    after_bytes = evidence.get("resident_after_bytes") or 0
    # The files by which a commit has made its input grow are in memory without a read.
    after_bytes -= evidence.get("input_grew_bytes") or 0
    foreign_bytes = after_bytes - before_bytes - read_bytes
    ignored_bytes = limits["ignore_below_mib"] * MIB
    return foreign_bytes > max(ignored_bytes, limits["max_foreign_share_cold"] * input_bytes)


def _reports_no_page_of_input(evidence: Evidence) -> bool:
    """Return True if the kernel reports no page of the input in memory after the run.

    That cannot be right, because the run has just read its input. It happens on a layered file system, such
    as overlayfs, whose files may have no pages of their own. Return False if nothing is known.
    """
    has_input = bool(evidence.get("subject_bytes"))
    return has_input and evidence.get("resident_after_bytes") == 0


def _judge_hot_run(evidence: Evidence, limits: Thresholds) -> list[Flag]:
    """Return the flags of a run whose input, such as a repository, should have been in memory.

    - `residency-unknown`: the kernel does not report the pages of the input.
    - `cache-not-warm`: the run read more than `max_read_kib_hot` (64 KiB) from disks. Up to 1 MiB of the
      reads of a client that writes files does not count. On ZFS, no run gets this flag.
    - `server-disk-unknown`: the output is on a network file system whose disk reads are unknown.
    """
    flags: list[Flag] = []
    if _reports_no_page_of_input(evidence):
        flags.append(Flag.RESIDENCY_UNKNOWN)

    read_bytes = _sum_disk_reads(evidence)
    # If the reads are unknown, judge() has already added IO_UNKNOWN. `has_own_cache` is True on ZFS. By the
    # documentation of OpenZFS, the counted reads may include reads from the cache of ZFS. Each warm run would
    # then seem to read from the disk. That was not tried.
    if read_bytes is not None and not evidence.get("has_own_cache"):
        # A client that writes files to a disk has to read tables of its file system there, even if its input
        # is in memory. The kernel counts these reads together with reads of the input, so some are forgiven.
        forgiven_bytes = 0
        if evidence.get("client_write_bytes"):
            client_bytes = evidence.get("client_read_bytes") or 0
            forgiven_bytes = min(client_bytes, OUTPUT_READ_KIB * KIB)
        if read_bytes - forgiven_bytes > limits["max_read_kib_hot"] * KIB:
            flags.append(Flag.CACHE_NOT_WARM)

    is_on_network = bool(evidence.get("network_filesystem"))
    if is_on_network and evidence.get("network_storage_read_bytes") is None:
        flags.append(Flag.SERVER_DISK_UNKNOWN)
    return flags


def _sum_disk_reads(evidence: Evidence) -> int | None:
    """Return the bytes that a hot run read from disks; None if a count of client or server is unknown.

    The kernel counts reads from a network file system like reads from a disk. So there are three cases:

    - The output is on a local disk: all bytes that client and server read (_sum_reads).
    - The output is on a network file system. So is the input, which was not in memory after the run: all
      bytes, too.
    - The output is on a network file system, and the input is elsewhere or in memory: all bytes without those
      that the client read over the network, and with those that the file server read from its own disks. The
      latter are 0 if the file server is another machine, where they are unknown.
    """
    all_bytes = _sum_reads(evidence)
    # `network_filesystem` is the kind of the output's file system, such as nfs4; missing for a local one.
    if all_bytes is None or not evidence.get("network_filesystem"):
        return all_bytes
    # An input on the network whose pages are not in memory here was read over the network in this run. A hot
    # run must not do that, so all reads count. An unknown share counts as 0.
    resident_share = evidence.get("resident_after") or 0.0
    if evidence["network_input"] and resident_share < HOT_RESIDENT_SHARE:
        return all_bytes

    # A client reads its files again from a network file system whenever it takes a lock. The file server has
    # these files in memory, so the bytes are taken off. The counts of client and server are known here,
    # because their sum is known. A local command has no server, and 0 stands for its count.
    client_bytes = evidence.get("client_read_bytes") or 0
    network_bytes = evidence.get("network_read_bytes")
    if network_bytes is not None:
        client_disk_bytes = max(0, client_bytes - network_bytes)
    else:
        # CIFS has no counter of bytes from the network. But the kernel counts how much all programs read from
        # the local disks of input and output. The client cannot have read more than this from these disks.
        # The count is None, and 0 stands for it, if neither input nor output is on a local disk. It is also
        # None if the input is on a file system that hides its disk, such as overlayfs. All reads of the
        # client may then be from the network.
        device_bytes = evidence.get("device_read_bytes") or 0
        client_disk_bytes = min(client_bytes, device_bytes)
    # The server of the repository, such as svnserve, runs on this machine.
    server_bytes = evidence.get("server_read_bytes") or 0
    file_server_bytes = evidence.get("network_storage_read_bytes") or 0
    return client_disk_bytes + server_bytes + file_server_bytes


def _find_server_fault(evidence: Evidence, promise: str, limits: Thresholds) -> Flag | None:
    """Return the first fault of a server, in the order of the checks below; None without a fault.

    The first fault explains the later ones: a server that was restarted is also not warm. `promise` is "new"
    for a server that was started for this run, with empty caches. It is "kept" for a server that has served a
    run, so that its caches are hot. With "", only a restart is a fault.
    """
    # The runs that this server process has served before, timed or not.
    runs_before = evidence.get("server_runs_before") or 0
    # False if another server ran before this run than after it, or none.
    if not evidence.get("server_same"):
        return Flag.RESTARTED
    if promise == "new" and runs_before:
        return Flag.SERVER_REUSED
    if promise != "kept":
        return None
    if not runs_before:
        return Flag.SERVER_NOT_WARM
    if evidence.get("server_processes_changed"):
        return Flag.SERVER_REFORKED
    if _has_useless_cache(evidence, limits):
        return Flag.CACHE_INEFFECTIVE
    return None


def _has_useless_cache(evidence: Evidence, limits: Thresholds) -> bool:
    """Return True if a server with hot caches read nearly as much as in its first run.

    "Nearly" is the share `max_read_share_hot_server`: with 0.9, 95 MiB again after 100 MiB is True. `rchar`
    are bytes by system calls, also from the page cache. Return False if a count is unknown.
    """
    # Only a commit makes its input grow, by content that is in no cache of the server.
    if evidence.get("input_grew_bytes"):
        return False
    first_bytes = evidence.get("server_first_rchar")
    again_bytes = evidence.get("server_rchar")
    if first_bytes is None or again_bytes is None:
        return False
    # For each connection, a server reads some KiB that it does not cache, such as its configuration. They may
    # be most of a first run that read no more than `ignore_below_mib`.
    if first_bytes <= limits["ignore_below_mib"] * MIB:
        return False
    return again_bytes > limits["max_read_share_hot_server"] * first_bytes


def _judge_machine(evidence: Evidence, is_hot: bool, limits: Thresholds) -> list[Flag]:
    """Return the flags of a run that something other than its client and server disturbed.

    Examples are another server of vcsbench (`other-server`), swapping (`swapped`), or another program that
    used the disk (`io-busy`) or the processors (`cpu-busy`). Unknown counts give no flag. `is_hot`: a run
    with its input in memory, which does not itself have to wait for disks.
    """
    flags: list[Flag] = []
    if evidence.get("other_servers"):
        flags.append(Flag.OTHER_SERVER)
    if evidence.get("swapped_in_pages") or evidence.get("swapped_out_pages"):
        flags.append(Flag.SWAPPED)
    available_bytes = evidence.get("memory_available_bytes")
    if available_bytes is not None and available_bytes < limits["min_memory_available_mib"] * MIB:
        flags.append(Flag.LOW_MEMORY)
    if _exceeds_limit(evidence, "memory_pressure_pct", limits):
        flags.append(Flag.MEMORY_PRESSURE)
    if _have_others_used_disk(evidence, is_hot, limits):
        flags.append(Flag.IO_BUSY)
    if _takes_processor(evidence, "others_cpu", limits):
        flags.append(Flag.CPU_BUSY)
    if _takes_processor(evidence, "steal", limits):
        flags.append(Flag.CPU_STEAL)
    if evidence.get("throttled") or evidence.get("quota_throttled_us"):
        flags.append(Flag.THROTTLED)
    return flags


def _have_others_used_disk(evidence: Evidence, is_hot: bool, limits: Thresholds) -> bool:
    """Return True if programs other than client and server used the disk; False if it is unknown."""
    # `device_read_bytes` are the reads of all programs from the disks of input and output.
    read_bytes, device_bytes = _sum_reads(evidence), evidence.get("device_read_bytes")
    if device_bytes is not None and read_bytes is not None:
        others_bytes = device_bytes - read_bytes
        if others_bytes > limits["max_others_read_mib"] * MIB:
            return True
    # The kernel reports the pressure of the whole machine, to which the run itself contributes. Only if the
    # run used no disk, other programs alone have caused the pressure.
    used_no_disk = read_bytes == 0 and evidence.get("client_write_bytes") == 0
    return is_hot and used_no_disk and _exceeds_limit(evidence, "io_pressure_pct", limits)


def _takes_processor(evidence: Evidence, cause: str, limits: Thresholds) -> bool:
    """Return True if `cause`, others_cpu or steal, took more processor time than its limit."""
    # The kernel counts in ticks, usually of 10 ms. In a short run, a few of them would be many percent.
    if _number_in(evidence, f"{cause}_s") <= limits["ignore_below_cpu_s"]:
        return False
    return _exceeds_limit(evidence, f"{cause}_pct", limits)


def _exceeds_limit(evidence: Evidence, name: str, limits: Thresholds) -> bool:
    # A limit has the name of its column: `max_steal_pct` limits `steal_pct`.
    return _number_in(evidence, name) > limits[f"max_{name}"]


def _number_in(evidence: Evidence, name: str) -> float:
    """Return a number of the evidence; 0 if it is unknown."""
    return cast("Mapping[str, float | None]", evidence).get(name) or 0.0

"""Judge a timed run: compare its evidence with the label of its cell, and return flags.

Judging reads the evidence only (vcsbench.measure.run_evidence). The limits are constants, and no keys of the
configuration, so that the results of all machines are judged alike. docs/evidence.md lists the flags.

In the evidence, a count is None if the kernel did not report it. It is missing if there was no such process:
a local command has no counts of a server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from vcsbench.axis_names import LINK_AXIS
from vcsbench.deployment.link import LINKS
from vcsbench.deployment.link_check import TOLERANCE_AFTER_RUNS, LinkMeasurement
from vcsbench.evidence.flags import Flag

if TYPE_CHECKING:
    from vcsbench.records import Evidence, RunRecord, WarmUpReads

KIB, MIB = 1 << 10, 1 << 20

# The largest share of the time between the hooks of a run that hyperfine's time may lack. On a busy machine,
# the share grows up to the second number, because the shells of the hooks wait for a processor.
MAX_CLOCK_GAP_SHARE, BUSY_CLOCK_GAP_SHARE = 0.05, 0.25
# The end of one shell and the start of the next take 2 to 8 ms, however long the run is.
SHELLS_S = 0.008
# In runs below the first number, the shells take a large share. So a gap up to the second one is allowed.
SHORT_WINDOW_S, MIN_CLOCK_GAP_S = 0.1, 0.03

# A cold run may begin with this share of its input in memory: the kernel keeps pages that are in use.
MAX_RESIDENT_SHARE_COLD = 0.05
# The reads of a cold run, as shares of the reads of the discarded run. Below the first share, most of the
# input was in memory, and the run is invalid. Below the second one, it is doubtful.
MIN_READ_SHARE_COLD, EXPECTED_READ_SHARE_COLD = 0.5, 0.9
# After a cold run, this share of its input may be in memory that neither client nor server has read: the
# kernel reads ahead. A larger share was read by another program.
MAX_FOREIGN_SHARE_COLD = 0.1

# A hot run may read this from devices: single folders and tables of the file system.
MAX_READ_KIB_HOT = 64
# The most that a client may read of the file system below its output: bitmaps, tables and folders.
OUTPUT_READ_KIB = 1024
# The share of an input on a network file system that has to be in memory in a hot run.
HOT_RESIDENT_SHARE = 0.98
# If a server with hot caches reads a larger share of the bytes of its first run, its caches did not help.
MAX_READ_SHARE_HOT_SERVER = 0.9

# Fewer bytes may be of programs, or of tables of a file system, and prove nothing about the input.
IGNORE_BELOW_MIB = 1

# With less memory, the kernel may drop what a hot run needs.
MIN_MEMORY_AVAILABLE_MIB = 512
# The shares of a run, in per cent, in which processes waited for memory, or for a device.
MAX_MEMORY_PRESSURE_PCT, MAX_IO_PRESSURE_PCT = 1, 10
# A program that starts, or a log, reads less than this from the disks of a run.
MAX_OTHERS_READ_MIB = 4
# The shares of all processors, in per cent, that other programs, or the hypervisor, may take.
MAX_OTHERS_CPU_PCT, MAX_STEAL_PCT = 10, 2
# The kernel counts processor time in ticks, usually of 10 ms. In a short run, a few would be many per cent.
IGNORE_BELOW_CPU_S = 0.05

# Linux delays an acknowledgement by 40 ms, and svnserve waits for it (Nagle's algorithm). No network card of
# a real server adds that.
DELAYED_ACK_S = 0.04
WAIT_COLUMNS = (
    "elapsed_s", "user_s", "system_s", "server_cpu_s", "busy_s", "cores", "delayed_acks", LINK_AXIS,
)  # fmt: skip


def acknowledgement_s(run: Mapping[Any, Any]) -> float:
    """Return for how many seconds delayed acknowledgements of TCP held up a run, as part of its fixed cost.

    The counted delays (DELAYED_ACK_S) cannot be longer than the time in which the run was idle: 3 delays in a
    run with 0.1 s of idle time took 0.1 s, not 0.12 s. `run` has the WAIT_COLUMNS, and unknown numbers count
    as 0. The result is 0 for a run over a made line with a delay or rate, such as `office` on LINK_AXIS.
    """

    def number(column: str) -> float:
        value = float(run.get(column) or 0.0)
        return 0.0 if math.isnan(value) else value

    # Over such a line, the waits are part of what is measured. On loopback, and between two networks without
    # a delay (`namespace`), they are a fixed cost.
    link = LINKS.get(str(run.get(LINK_AXIS)))
    if link is not None and link.is_shaped:
        return 0.0
    delays_s = number("delayed_acks") * DELAYED_ACK_S
    # While client or server computes, the run goes on, also if an acknowledgement is late.
    own_cpu_s = number("user_s") + number("system_s") + number("server_cpu_s")
    # While other programs keep the processors busy, the run waits for one. `busy_s` is the sum of all
    # processors, with the time of client and server.
    busy_s_per_core = number("busy_s") / max(number("cores"), 1.0)
    not_idle_s = max(own_cpu_s, busy_s_per_core)
    idle_s = max(number("elapsed_s") - not_idle_s, 0.0)
    return min(delays_s, idle_s)


def judge(run: RunRecord, elapsed_s: float) -> list[Flag]:
    """Return the flags of a timed run by its evidence. `elapsed_s` is the time of the run by hyperfine.

    The promises of a run are, for example, {"os": "cold", "server": "new"}: the caches of the operating
    system are empty, and the server has served no run. Flags name what contradicts them, or what disturbed
    the run. The module same_work checks what a run printed or wrote.
    """
    evidence, promises = run["evidence"], run["promises"]
    # The hook after the run stores `window_s`. Without this number, the hook has failed.
    if evidence.get("window_s") is None:
        return [Flag.UNCERTIFIED]
    flags: list[Flag] = []
    if _has_clock_mismatch(evidence, elapsed_s):
        flags.append(Flag.CLOCK)
    # The run stays valid, but checks of its reads or of its output are left out.
    written_bytes = (evidence.get("client_wchar", 0), evidence.get("server_wchar", 0))
    if None in written_bytes or _sum_reads(evidence) is None:
        flags.append(Flag.IO_UNKNOWN)
    is_hot = promises.get("os") == "hot"
    if promises.get("os") == "cold":
        flags += _judge_cold_run(evidence)
    elif is_hot:
        flags += _judge_hot_run(evidence)
    if evidence.get("server_kind"):
        fault = _find_server_fault(evidence, promises.get("server", ""))
        if fault:
            flags.append(fault)
    line_fault = _find_line_fault(evidence)
    if line_fault:
        flags.append(line_fault)
    flags += _judge_machine(evidence, is_hot)
    return flags


def _find_line_fault(evidence: Evidence) -> Flag | None:
    """Return the fault of the line between client and server, as a flag; None without a line or a fault.

    The line was measured before all runs of the round, and after them. `network-not-as-set` means another
    delay or rate than its label states: by more than 5 % before the runs, or 20 % after them. Between the
    two limits, `network-drifted` is a warning.
    """
    if "line_round_trip_ms" not in evidence:
        return None
    delay_ms, rate_mbit = evidence["line_delay_ms"], evidence["line_rate_mbit"]
    before = LinkMeasurement(
        evidence["line_round_trip_ms"],
        evidence["line_to_server_mbit"],
        evidence["line_to_client_mbit"],
    )
    if not before.is_as_set(delay_ms, rate_mbit):
        return Flag.NETWORK_NOT_AS_SET
    # Earlier versions have not measured a line after the runs. Without a delay or rate, none can be lost.
    if "line_round_trip_after_ms" not in evidence:
        return None
    after = LinkMeasurement(
        evidence["line_round_trip_after_ms"],
        evidence["line_to_server_after_mbit"],
        evidence["line_to_client_after_mbit"],
    )
    if not after.is_as_set(delay_ms, rate_mbit, TOLERANCE_AFTER_RUNS):
        return Flag.NETWORK_NOT_AS_SET
    if not after.is_as_set(delay_ms, rate_mbit):
        return Flag.NETWORK_DRIFTED
    return None


def _has_clock_mismatch(evidence: Evidence, elapsed_s: float) -> bool:
    """Return True if the time that hyperfine reports for a run cannot be right.

    hyperfine starts a shell (a hook) before and after a run, in which vcsbench reads the clock. The time
    between the hooks is slightly longer than the run: the first shell ends in it, and the second one starts.
    The gap may be 5 % of that time (MAX_CLOCK_GAP_SHARE) plus SHELLS_S. So 2.03 s between the hooks fit
    2.00 s by hyperfine. A busy machine and a short run may have a larger gap.
    """
    window_s = evidence["window_s"]
    gap_s = window_s - elapsed_s
    # On a busy machine, the two shells wait for a processor, or for the hypervisor. At a pressure of 90 %,
    # gaps of 12 to 17 % were measured in honest runs of 0.3 to 0.6 s.
    waited_pct = (evidence.get("cpu_pressure_pct") or 0.0) + (evidence.get("steal_pct") or 0.0)
    allowed_share = min(MAX_CLOCK_GAP_SHARE + waited_pct / 100, BUSY_CLOCK_GAP_SHARE)
    allowed_gap_s = allowed_share * window_s + SHELLS_S
    if window_s < SHORT_WINDOW_S:
        allowed_gap_s = max(allowed_gap_s, MIN_CLOCK_GAP_S)
    # A run lies between its hooks, so the gap is not negative.
    fits = 0 <= gap_s <= allowed_gap_s
    return not fits


def _sum_reads(evidence: Evidence | WarmUpReads) -> int | None:
    """Return the bytes that client and server read from devices; None if one of them is unknown."""
    client_bytes = evidence.get("client_read_bytes")
    server_bytes = evidence.get("server_read_bytes", 0)
    if client_bytes is None or server_bytes is None:
        return None
    return client_bytes + server_bytes


def _judge_cold_run(evidence: Evidence) -> list[Flag]:
    """Return the flags of a cold run, which should have begun with nothing of its input in memory.

    The input is the repository or tree that a command reads.

    - `residency-unknown`: the kernel did not report which share of the input was in memory.
    - `cache-not-cold`: before the run, too much of the input or of an existing output was in memory.
    - The flags of _judge_cold_reads(): the bytes that were read from devices are not those of a cold run.
    """
    flags: list[Flag] = []
    read_bytes = _sum_reads(evidence)
    # The shares of the input that were in memory before and after the run.
    before, after = evidence.get("resident_before"), evidence.get("resident_after")
    # If the kernel reports no page after the run, it cannot report pages of these files at all. So its 0
    # before the run proves nothing. Unknown reads (None) are no proof that the run read nothing.
    is_report_wrong = read_bytes != 0 and _reports_no_page_of_input(evidence)
    if before is None or after is None or is_report_wrong:
        flags.append(Flag.RESIDENCY_UNKNOWN)
    else:
        # An update also reads its output, a working copy. Most outputs do not exist before the run.
        output_share = evidence.get("written_resident_before") or 0.0
        resident_share = max(before, output_share)
        if resident_share > MAX_RESIDENT_SHARE_COLD:
            flags.append(Flag.CACHE_NOT_COLD)
    # If the reads are unknown, judge() has already added IO_UNKNOWN.
    if read_bytes is not None:
        flags += _judge_cold_reads(evidence, read_bytes)
    return flags


def _judge_cold_reads(evidence: Evidence, read_bytes: int) -> list[Flag]:
    """Return the flags of a cold run by the bytes that its client and server read from devices.

    A run without reads gets `no-disk-reads`, and one whose input was read by another program gets
    `foreign-reads`. Two other flags are for a run that read less than an earlier cold run.
    """
    flags: list[Flag] = []
    if read_bytes == 0:
        flags.append(Flag.NO_DISK_READS)
    else:
        flags += _compare_with_discarded_run(evidence, read_bytes)
    if _has_foreign_reads(evidence, read_bytes):
        flags.append(Flag.FOREIGN_READS)
    return flags


def _compare_with_discarded_run(evidence: Evidence, read_bytes: int) -> list[Flag]:
    """Return the flag of a cold run that read less from devices than the first one; [] if it read enough.

    The first cold run of a command on a copy is discarded, and later ones should read about as much. Say it
    read 100 MiB of an input of 200 MiB. Then 30 MiB give `too-few-disk-reads` (MIN_READ_SHARE_COLD), and
    80 MiB `fewer-disk-reads` (EXPECTED_READ_SHARE_COLD).
    """
    discarded_bytes = evidence.get("discarded_read_bytes") or 0
    # If these reads could not be counted, the reads of the first untimed run of this round take their place.
    warm_ups = evidence.get("warming", [])
    if not discarded_bytes and warm_ups:
        discarded_bytes = _sum_reads(warm_ups[0]) or 0
    # Most of so few reads may be of tables of the file system, or of modules of Python.
    if discarded_bytes <= IGNORE_BELOW_MIB * MIB:
        return []
    # The discarded run also read the programs from the device, and a timed run finds them in memory. So no
    # run has to read more than its input. An input of unknown size (0) sets no limit.
    ceiling_bytes = evidence.get("subject_bytes") or discarded_bytes
    if read_bytes < min(ceiling_bytes, MIN_READ_SHARE_COLD * discarded_bytes):
        return [Flag.TOO_FEW_DISK_READS]
    if read_bytes < min(ceiling_bytes, EXPECTED_READ_SHARE_COLD * discarded_bytes):
        return [Flag.FEWER_DISK_READS]
    return []


def _has_foreign_reads(evidence: Evidence, read_bytes: int) -> bool:
    """Return True if another program read the input of a run into memory.

    More pages of the input then got into memory during the run than client and server read (`read_bytes`).
    """
    input_bytes = evidence.get("subject_bytes") or 0
    before_bytes = (evidence.get("resident_before") or 0.0) * input_bytes
    after_bytes = evidence.get("resident_after_bytes") or 0
    # The files by which a commit has made its input grow are in memory without a read.
    after_bytes -= evidence.get("input_grew_bytes") or 0
    foreign_bytes = after_bytes - before_bytes - read_bytes
    return foreign_bytes > max(IGNORE_BELOW_MIB * MIB, MAX_FOREIGN_SHARE_COLD * input_bytes)


def _reports_no_page_of_input(evidence: Evidence) -> bool:
    """Return True if the kernel reports no page of the input in memory after the run.

    That cannot be right, because the run has just read its input. It happens on a layered file system, such
    as overlayfs, whose files may have no pages of their own. Return False if nothing is known.
    """
    has_input = bool(evidence.get("subject_bytes"))
    return has_input and evidence.get("resident_after_bytes") == 0


def _judge_hot_run(evidence: Evidence) -> list[Flag]:
    """Return the flags of a hot run, whose input should have been in memory.

    - `residency-unknown`: the kernel does not report the pages of the input.
    - `cache-not-warm`: the run read more than 64 KiB (MAX_READ_KIB_HOT) from disks. Some reads of a client
      that writes files do not count (_forgiven_bytes).
    - `server-disk-unknown`: the output is on a network file system whose disk reads are unknown.
    """
    flags: list[Flag] = []
    if _reports_no_page_of_input(evidence):
        flags.append(Flag.RESIDENCY_UNKNOWN)

    read_bytes = _sum_disk_reads(evidence)
    # ZFS has a cache of its own, in memory. By its documentation, the kernel may count reads from this cache
    # as reads from a disk (not tried). So the count proves nothing about a run on ZFS.
    is_on_zfs = bool(evidence.get("has_own_cache"))
    if read_bytes is not None and not is_on_zfs:
        unexpected_bytes = read_bytes - _forgiven_bytes(evidence)
        if unexpected_bytes > MAX_READ_KIB_HOT * KIB:
            flags.append(Flag.CACHE_NOT_WARM)

    is_on_network = bool(evidence.get("network_filesystem"))
    if is_on_network and evidence.get("network_storage_read_bytes") is None:
        flags.append(Flag.SERVER_DISK_UNKNOWN)
    return flags


def _forgiven_bytes(evidence: Evidence) -> int:
    """Return how many bytes a hot run may read because its client writes files: up to 1 MiB.

    Such a client reads tables of the file system, such as lists of free blocks, even if its input is in
    memory. Its reads of the input are not forgiven.
    """
    has_output = "written_resident_before" in evidence
    # A commit changes its input, the repository.
    changes_input = "input_grew_bytes" in evidence
    makes_files = has_output or changes_input
    if not makes_files or not evidence.get("client_write_bytes"):
        return 0
    return min(_client_reads_without_input(evidence), OUTPUT_READ_KIB * KIB)


def _client_reads_without_input(evidence: Evidence) -> int:
    """Return the bytes that the client of a hot run read from devices, without the reads of its input.

    The kernel counts all reads of the client together. But vcsbench has measured how much of the input got
    into memory in the run: the server has read a part of it, and the client the rest. Example: of 300 KiB,
    the server read 100 KiB, so the client read 200 KiB. If it read 500 KiB in all, 300 KiB are returned.
    """
    client_bytes = evidence.get("client_read_bytes") or 0
    server_bytes = evidence.get("server_read_bytes") or 0
    # It is unknown, for example, for an input with more than 50,000 files, and then counts as 0.
    loaded_bytes = evidence.get("input_loaded_bytes") or 0
    rest_bytes = loaded_bytes - server_bytes
    others_bytes = 0
    if rest_bytes > client_bytes:
        # The client cannot have read that much. Other programs have read a part of the input, or its files
        # are compressed on the device. So the reads of other programs are subtracted from the rest. They are
        # all reads from the device but those of client and server, and 0 if the device has no counts.
        device_bytes = evidence.get("device_read_bytes") or 0
        others_bytes = max(0, device_bytes - client_bytes - server_bytes)
    client_input_bytes = min(client_bytes, max(0, rest_bytes - others_bytes))
    return client_bytes - client_input_bytes


def _sum_disk_reads(evidence: Evidence) -> int | None:
    """Return the bytes that client, server and file server of a hot run read from disks; None if unknown.

    A file server has the files of a network file system, such as NFS. The kernel counts reads over the
    network as if they were reads from a disk. So there are three cases.
    """
    counted_bytes = _sum_reads(evidence)
    is_on_network = bool(evidence.get("network_filesystem"))
    # 1. The run writes to no network file system. All counted reads are taken as reads from disks.
    if counted_bytes is None or not is_on_network:
        return counted_bytes
    # 2. The input is on the same network file system, and was not in memory after the run. So the run may
    # have read it over the network, which a hot run must not do. All counted reads are returned, to flag it.
    resident_share = evidence.get("resident_after") or 0.0
    if evidence["network_input"] and resident_share < HOT_RESIDENT_SHARE:
        return counted_bytes
    # 3. Only the output was read over the network, which is harmless. The client's reads from local disks
    # count, and those of the file server from its own disks (0 on another machine, where they are unknown).
    server_bytes = evidence.get("server_read_bytes") or 0
    file_server_bytes = evidence.get("network_storage_read_bytes") or 0
    return _client_disk_reads(evidence) + server_bytes + file_server_bytes


def _client_disk_reads(evidence: Evidence) -> int:
    """Return the bytes that a client read from local disks, while it wrote to a network file system.

    The client reads its files again from the network whenever it takes a lock. The file server has these
    files in memory, so such reads are harmless.
    """
    client_bytes = evidence.get("client_read_bytes") or 0
    network_bytes = evidence.get("network_read_bytes")
    if network_bytes is not None:
        return max(0, client_bytes - network_bytes)
    # CIFS has no counter of bytes from the network. But the client cannot have read more from local disks
    # than all programs together. Their count is None without a local disk, and if the file system of the
    # input hides its disk, such as overlayfs. Then all reads of the client may be from the network.
    device_bytes = evidence.get("device_read_bytes") or 0
    return min(client_bytes, device_bytes)


def _find_server_fault(evidence: Evidence, promise: str) -> Flag | None:
    """Return the first fault of the server of a run, as a flag; None without a fault.

    The `promise` is "new" for a server that was started for this run, and "kept" for a server that has served
    a run, so that its caches are hot. With "", only a restart is a fault. The first fault explains the later
    ones: a server that was restarted is also not warm.
    """
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
    if _has_useless_cache(evidence):
        return Flag.CACHE_INEFFECTIVE
    return None


def _has_useless_cache(evidence: Evidence) -> bool:
    """Return True if a server that should have its data in caches read nearly as much as in its first run.

    "Nearly" is the share MAX_READ_SHARE_HOT_SERVER. The counts of `rchar` are bytes by system calls, also
    from the page cache. Return False if a count is unknown.
    """
    # A commit makes its input grow, by content that is in no cache of the server.
    if evidence.get("input_grew_bytes"):
        return False
    first_bytes = evidence.get("server_first_rchar")
    again_bytes = evidence.get("server_rchar")
    if first_bytes is None or again_bytes is None:
        return False
    # For each connection, a server reads some KiB that it does not cache, such as its configuration.
    if first_bytes <= IGNORE_BELOW_MIB * MIB:
        return False
    return again_bytes > MAX_READ_SHARE_HOT_SERVER * first_bytes


def _judge_machine(evidence: Evidence, is_hot: bool) -> list[Flag]:
    """Return the flags of a run that something on the machine disturbed, other than its client and server.

    Unknown counts give no flag. A run with its input in memory (`is_hot`) does not itself wait for disks.
    """
    flags: list[Flag] = []
    if evidence.get("other_servers"):
        flags.append(Flag.OTHER_SERVER)
    if evidence.get("swapped_in_pages") or evidence.get("swapped_out_pages"):
        flags.append(Flag.SWAPPED)
    available_bytes = evidence.get("memory_available_bytes")
    if available_bytes is not None and available_bytes < MIN_MEMORY_AVAILABLE_MIB * MIB:
        flags.append(Flag.LOW_MEMORY)
    if _number_in(evidence, "memory_pressure_pct") > MAX_MEMORY_PRESSURE_PCT:
        flags.append(Flag.MEMORY_PRESSURE)
    if _have_others_used_disk(evidence, is_hot):
        flags.append(Flag.IO_BUSY)
    if _takes_processor(evidence, "others_cpu", MAX_OTHERS_CPU_PCT):
        flags.append(Flag.CPU_BUSY)
    if _takes_processor(evidence, "steal", MAX_STEAL_PCT):
        flags.append(Flag.CPU_STEAL)
    if evidence.get("throttled") or evidence.get("quota_throttled_us"):
        flags.append(Flag.THROTTLED)
    return flags


def _have_others_used_disk(evidence: Evidence, is_hot: bool) -> bool:
    """Return True if programs other than client and server used the disk; False if it is unknown."""
    # The reads of the run, and of all programs from the disks of input and output.
    read_bytes, device_bytes = _sum_reads(evidence), evidence.get("device_read_bytes")
    if device_bytes is not None and read_bytes is not None:
        others_bytes = device_bytes - read_bytes
        if others_bytes > MAX_OTHERS_READ_MIB * MIB:
            return True
    # The kernel reports the pressure of the whole machine, to which a run that used a disk contributes.
    used_no_disk = read_bytes == 0 and evidence.get("client_write_bytes") == 0
    has_pressure = _number_in(evidence, "io_pressure_pct") > MAX_IO_PRESSURE_PCT
    return is_hot and used_no_disk and has_pressure


def _takes_processor(evidence: Evidence, cause: str, limit_pct: float) -> bool:
    """Return True if `cause`, others_cpu or steal, took more than `limit_pct` of all processors."""
    if _number_in(evidence, f"{cause}_s") <= IGNORE_BELOW_CPU_S:
        return False
    return _number_in(evidence, f"{cause}_pct") > limit_pct


def _number_in(evidence: Evidence, name: str) -> float:
    """Return a number of the evidence; 0 if it is unknown."""
    return cast("Mapping[str, float | None]", evidence).get(name) or 0.0

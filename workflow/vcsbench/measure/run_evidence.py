"""Collect the evidence of each run of a cell: counters and caches before and after it.

Nothing is judged here. vcsbench.evidence judges whenever results are collected.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from vcsbench import kernel, process_facts, server_user
from vcsbench.deployment.link import LinkedNetworks
from vcsbench.measure import caches, counters, instructions
from vcsbench.measure.counters import (
    CountedDevices,
    EvidencePart,
    MachineCounters,
    count_growth,
    subtract,
)
from vcsbench.measure.memory_sampler import MemorySampler
from vcsbench.measure.network_output import NetworkCounts, find_network_output
from vcsbench.measure.server import Server, find_other_servers
from vcsbench.measure.server_group import ServerGroup
from vcsbench.storages.filesystems import OWN_CACHE, mount_of
from vcsbench.subjects import Subject

if TYPE_CHECKING:
    from pathlib import Path

    from vcsbench.records import Evidence, WarmUpReads

# Without a control group, the CPU time of ended children, as of a forking svnserve, is known in whole ticks:
# one of user and one of system time. Below this time, two ticks are more than a tenth of it.
COARSE_S = 20 * counters.TICK_S
# Options of a svnserve that answers in one process.
THREADED = frozenset(["-T", "--threads"])
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"
# The evidence of a run that is not timed.
WARM_UP_KEYS = (
    "client_read_bytes",
    "server_pid",
    "server_read_bytes",
    "server_rchar",
    "server_wchar",
)


class ServerIdentity(NamedTuple):
    """A server process. The start is a part, because the kernel may give the pid to a later process."""

    pid: int
    start_ticks: int


class ServerCounters(NamedTuple):
    """Counters of a server that runs.

    `ended_faults` are the page faults of its processes that have ended, which grow with the end of each.
    `group_cpu_s` is the CPU time of its control group, None without one.
    """

    identity: ServerIdentity
    used: process_facts.Usage
    pids: list[int]
    ended_faults: int
    group_cpu_s: float | None


class Snapshot(NamedTuple):
    """Counters of the machine, the client (hyperfine and its children) and the server at one moment.

    `own_cpu_s` is the CPU time of vcsbench itself. `network_output` is None if the run writes to no network
    file system, and `server` is None if no server runs.
    """

    machine: MachineCounters
    client: process_facts.Usage
    own_cpu_s: float
    network_output: NetworkCounts | None
    server: ServerCounters | None

    @property
    def server_identity(self) -> ServerIdentity | None:
        return self.server.identity if self.server else None


class BegunRun(NamedTuple):
    """A run that has begun, and the readings before it.

    `devices` are those whose counters are read before and after the run. `input_before` is how much of the
    input was in memory; None if it was not queried. `facts` are about the machine, a part of the evidence.
    """

    is_timed: bool
    devices: CountedDevices
    before: Snapshot
    input_before: caches.Residency | None
    facts: Evidence


class ClearedResidency(NamedTuple):
    """How much of input and output was in memory after caches were cleared; None if it is unknown."""

    input: caches.Residency | None = None
    output: caches.Residency | None = None


class EvidenceCollector:
    """Collect the evidence of each run, timed or not: begin(), the run, end()."""

    def __init__(
        self,
        read: Subject | None,
        written: Subject | None,
        server: Server | None,
        clearing: str,
        *,
        measures_sync: bool = False,
        networks: LinkedNetworks | None = None,
        group: ServerGroup | None = None,
        samples_memory: bool = False,
        runs_hooks: bool = False,
        owns_network: bool = False,
        checks_input: bool = False,
    ) -> None:
        """Store how to observe the runs of a cell-round.

        - `read` is the subject that the command reads, such as a repository: its input. `written` is the one
          that it writes, such as a tree of files: its output.
        - `clearing` is the way to clear caches, such as "drop-caches".
        - `measures_sync`: after each run, measure how long its output takes to be on the device.
        - `networks` are the networks of client and server, with a line between them.
        - `group` is a control group, which counts the CPU time of the server.
        - `samples_memory`: read the memory of the server at intervals during a timed run. After the run, the
          processes of a server that forks have ended.
        - `runs_hooks`: the server starts hooks of the repository, which end within the run. All other hooks
          in this class are hyperfine's.
        - `owns_network`: only processes of the cell use the network of this process.
        - `checks_input`: count how much of the input gets into memory in each timed run, if that is possible
          (_can_check_input).
        """
        self.input = read
        self.output = written
        self.server = server
        self.clearing = clearing
        self.measures_sync = measures_sync
        self.line = networks
        self.group = group
        self.samples_memory = samples_memory
        self.runs_hooks = runs_hooks
        self.owns_network = owns_network

        inputs = read.folders if read else []
        outputs = written.folders if written else []
        # True if the kernel reports which names of the input are in its cache. A query of the input then
        # opens only files with such names, so it changes no caches.
        self.has_cached_names = bool(read and read.size and caches.has_cached_names(*inputs))
        self.checks_input = checks_input and self._can_check_input()
        # The network file system, such as NFS, that the runs write to.
        self.network_output = find_network_output(inputs, outputs)
        kinds = {mount_of(folder).filesystem for folder in (*inputs, *outputs)}
        # True on ZFS: the kernel may count bytes from the cache of ZFS as read from the disk.
        self.has_own_cache = not kinds.isdisjoint(OWN_CACHE)

        # Facts about several runs, which are collected from here on.
        self.line_evidence: Evidence = {}
        # The reads of the untimed runs, in their order.
        self.warming: list[WarmUpReads] = []
        # The bytes that each server has read in each of its runs.
        self.server_reads: dict[ServerIdentity, list[int | None]] = {}
        # The server that was last added to the control group.
        self.grouped_server: ServerIdentity | None = None
        # The instructions of the start of a hook's shell (begin_hook).
        self.hook_instructions: int | None = None
        # How hyperfine and the server were scheduled before the timed runs, such as {"nice 0, ..."}.
        self.client_scheduling: set[str] = set()
        self.server_scheduling: set[str] = set()

        # The present run. query_cleared() sets `cleared` before begin(), if caches were cleared, and begin()
        # sets the others.
        self.cleared: ClearedResidency | None = None
        self.begun_run: BegunRun | None = None
        # By side: "client" and "server".
        self.instruction_counters: dict[str, instructions.InstructionCounter] = {}
        self.sampler: MemorySampler | None = None

    def _can_check_input(self) -> bool:
        """Return True if a query of the input is quick, changes no caches, and shows what a run has read."""
        # Files that a command writes to its input, as a commit does, are in memory without a read.
        if not self.input or self.input.is_written or self.input.gets_traces:
            return False
        return self.has_cached_names and caches.have_few_files(*self.input.folders)

    def measure_line(self) -> None:
        """Measure the line, if there is one. All runs get this evidence."""
        if not self.line:
            return
        link = self.line.link
        measured = self.line.measure()
        self.line_evidence = {
            "line_delay_ms": link.delay_ms,
            "line_rate_mbit": link.rate_mbit,
            "line_round_trip_ms": measured.round_trip_ms,
            "line_to_server_mbit": measured.to_server_mbit,
            "line_to_client_mbit": measured.to_client_mbit,
        }

    def measure_line_again(self) -> Evidence:
        """Return the evidence of the line after the runs; {} without a line with a delay, limit or loss."""
        if not self.line or not self.line.link.is_shaped:
            return {}
        measured = self.line.measure_again()
        return {
            "line_round_trip_after_ms": measured.round_trip_ms,
            "line_to_server_after_mbit": measured.to_server_mbit,
            "line_to_client_after_mbit": measured.to_client_mbit,
        }

    def query_cleared(self) -> bool:
        """Store how much of input and output is in memory after caches were cleared, before a timed run.

        Return True if the query has opened files, which may load inodes: caches must be cleared again.
        """
        self.cleared = ClearedResidency(self._query_input(), _query_subject(self.output))
        # With cached names, the query of the input opens only files whose inodes are in memory.
        has_opened_input = self.input is not None and not self.has_cached_names
        # None: there is no output, it has no bytes yet, or it cannot be queried.
        has_opened_output = self.cleared.output is not None
        return has_opened_input or has_opened_output

    def begin_hook(self, hyperfine_pid: int) -> None:
        """Count the instructions between this hook and the next one, without a run between them.

        Each hook is a shell. The hook after a run ends the count of the run's instructions, so this count
        includes the start of one shell. Here, such a start is counted alone. end() subtracts it from the
        count of each run.
        """
        self.instruction_counters = instructions.count_instructions({"client": [hyperfine_pid]})

    def begin(self, hyperfine_pid: int, is_timed: bool) -> None:
        """Read the counters before a run. Before a timed run, also read facts about the machine.

        hyperfine starts a timed run as soon as the calling hook, a shell, ends. This process itself starts an
        untimed run. All work after the reading of the counters counts for the run, so they are read late.
        """
        if self.server:
            # A process of an earlier connection that ended within this run would count for it.
            self.server.await_connections()
        # end() reads the counters of the same devices, so it does not choose them again. To choose them also
        # makes calls on NFS, which would then count for the run.
        devices = self._choose_devices()
        if is_timed:
            self._begin_timed_run(hyperfine_pid, devices)
        else:
            before = self._snapshot([hyperfine_pid, os.getpid()], devices)
            self.begun_run = BegunRun(
                is_timed=False, devices=devices, before=before, input_before=None, facts={}
            )

    def _begin_timed_run(self, hyperfine_pid: int, devices: CountedDevices) -> None:
        """Read facts about the machine, then the counters, and start to count what the run itself does."""
        counted_pids = {"client": [hyperfine_pid]}
        # The server first, then its descendants.
        server_pids: list[int] = []
        if self.server and self.server.pid:
            server_pids = process_facts.family(self.server.pid)
            counted_pids["server"] = server_pids
        # hyperfine may be a wrapper that starts the real one with another priority. The run inherits that.
        client_pids = process_facts.family(hyperfine_pid)
        self.client_scheduling |= process_facts.read_scheduling(client_pids)
        self.server_scheduling |= process_facts.read_scheduling(server_pids)
        input_before = self._query_input() if self.checks_input else None
        facts: Evidence = {
            "memory_available_bytes": kernel.memory().available,
            "other_servers": find_other_servers(server_pids),
        }
        # One of `client_pids` is the shell of this hook. When it ends, within the run, the kernel adds its
        # counts to those of hyperfine. This reading has these counts, too. So the difference between it and
        # the reading after the run is without them.
        before = self._snapshot(client_pids, devices)
        # Until the run starts, only the lines below and the end of this hook follow.
        now = datetime.datetime.now(datetime.UTC)
        facts["started_at"] = now.strftime(TIME_FORMAT)
        self.begun_run = BegunRun(
            is_timed=True, devices=devices, before=before, input_before=input_before, facts=facts
        )
        self.instruction_counters = instructions.count_instructions(counted_pids)
        if self.samples_memory and server_pids:
            self.sampler = MemorySampler(server_pids[0])

    def end(self, hyperfine_pid: int, is_last: bool = False) -> Evidence | None:
        """Return the evidence of a timed run that has ended, such as {"client_read_bytes": 4096, ...}.

        After an untimed run, add its reads to `warming`, and return None. For two timed runs, the hooks of
        hyperfine call these methods:

        - setup: begin_hook()
        - prepare: end(), begin(). There was no run yet: this end() stores the count of begin_hook(), and
          returns None. Run 1 follows.
        - prepare: end(), begin(). Run 2 follows.
        - cleanup: end()
        """
        # All steps below execute instructions, so these counters end first.
        instruction_counts = self._end_instruction_counters()
        # close() ends the sampler, whose peak is read below.
        sampler = self.sampler
        self.close()
        run = self.begun_run
        self.begun_run = None
        if run is None:
            # Since begin_hook(), only the shell of this hook was started.
            self.hook_instructions = instruction_counts.get("client_instructions")
            return None

        self._subtract_hook(instruction_counts)
        if self.server:
            # Only when a process has ended, the kernel adds its counts to those of the server, its parent.
            self.server.await_connections()
        client_pids = [hyperfine_pid]
        if not run.is_timed:
            # An untimed run is a child of this process, not of hyperfine.
            client_pids.append(os.getpid())
        after = self._snapshot(client_pids, run.devices)
        # The sync comes after the counters were read, because it writes to the device itself.
        sync_s = None
        if self.measures_sync and self.output:
            sync_s = counters.measure_sync_s(self.output.folders[0])

        counts = self._describe_run(run.before, after, instruction_counts)
        # The key exists only if the same server ran before and after the run. The sampled peak also covers
        # processes that have ended.
        if sampler and "server_peak_memory_bytes" in counts:
            counts["server_peak_memory_bytes"] = sampler.peak_bytes
        # The earlier runs of this server process, timed or not, have filled its caches.
        earlier_reads = self._add_server_read(after.server_identity, counts.get("server_rchar"))
        if not run.is_timed:
            reads = {name: value for name, value in counts.items() if name in WARM_UP_KEYS}
            self.warming.append(cast("WarmUpReads", reads))
            return None

        evidence = {
            # This query may open files, so it comes after all counters were read.
            **self._query_residency(run.input_before, is_last),
            **counts,
            **run.facts,
            **self.line_evidence,
        }
        if sync_s is not None:
            evidence["sync_s"] = sync_s
        evidence["warming"] = list(self.warming)
        if self.has_own_cache:
            evidence["has_own_cache"] = True
        if self.server:
            evidence["server_runs_before"] = len(earlier_reads)
            evidence["server_first_rchar"] = earlier_reads[0] if earlier_reads else None
        return cast("Evidence", evidence)

    def close(self) -> None:
        """End what still runs after the last run, or after a failure."""
        if self.sampler:
            self.sampler.stop()
            self.sampler = None

    def _end_instruction_counters(self) -> dict[str, int | None]:
        """Return the counts, such as {"client_instructions": 1234567}; {} if nothing can be counted here."""
        counts = {}
        for side, counter in self.instruction_counters.items():
            counts[f"{side}_instructions"] = counter.end()
        self.instruction_counters = {}
        return counts

    def _subtract_hook(self, instruction_counts: dict[str, int | None]) -> None:
        """Subtract the start of a hook's shell from the client's instructions, with which it was counted."""
        # There are no counts where nothing can be counted.
        if instruction_counts:
            counted = instruction_counts["client_instructions"]
            instruction_counts["client_instructions"] = subtract(counted, self.hook_instructions)

    def _choose_devices(self) -> CountedDevices:
        """Return the block devices of input and output, before a run. Their reads and writes are counted."""
        folders: list[Path] = []
        written_folders: list[Path] = []
        for subject in (self.input, self.output):
            if not subject:
                continue
            # An output does not exist before its run: the folder around it is on the same device.
            present = [path if path.exists() else path.parent for path in subject.folders]
            folders += present
            # A commit changes its input.
            if subject is self.output or subject.is_written:
                written_folders += present
        # Without a folder that the command writes to, as for a log, all devices count writes.
        return counters.choose_devices(*folders, written=written_folders or folders)

    def _snapshot(self, client_pids: list[int], devices: CountedDevices) -> Snapshot:
        """Read all counters of machine, client and server now. The difference of two snapshots is one run.

        `client_pids` are the processes that count as the client: hyperfine, and before a timed run also its
        children that still live. The counts of a process include its ended children's.
        """
        client = process_facts.usage(client_pids)
        # The time of vcsbench itself is not that of other programs (_estimate_others). A line between client
        # and server may have a relay, a process of vcsbench that delays the data.
        own_cpu_s = time.process_time()
        if self.line:
            own_cpu_s += self.line.cpu_s()
        return Snapshot(
            machine=counters.read_counters(devices),
            client=client,
            own_cpu_s=own_cpu_s,
            network_output=self.network_output.read_counts() if self.network_output else None,
            server=self._read_server(),
        )

    def _read_server(self) -> ServerCounters | None:
        """Return the server's counters; None if no server runs. Add a new server to the control group."""
        pid = self.server.pid if self.server else 0
        if not pid:
            return None
        identity = ServerIdentity(pid, process_facts.start_ticks(pid))
        group_cpu_s = None
        if self.group:
            # A server is started outside of the group. This one was started since the last reading.
            if self.grouped_server != identity:
                self.group.add(pid)
                self.grouped_server = identity
            group_cpu_s = self.group.cpu_s()
        family, used = process_facts.family_usage(pid)
        ended_faults = process_facts.ended_children_faults(family)
        return ServerCounters(identity, used, sorted(family), ended_faults, group_cpu_s)

    def _describe_run(
        self, before: Snapshot, after: Snapshot, instruction_counts: Mapping[str, int | None]
    ) -> EvidencePart:
        """Return the evidence that follows from the counters before and after a run, timed or not.

        The parts that are merged here have no keys in common.
        """
        events = counters.count_events(before.machine, after.machine)
        if not self.owns_network:
            # Other programs of the machine use the same interfaces, so the cell's bytes are unknown.
            events["wire_bytes"] = None
        client_counts = count_growth(
            before.client, after.client, process_facts.IO_COUNTS, "client_"
        )
        network_counts: EvidencePart = {}
        if before.network_output and after.network_output:
            network_counts = count_growth(
                before.network_output, after.network_output, NetworkCounts._fields, "network_"
            )
        server_counts = _count_server(before, after)
        load = counters.measure_load(before.machine, after.machine)
        evidence = {**events, **client_counts, **network_counts, **server_counts, **load}

        # None if the kernel does not report it, and 0 s without the same server before and after the run.
        server_cpu_s = server_counts.get("server_cpu_s", 0.0)
        other_programs = _estimate_others(before, after, load["busy_s"], server_cpu_s)
        # A coarse time is good enough for the estimate above, but not as the server's own column.
        if _is_server_cpu_too_coarse(before, after, server_cpu_s):
            evidence["server_cpu_s"] = None

        if self.server:
            evidence |= _describe_server(self.server, before, after, self.runs_hooks)
        if self.network_output:
            evidence |= self.network_output.facts()
        evidence |= instruction_counts
        evidence["instructions_why_not"] = instructions.why_no_instructions()
        return evidence | other_programs

    def _add_server_read(
        self, server: ServerIdentity | None, rchar: int | None
    ) -> list[int | None]:
        """Store the bytes that a server process read in a run, and return the bytes of its earlier runs."""
        if not server:
            return []
        earlier_reads = self.server_reads.get(server, [])
        self.server_reads[server] = [*earlier_reads, rchar]
        return earlier_reads

    def _query_residency(
        self, input_before: caches.Residency | None, is_last: bool
    ) -> EvidencePart:
        """Return how much of input and output was in memory before and after a run, as shares from 0 to 1.

        The input is what the command reads, such as a repository, and the output what it writes. Example:
        {"resident_before": 0.0, "resident_after": 0.75, "written_resident_before": 0.0, ...}.
        """
        cleared = self.cleared
        # These shares do not belong to the next run.
        self.cleared = None
        is_cleared = cleared is not None
        before = cleared or ClearedResidency()
        # A query may open files, and so change the caches for the next run. It is needed after a run with
        # cleared caches, because a cold run is judged by it. Of other runs, only the last one has a query.
        may_open_files = is_cleared or is_last
        evidence: EvidencePart = {
            "cache_cleared_by": self.clearing if is_cleared else "",
            **self._describe_input(before.input, input_before, may_open_files),
        }
        if not self.output:
            return evidence
        evidence["written_resident_before"] = _share(before.output)
        if may_open_files:
            # The parts of a working copy are its database, pristine and working files.
            for part, paths in self.output.parts().items():
                evidence[f"{part}_resident"] = _share(caches.query_residency(*paths))
        return evidence

    def _describe_input(
        self,
        cleared: caches.Residency | None,
        input_before: caches.Residency | None,
        may_open_files: bool,
    ) -> EvidencePart:
        """Return the size of the input, and how much of it was in memory before and after a run.

        `cleared` was queried after caches were cleared, and `input_before` directly before the run. Either is
        None if it was not queried. `resident_of` has the number of files that were queried after the run.
        """
        # `input_before` is from a query that opens only files in memory. Such a query disturbs no later run.
        can_query = may_open_files or input_before is not None
        queried = self._query_input() if can_query else None
        after = queried if may_open_files else None
        evidence: EvidencePart = {
            "subject_bytes": self.input.size if self.input else None,
            "resident_before": _share(cleared),
            "resident_after": _share(after),
            "resident_after_bytes": after.pages_bytes if after else None,
            "resident_of": after.coverage if after else "",
        }
        if queried and input_before:
            # The difference is negative if the kernel has dropped pages of the input within the run.
            grown_bytes = queried.pages_bytes - input_before.pages_bytes
            evidence["input_loaded_bytes"] = max(0, grown_bytes)
        return evidence

    def _query_input(self) -> caches.Residency | None:
        """Return how much of the input is in memory; None if unknown. With cached names, no cache changes."""
        if self.input and self.has_cached_names:
            return caches.query_residency_by_names(self.input.size, *self.input.folders)
        return _query_subject(self.input)


def _share(residency: caches.Residency | None) -> float | None:
    return residency.share if residency else None


def _count_server(before: Snapshot, after: Snapshot) -> EvidencePart:
    """Return CPU time and I/O of the server within a run: {"server_cpu_s": 0.25, "server_rchar": 4096, ...}.

    Return {} unless the same server ran before and after the run.
    """
    if not before.server or not after.server or before.server_identity != after.server_identity:
        return {}
    used_before, used_after = before.server.used, after.server.used
    counts = count_growth(used_before, used_after, process_facts.Usage._fields, "server_")
    group_cpu_s = _count_group_cpu(before, after)
    if group_cpu_s is not None and _have_server_processes_ended(before, after):
        # The group counts in microseconds. The server's own count has ended processes in whole ticks.
        counts["server_cpu_s"] = group_cpu_s
    return counts


def _count_group_cpu(before: Snapshot, after: Snapshot) -> float | None:
    """Return the CPU time of the server's control group within a run; None if it is unknown.

    The group counts in microseconds, also processes of the server that have ended.
    """
    if not before.server or not after.server or before.server_identity != after.server_identity:
        return None
    cpu_s: float | None = subtract(after.server.group_cpu_s, before.server.group_cpu_s)
    return cpu_s


def _have_server_processes_ended(before: Snapshot, after: Snapshot) -> bool:
    """Return True if a server's descendant has ended within a run, or the server has started or ended."""
    if not before.server or not after.server:
        # Both are None if there was no server at all.
        return before.server is not after.server
    # The page faults of ended children grow with the end of each child.
    return before.server.ended_faults != after.server.ended_faults


def _is_server_cpu_too_coarse(
    before: Snapshot, after: Snapshot, server_cpu_s: float | None
) -> bool:
    """Return True if the server's CPU time in a run is short, and was counted in whole ticks (10 ms).

    The kernel adds the time of an ended process to its parent's in ticks. Below COARSE_S, two ticks are more
    than a tenth of the time.
    """
    # The control group counts in microseconds.
    if _count_group_cpu(before, after) is not None:
        return False
    if not _have_server_processes_ended(before, after):
        return False
    return server_cpu_s is not None and server_cpu_s < COARSE_S


def _estimate_others(
    before: Snapshot, after: Snapshot, busy_s: float, server_s: float | None
) -> EvidencePart:
    """Return the CPU time of other programs in a run: busy time without client, server and vcsbench.

    Example: 2 processors were busy for 1.5 s in a run of 1 s, and client, server and vcsbench took 1.3 s. The
    result is {"others_cpu_s": 0.2, "others_cpu_pct": 10.0}: 0.2 s of the available 2 s. Both are None if the
    time of the client or of the server is unknown.
    """
    client_s = subtract(after.client.cpu_s, before.client.cpu_s)
    if client_s is None or server_s is None:
        return {"others_cpu_s": None, "others_cpu_pct": None}
    own_s = after.own_cpu_s - before.own_cpu_s
    # Busy time is in ticks, less exact than the time of processes, so the difference may be negative.
    others_s = max(0.0, busy_s - (client_s + own_s + server_s))
    # The time between the two readings, rounded as the `window_s` of the evidence.
    window_s = round(after.machine.clock_s - before.machine.clock_s, 6)
    available_s = (os.cpu_count() or 1) * window_s
    return {
        "others_cpu_s": round(others_s, 3),
        "others_cpu_pct": round(100 * others_s / available_s, 1),
    }


def _describe_server(
    server: Server, before: Snapshot, after: Snapshot, runs_hooks: bool
) -> EvidencePart:
    """Return facts such as {"server_kind": "svnserve", "server_pid": 4711, "server_same": True, ...}.

    `server_same` is True if the server also ran before the run. Only then the facts have its age, command
    line, program and peak memory. The peak memory is None if a process of the server was started or has
    ended: the kernel keeps no peak of an ended one.
    """
    is_same = after.server is not None and before.server_identity == after.server_identity
    pid = after.server.identity.pid if after.server else 0
    processes_changed = _have_server_processes_changed(server, before, after, runs_hooks)
    facts: EvidencePart = {
        "server_kind": server.kind,
        "server_pid": pid,
        "server_same": is_same,
        "server_processes_changed": processes_changed,
    }
    if is_same:
        facts["server_age_s"] = round(time.time() - process_facts.started_at(pid), 3)
        facts["server_argv"] = process_facts.command_line(pid)
        facts["server_build"] = describe_binary(pid)
        peak_bytes = None if processes_changed else process_facts.peak_memory_bytes(pid)
        facts["server_peak_memory_bytes"] = peak_bytes
    return facts


def _have_server_processes_changed(
    server: Server, before: Snapshot, after: Snapshot, runs_hooks: bool
) -> bool:
    """Return True if a process of the server was started or has ended within a run.

    The lists of pids lack a process that was started and has ended within the run. But the kernel adds its
    page faults to its parent's, which shows its end (_have_server_processes_ended). With `runs_hooks`, hooks
    of the repository end in the same way. They do not count here.
    """
    pids_before = before.server.pids if before.server else []
    pids_after = after.server.pids if after.server else []
    if pids_before != pids_after:
        return True
    if not runs_hooks or not after.server:
        return _have_server_processes_ended(before, after)
    # Page faults do not show whether a hook or a process for a client has ended. So the kind of the server
    # decides: a svnserve without threads starts a process for each client.
    return server.kind == "svnserve" and THREADED.isdisjoint(server.argv)


def _query_subject(subject: Subject | None) -> caches.Residency | None:
    """Return how much of a subject is in memory; None without one, or if the kernel does not answer."""
    if not subject:
        return None
    # An output may not exist yet.
    existing = [folder for folder in subject.folders if folder.exists()]
    return caches.query_residency(*existing) if existing else None


def describe_binary(pid: int) -> str:
    """Return the program of a process: "/usr/bin/svnserve sha256:0123456789abcdef"; "" if unknown."""
    try:
        # In a container, root may not read this link of another user's process. The server's user may.
        with server_user.as_server_user():
            path = os.readlink(f"/proc/{pid}/exe")
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError:
        return ""
    return f"{path} sha256:{digest}"
